"""What a dry run foretells of decisions and clients, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: events and clients that are told one by one
_MOST = 10


def takes_away(impact: Mapping[str, Any]) -> bool:
    """Whether something that was done of late would be denied, or a connected client loses what it uses."""
    return bool(impact["decisions"]["become_denied"] or impact["clients_affected"])


def sentences(impact: Mapping[str, Any] | None) -> Iterator[str]:
    """The impact of an edit, as the API tells it, for people; of one that has none, nothing."""
    if impact is None:
        return
    decisions = impact["decisions"]
    yield (
        f"of the decisions of the last 24 hours {decisions['allowed_stay']} stay allowed and "
        f"{decisions['denied_stay']} denied; {decisions['become_denied']} would be denied, "
        f"{decisions['become_allowed']} allowed"
    )
    for name, deed in (("would_be_denied", "denied"), ("would_be_allowed", "allowed")):
        for event in decisions[name][:_MOST]:
            yield (
                f"  {deed}: {event['user']} {event['right']} {event['destination']}, {event['times']} times: "
                f"{event['decided_by']}"
            )
        if len(decisions[name]) > _MOST:
            yield f"  {deed}: and others"
    for client in impact["clients"][:_MOST]:
        lost = ", ".join(f"{loss['right']} {loss['destination']}" for loss in client["loses"][:_MOST])
        yield f"connected: {client['user']} from {client['address'] or client['protocol']} would lose {lost}"
    if impact["clients_affected"] > _MOST:
        yield f"connected: {impact['clients_affected']} clients in all would lose something"
    if decisions["left_out"] or impact["clients_left_out"]:
        left = f"{decisions['left_out']} decisions and {impact['clients_left_out']} clients"
        yield f"{left} were not looked at in time"
