"""One sentence at the head of the page of a bridge or callback: how it is doing, and why."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from broker_app.base import durations
from broker_app.features.bridge.remote import DRAINING, PAUSED
from broker_app.net.rest.features.bridge_status import BridgeStatus
from broker_app.net.rest.features.callback_status import CallbackStatus
from broker_app.web.console.base.causes import cause_in_words


def verdict_of_bridge(row: BridgeStatus) -> str:
    """The sentence about a bridge."""
    waiting = _waiting(row["backlog"])
    if row["desired"] == PAUSED:
        return _("An operator has paused it; %(waiting)s.") % {"waiting": waiting}
    if row["error"]:
        cause = cause_in_words(row["error"]["detail"])
        return _attempts(_("%(waiting)s: %(cause)s") % {"waiting": waiting, "cause": cause}, row["attempts"])
    if row["desired"] == DRAINING:
        return _("It takes no new messages until it is drained; %(waiting)s.") % {"waiting": waiting}
    if row["backlog"]:
        age = durations.in_words(row["oldest_s"])
        return _("%(rate)s/s are forwarded; %(waiting)s, the oldest for %(age)s.") % {
            "rate": row["accepted_rate"],
            "waiting": waiting,
            "age": age,
        }
    if row["accepted_rate"]:
        return _("%(rate)s/s are forwarded; nothing waits.") % {"rate": row["accepted_rate"]}
    return _("Everything was forwarded; nothing waits.")


def verdict_of_callback(row: CallbackStatus) -> str:
    """The sentence about a callback."""
    waiting = _waiting(row["pending"])
    if row["desired"] == PAUSED:
        return _("An operator has paused it; %(waiting)s.") % {"waiting": waiting}
    if row["reason"]:
        return _("%(waiting)s: %(cause)s") % {"waiting": waiting, "cause": cause_in_words(row["reason"])}
    failed, last = row["failures_in_row"], row["last"]
    if failed and last:
        sentence = ngettext(
            "The last push failed; %(waiting)s: %(cause)s",
            "The last %(count)s pushes failed; %(waiting)s: %(cause)s",
            failed,
        )
        cause = cause_in_words(last["detail"]) or last["status"] or last["outcome"]
        return sentence % {"count": failed, "waiting": waiting, "cause": cause}
    if row["pushes"]["accepted"]:
        return _("The receiver accepts what is pushed; %(waiting)s.") % {"waiting": waiting}
    return _("Nothing has been pushed yet; %(waiting)s.") % {"waiting": waiting}


def _waiting(number: int) -> str:
    if not number:
        return _("nothing waits")
    return ngettext("%(count)s message waits", "%(count)s messages wait", number) % {"count": f"{number:,}"}


def _attempts(sentence: str, attempts: int) -> str:
    if not attempts:
        return sentence
    tries = ngettext("%(count)s attempt", "%(count)s attempts", attempts) % {"count": attempts}
    return f"{sentence} ({tries})"
