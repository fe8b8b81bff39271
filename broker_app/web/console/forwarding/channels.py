"""The page of message channels: the sites, and what became of the calls between their applications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _

from broker_app.features.channels.report import ChannelReport, SiteReport
from broker_app.web.console.base.frame import Page
from broker_app.web.policy_sync import answer_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

_NO_NODE: Final = _("This process only serves the console and does not know the sites.")
#: reasons of what was dropped, and statuses of requests that failed
_REASONS: Final[dict[str, StrPromise]] = {
    "noserver": _("no handler"),
    "late": _("answer came too late"),
    "busy": _("too much to do"),
    "timeout": _("no answer in time"),
    "rep-unavail": _("site went away or is busy"),
    "keyempty": _("handler gave no answer"),
    "buffer-small": _("several parts for one"),
    "invalid": _("invalid"),
}


class ChannelsPage(Page):
    """The sites as a table."""

    def get(self, request: HttpRequest) -> HttpResponse:
        report, unknown = _report_of(request)
        context: dict[str, object] = {"unknown": unknown}
        if report is not None:
            here = next(site for site in report.sites if site.is_here)
            context |= {"report": report, "here": here, "sites": [_shown(site) for site in report.sites]}
        return render(request, "console/channels.html", context)


def _report_of(request: HttpRequest) -> tuple[ChannelReport | None, StrPromise | str]:
    """The report, or the reason why it is unknown."""
    return answer_of(request, lambda node: node.operations.channel_report(), _NO_NODE)


def _shown(site: SiteReport) -> dict[str, object]:
    """A site for a template, with the words for reasons."""
    return {"site": site, "dropped": _labelled(site.dropped), "failed": _labelled(site.failed)}


def _labelled(counts: dict[str, int]) -> list[tuple[StrPromise | str, int]]:
    return [(_REASONS.get(why, why), count) for why, count in sorted(counts.items())]
