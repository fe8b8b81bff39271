"""A consumer's interest in one destination."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_app.core.peer import Peer
    from broker_app.core.queue import Queue
    from broker_app.core.replay import Replay
    from broker_app.core.selection import Selection
    from broker_app.core.selector import Selector
    from broker_app.core.topic import FanoutGroup

#: takes samples that nobody wants
NO_SAMPLES: deque[int] = deque(maxlen=0)


class Subscription:
    """`queue` is where its messages wait: a shared queue, or one of its own behind a topic filter.

    `head` is a free place for the session's rendering. `look`, while set, is the group of topic
    subscriptions that are served together because their messages are rendered to equal bytes.
    `probe_tag` is the delivery whose way to its acknowledgement is timed, 0 when there is none.
    """

    __slots__ = (
        "ack",
        "address",
        "available",
        "credit",
        "exclusive",
        "fanned_out_before",
        "handed_out",
        "head",
        "holds",
        "id",
        "lease_ms",
        "look",
        "peer",
        "probe_ms",
        "probe_tag",
        "queue",
        "render_key",
        "replay",
        "returned",
        "selection",
        "selector",
        "since_ms",
        "unsettled",
        "watched",
    )

    def __init__(
        self, peer: Peer, id: str, address: str, ack: str, credit: int, lease_ms: int, render_key: object
    ) -> None:
        self.peer = peer
        self.id = id
        self.address = address
        self.ack = ack
        self.credit = credit
        self.lease_ms = lease_ms
        self.render_key = render_key
        self.look: FanoutGroup | None = None
        self.queue: Queue
        self.head: bytes | None = None
        self.unsettled = 0
        #: the condition that messages must fulfil, None for all
        self.selector: Selector | None = None
        #: those it stands in line with on a queue that picks
        self.selection: Selection | None = None
        #: whether it wants to be the only consumer that is served
        self.exclusive = False
        #: its way through history, None when it gets what comes
        self.replay: Replay | None = None
        #: when it began
        self.since_ms = 0
        self.handed_out = 0
        #: deliveries that came back
        self.returned = 0
        #: what its look had fanned out when it joined it
        self.fanned_out_before = 0
        self.probe_tag = self.probe_ms = 0
        #: how long, in ms, it held what was timed; whoever wants that puts a bounded deque here
        self.holds = NO_SAMPLES
        #: whether settling has to look closer: there are leases, or bytes are counted
        self.watched = lease_ms > 0
        #: whether it stands in `line`
        self.available = False

    @property
    def line(self) -> deque[Subscription]:
        """Where it stands when it can take a message."""
        return self.queue.available if self.selection is None else self.selection.line

    @property
    def ended(self) -> bool:
        """Whether its connection has it no more; what it holds unsettled may be left."""
        return self.peer.subscriptions.get(self.id) is not self

    @property
    def fanned_out(self) -> int:
        """What it got together with the others of its look."""
        return self.look.fanned_out - self.fanned_out_before if self.look else 0

    @property
    def delivered(self) -> int:
        """Deliveries so far, with repeats."""
        return self.handed_out + self.fanned_out

    @property
    def acked(self) -> int:
        return self.delivered - self.unsettled - self.returned
