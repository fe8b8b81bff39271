"""The queue by which bridges of other brokers read how far they have come."""

from __future__ import annotations

from broker_app.base.refused import Refused
from broker_app.core.destination import MAX_NAME, QUEUE, SYNC_QUEUE
from broker_app.core.model import Queue
from broker_app.core.policy import DestinationPolicy
from broker_app.core.remote.offset import Offset

SYNC_ADDRESS = f"/{QUEUE}/{SYNC_QUEUE}"
#: characters of the name of a sender, and of a queue there
MAX_SENDER, MAX_SOURCE = 100, MAX_NAME


class SyncQueue(Queue):
    """The queue over which bridges receive replication offsets; its depth is their number. It has no
    messages."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: dict[str, Offset]) -> None:
        self._offsets = offsets
        super().__init__(SYNC_ADDRESS, durable=True)

    def apply_policy(self, policy: DestinationPolicy) -> None:
        """Set the policy; clients can never publish to it."""
        super().apply_policy(policy)
        self.producers_paused = True  # so that senders are checked

    @property
    def depth(self) -> int:
        """The number of replication offsets."""
        return len(self._offsets)


def check_is_no_sync_queue(address: str) -> None:
    """Refused for the queue that only bridges use, by frames of their own."""
    if address == SYNC_ADDRESS:
        raise Refused(
            "unsupported",
            f"messages cannot be sent to, received from or moved in {SYNC_ADDRESS}: it has the replication "
            "offsets of brokers that forward to this one; GET /api/v1/forwarding shows them",
        )


def check_names(sender: str, source: str) -> None:
    """Refused for names of a sender or queue that are not valid."""
    for what, name, most in (("sender", sender, MAX_SENDER), ("source", source, MAX_SOURCE)):
        if not 1 <= len(name) <= most or not name.isprintable():
            raise Refused(
                "invalid",
                f"the {what} of a flow has the name {name[:80]!r}; it must have 1 to {most} printable "
                "characters",
            )
    if "/" in sender:
        raise Refused("invalid", f"the sender of a flow has the name {sender!r}; it must not contain /")
