"""Reports of bridges: for the API, pages and system topics. Times are ms since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Protocol, TypedDict

from broker_app.base.reply_types import Count, about

Delivery = Annotated[
    Literal["exactly-once", "at-least-once"] | None,
    about("at-least-once to a broker that is no MOM; null: not known without a connection"),
]
EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"


class ErrorReport(TypedDict):
    """A trouble of a bridge."""

    code: str
    detail: str
    at_ms: int


class Counts(TypedDict):
    """Messages of a flow since the node started."""

    sent: Annotated[Count, about("accepted, refused, unanswered and in flight together")]
    accepted: Count
    refused: Count
    unanswered: Annotated[Count, about("the connection was lost before an answer")]
    duplicate: Annotated[Count, about("of the unanswered, those that had arrived")]
    gap: Annotated[Count, about("what the remote broker counts otherwise; 0, or something is wrong")]
    dead_lettered: Annotated[Count, about("made dead letters after too many refusals")]
    bytes: Annotated[Count, about("of bodies that were accepted")]


class FlowReport(Counts):
    """A flow: `queue` is the remote queue, `source` the one here, `depth` what waits there with what is in
    flight."""

    queue: str
    source: str
    state: str
    paused: bool
    error: ErrorReport | None
    progress_ms: int | None
    depth: int
    in_flight: int


class PipeReport(TypedDict):
    """A bridge: what is desired of it, its pipe, and its flows by queue. `foreign`, `server` and
    `connected_ms` are None or empty without a connection."""

    name: str
    address: str
    desired: str
    drained: bool
    state: str
    error: ErrorReport | None
    attempts: int
    connected_ms: int | None
    foreign: bool | None
    server: str
    flows: list[FlowReport]


class EventReport(TypedDict):
    """Something that happened to a bridge; `times` in a row, the first time at `first_ms`."""

    time_ms: int
    first_ms: int
    event: str
    queue: str
    code: str
    detail: str
    times: int


class MarkReport(TypedDict):
    """Progress of a remote queue that is forwarded to this broker: all of `source` up to `accepted`, `count`
    messages in total, as the user `owner`."""

    sender: str
    source: str
    owner: str
    accepted: int
    count: int
    time_ms: int


class OrphanError(TypedDict):
    """The reason why a queue waits for a bridge."""

    code: str
    detail: str


class Orphan(TypedDict):
    """A queue that no bridge empties."""

    bridge: str
    queue: str
    source: str
    depth: Count
    error: OrphanError


class Forwarding(Protocol):
    """Bridges (`bridge.report`), and operations on them."""

    def report_of(self, name: str) -> PipeReport | None:
        """The status of a bridge; None if it does not exist."""

    def reports(self) -> Sequence[PipeReport]:
        """The status of all bridges, by name."""

    def events_of(self, name: str) -> Sequence[EventReport] | None:
        """The events of a bridge, the newest last; None if it does not exist."""

    def orphans(self) -> Sequence[Orphan]:
        """Queues that wait for a bridge that is not configured."""

    def incoming(self, most: int) -> Sequence[MarkReport]:
        """The replication offsets of brokers that forward to this one, the newest first."""

    def retry(self, name: str, queue: str | None = None) -> bool:
        """Try again now what waits for its next attempt; False when there is no such bridge."""
