"""The counters of a flow. They must add up: sent = accepted + refused + unanswered + in flight."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Messages of one flow since the node started."""

    #: written to the remote broker, repeats too
    sent: int = 0
    #: confirmed by the remote broker
    accepted: int = 0
    #: refused by the remote broker
    refused: int = 0
    #: no answer came before the connection, or the flow, broke; they are sent again if need be
    unanswered: int = 0
    #: found at the remote broker when the flow started again: sent before and not answered
    duplicate: int = 0
    #: by how many the remote broker's own count is not what it has to be; 0, or something is wrong
    gap: int = 0
    #: given to the dead letters after too many refusals
    dead_lettered: int = 0
    #: bytes of the bodies that were accepted
    bytes: int = 0

    @property
    def in_flight(self) -> int:
        """Written and not answered yet."""
        return self.sent - self.accepted - self.refused - self.unanswered
