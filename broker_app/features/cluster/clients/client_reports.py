"""Reports about the clients of a broker in a cluster: for REST, CLI and pages."""

from __future__ import annotations

from typing import Literal

import msgspec

#: the types of `base.states`, for the type checker
Stays = Literal[
    "", "no-list", "priority", "transaction", "deliveries", "asked", "declined", "no-address", "not-needed"
]
RebalancingState = Literal["running", "done", "incomplete", "replaced"]
ListPlaceState = Literal["listed", "left", "filtered", "away", "no-address"]


class ListVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A list of brokers, since when it is that of clients (seconds since 1970), and what has changed it."""

    version: int
    since: float
    cause: str
    uris: list[str]


class ListPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Another broker of the cluster: whether it is on a list, and why."""

    broker: str
    state: ListPlaceState


class ListenerLists(msgspec.Struct, frozen=True, kw_only=True):
    """The list that clients of a listener with settings of its own are sent."""

    listener: str
    version: int
    updates: bool
    updates_on_remove: bool
    rebalances: bool
    filter: str
    uris: list[str]
    brokers: list[ListPlace]


class HeldList(msgspec.Struct, frozen=True, kw_only=True):
    """The number of clients that have one list: its version, 0 for none, and since when it was that of
    clients (seconds since 1970); `behind` if it is not the present one. `listener` is empty for the general
    list."""

    listener: str
    version: int
    since: float | None
    behind: bool
    clients: int


class ListsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The list that clients are sent, former ones, latest first, and what is odd about the settings; `behind`
    is the number of clients that have an older one, and `held` the lists that most clients have. `own` are
    the addresses of this broker, the last of each list. `brokers` are the others, on the list or not; none if
    no list is sent. `listeners` are those with settings of their own."""

    version: int
    updates: bool
    updates_on_remove: bool
    rebalances: bool
    filter: str
    warnings: list[str]
    clients: int
    behind: int
    held: list[HeldList]
    own: list[str]
    brokers: list[ListPlace]
    versions: list[ListVersion]
    listeners: list[ListenerLists]


class ClientReport(msgspec.Struct, frozen=True, kw_only=True):
    """A client of this broker: the version of the list that it was sent last, 0 for none, since when that was
    the one of clients (seconds since 1970), and whether it is `behind` the present one; and where it would go
    if clients were rebalanced now, or why it stays. `listener` is empty unless it has settings of its own."""

    id: str
    user: str
    client_id: str
    address: str
    listener: str
    list_version: int
    list_since: float | None
    behind: bool
    to: str
    stays: Stays


class BrokerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The clients of a broker; `gets` are those that would go there from this broker, `surplus` are more than
    its share."""

    broker: str
    clients: int
    gets: int
    surplus: int


class Rebalancing(msgspec.Struct, kw_only=True):
    """A rebalancing of this broker's clients. `planned` and `moved` are numbers of clients by broker; times
    are seconds since 1970."""

    cause: str
    began: float
    planned: dict[str, int]
    moved: dict[str, int]
    declined: int = 0
    state: RebalancingState = "running"
    ended: float | None = None


class RebalanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a rebalancing now: `moves` clients of this broker would go to others at once, and some of
    those that stay, by reason, later. `share` is the most that a broker would have. `history` has the latest
    first."""

    broker: str
    share: int
    moves: int
    brokers: list[BrokerLoad]
    stays: dict[str, int]
    running: Rebalancing | None
    history: list[Rebalancing]
