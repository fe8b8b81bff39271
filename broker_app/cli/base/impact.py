"""Sentences about the impact of a change on decisions and connected clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: events and clients that are listed one by one
_MAX_LINES = 10


def removes_access(impact: Mapping[str, Any]) -> bool:
    """True if recently allowed actions would be denied, or a connected client loses a right it uses."""
    return bool(impact["decisions"]["become_denied"] or impact["clients_affected"])


def sentences(impact: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the impact that the API reports, as sentences; nothing for None."""
    if impact is None:
        return
    decisions = impact["decisions"]
    yield (
        f"of the decisions of the last 24 hours {decisions['allowed_stay']} stay allowed and "
        f"{decisions['denied_stay']} denied; {decisions['become_denied']} would be denied, "
        f"{decisions['become_allowed']} allowed"
    )
    for name, outcome in (("would_be_denied", "denied"), ("would_be_allowed", "allowed")):
        for event in decisions[name][:_MAX_LINES]:
            yield (
                f"  {outcome}: {event['user']} {event['right']} {event['destination']}, "
                f"{event['times']} times: {event['decided_by']}"
            )
        if len(decisions[name]) > _MAX_LINES:
            yield f"  {outcome}: and more"
    for client in impact["clients"][:_MAX_LINES]:
        lost = ", ".join(f"{loss['right']} {loss['destination']}" for loss in client["loses"][:_MAX_LINES])
        yield f"connected: {client['user']} from {client['address'] or client['protocol']} would lose {lost}"
    if impact["clients_affected"] > _MAX_LINES:
        yield f"connected: {impact['clients_affected']} clients in total would lose a right"
    if decisions["left_out"] or impact["clients_left_out"]:
        left = f"{decisions['left_out']} decisions and {impact['clients_left_out']} clients"
        yield f"{left} could not be checked in time"
