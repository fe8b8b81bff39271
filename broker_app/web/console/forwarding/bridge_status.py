"""The status of bridges, with labels and signs for pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker_app.base import durations, states
from broker_app.features.bridge.remote import DRAINING, PAUSED
from broker_app.net.rest.features.bridge_status import (
    BridgeEvent,
    BridgeStatus,
    Flow,
    ForwardingStatus,
)
from broker_app.web.console.base.badges import badge, health_badge
from broker_app.web.console.base.labels import label_of_event
from broker_app.web.console.base.shown import Shown
from broker_app.web.console.forwarding.verdicts import verdict_of_bridge
from broker_app.web.policy_sync import answer_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise


#: labels of a flow's counts; the first is the sum of the others
COUNTS: Final = {
    "sent": _("sent"),
    "accepted": _("accepted"),
    "refused": _("refused"),
    "unanswered": _("awaiting reply"),
    "in_flight": _("in flight"),
}
NO_NODE: Final = _("This process only serves the console and does not know the status of bridges.")


def all_bridges(request: HttpRequest) -> tuple[ForwardingStatus | None, StrPromise | str]:
    """All bridges, or the reason why their status is unknown."""
    return answer_of(request, lambda node: node.operations.list_bridges(), NO_NODE)


def one_bridge(
    request: HttpRequest, name: str
) -> tuple[tuple[BridgeStatus, list[BridgeEvent]] | None, StrPromise | str]:
    """One bridge with its events, or the reason why its status is unknown."""
    return answer_of(request, lambda node: node.operations.find_bridge(name), NO_NODE)


def shown_bridge(row: BridgeStatus) -> Shown:
    """A bridge for a template: its health, durations as text, its flows."""
    is_paused = row["desired"] == PAUSED
    return {
        **row,
        "state": health_badge(row, states.BRIDGE),
        "verdict": verdict_of_bridge(row),
        "is_paused": is_paused,
        "is_draining": row["desired"] == DRAINING,
        "connected": durations.since(row["connected_at"]),
        **_spans(row),
        "flows": [shown_flow(flow) for flow in row.get("flows", ())],
    }


def shown_flow(flow: Flow) -> Shown:
    """A flow for a template; `adds_up` is False if its counts are inconsistent."""
    counts = [
        (COUNTS["sent"], flow["sent"]),
        (COUNTS["accepted"], flow["accepted"]),
        (COUNTS["refused"], flow["refused"]),
        (COUNTS["unanswered"], flow["unanswered"]),
        (COUNTS["in_flight"], flow["in_flight"]),
    ]
    rest = sum(count for _label, count in counts[1:])
    return {
        **flow,
        "state": badge(states.HEALTH["paused"] if flow["paused"] else states.FLOW[flow["state"]]),
        **_spans(flow),
        "counts": counts,
        "adds_up": flow["sent"] == rest,
        "name": (name := flow["source"].removeprefix("/queue/")),
        "dead_name": f"{name}.dead",
    }


def shown_events(events: Sequence[BridgeEvent]) -> list[Shown]:
    """Events for a template, newest first; repeated events have the time of the last one."""
    return [
        {
            **event,
            "event": label_of_event(event["event"]),
            "at": datetime.fromisoformat(event["at"]),
            "tone": "bad" if event["code"] else "quiet",
            "icon": "circle-x" if event["code"] else "circle",
        }
        for event in sorted(events, key=lambda event: str(event["at"]), reverse=True)
    ]


def _spans(row: BridgeStatus | Flow) -> dict[str, str]:
    return {
        "oldest": durations.in_words(row["oldest_s"]) if row["oldest_s"] else "",
        "progress": durations.since(row["progress_at"]),
    }
