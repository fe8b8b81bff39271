"""The report about a cluster from one of its brokers: for REST, CLI, metrics, alerts and pages."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

#: the types of `base.states`, for the type checker
LinkState = Literal["up", "connecting", "refused", "stopped"]
#: how a broker was found, the surest way first. static: this one's settings name it. multicast: it announces
#: itself. registry: the store of the enhanced cluster has it. broker: it, or another one, has named it
FoundBy = Literal["static", "multicast", "registry", "broker"]


#: between the member and the epoch in the name under which an adopted journal is in its cluster
ADOPTED_MARK: Final = "~"


class LinkReport(msgspec.Struct, frozen=True, kw_only=True):
    """One other broker, as this one sees it. Counts are since this broker started, rates messages a second,
    `since` is seconds since 1970; `sent` are messages that went there for its consumers, `received` those
    that came for consumers here, `returned` those of them that found no consumer here and went back."""

    broker: str
    address: str
    state: LinkState
    found_by: FoundBy = "broker"
    reason: str = ""
    since: float = 0.0
    version: str = ""
    tls: bool = False
    #: whether it refuses new clients (quiesced)
    quiesced: bool = False
    sent: int = 0
    received: int = 0
    returned: int = 0
    sent_rate: float = 0.0
    received_rate: float = 0.0
    #: deliveries there that are not settled, and deliveries from there that are not settled here
    unsettled_there: int = 0
    unsettled_here: int = 0
    round_trip_ms: float | None = None
    #: where clients of it connect: failover addresses for STOMP and web, empty until it is up
    stomp: str = ""
    web: str = ""


class InterestReport(msgspec.Struct, frozen=True, kw_only=True):
    """Consumers of one broker that want the same: of `address` ("/queue/orders", "/topic/prices.*",
    "/topic-subscription/NAME"), with this `selector`. `credit` is what they take together."""

    broker: str
    address: str
    selector: str = ""
    consumers: int
    credit: int


class AdoptedReport(msgspec.Struct, frozen=True, kw_only=True):
    """A journal of a `member` that has failed, which this broker serves since its takeover took `took_s`
    seconds; `messages` are left in it."""

    member: str
    journal: str
    epoch: int
    took_s: float | None
    messages: int


TakeoverResult = Literal["running", "complete", "failed"]
MemberState = Literal[
    "OPERATING", "TAKEOVER_STARTED", "TAKEOVER_COMPLETE", "TAKEOVER_FAILED", "QUIESCE_STARTED",
    "QUIESCE_COMPLETE", "SHUTDOWN_STARTED", "BROKER_DOWN", "UNKNOWN",
]  # fmt: skip


class SuspicionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The suspicion against a member: `since` when (seconds since 1970), in how many `looks` since then the
    broker that reports it has found no heart-beat, and the names of the members that suspect it, `by`."""

    since: float
    looks: int
    by: list[str]


class MemberReport(msgspec.Struct, frozen=True, kw_only=True):
    """One member of an enhanced cluster: `messages` are stored in its journal, which `taken_by` serves, empty
    if the member itself does; the last heart-beat came `seen_s` seconds ago. `why` explains the state; the
    `suspicion` is None for a member that is not suspect."""

    broker: str
    address: str
    state: MemberState
    messages: int
    taken_by: str = ""
    seen_s: float = 0.0
    why: str = ""
    suspicion: SuspicionReport | None = None


class TakeoverReport(msgspec.Struct, frozen=True, kw_only=True):
    """A takeover of the journal of `member` by `taker`. Times are seconds since 1970: `suspected` is when the
    taker has missed heart-beats, None if that was not the reason (`why`). `lost` says what was lost."""

    member: str
    journal: str
    taker: str
    epoch: int
    why: str
    began: float
    suspected: float | None = None
    took_s: float = 0.0
    messages: int = 0
    result: TakeoverResult = "running"
    lost: str = ""
    #: of which so many messages; None if that is not known
    lost_messages: int | None = None
    error: str = ""


class RemovalReport(msgspec.Struct, frozen=True, kw_only=True):
    """A `member` that was removed, with these `journals`, in which as many `messages` were as was last
    noted."""

    member: str
    journals: list[str]
    messages: int


class TakeoverTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The takeovers by one broker since it started: how many are complete and have failed, how many messages
    were taken over and how many are known to be lost, and how long the last one took, None without one. New
    clients were refused for `refused_s` seconds meanwhile."""

    complete: int = 0
    failed: int = 0
    messages: int = 0
    lost_messages: int = 0
    last_took_s: float | None = None
    refused_s: float = 0.0

    def with_one(self, takeover: TakeoverReport) -> TakeoverTotals:
        """The totals with another takeover that is complete."""
        return msgspec.structs.replace(
            self,
            complete=self.complete + 1,
            messages=self.messages + takeover.messages,
            lost_messages=self.lost_messages + (takeover.lost_messages or 0),
            last_took_s=takeover.took_s,
        )

    def with_failure(self) -> TakeoverTotals:
        """The totals with another takeover that has failed."""
        return msgspec.structs.replace(self, failed=self.failed + 1)


class EnhancedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The enhanced cluster that a broker is a member of. A member that ends is noticed within `worst_case_s`,
    by the settings before it; `taking_over` is whose journal this broker takes over now."""

    cluster_id: str
    heartbeat_s: float
    heartbeat_threshold: int
    monitor_s: float
    monitor_threshold: int
    lease_s: float
    worst_case_s: float
    taking_over: str = ""
    totals: TakeoverTotals = TakeoverTotals()
    members: list[MemberReport] = []
    takeovers: list[TakeoverReport] = []


class DiscoveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which this broker finds others, or is found by them, at `place`: a group, or the registry.
    `error` is why it does not work now, empty while it does."""

    way: FoundBy
    place: str
    error: str = ""


class ClusterReport(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as this broker sees it. `keeper` is the address of the master broker, empty without one,
    and `keeper_state` why changes of the configuration are refused, empty while they are accepted."""

    broker: str
    address: str
    keeper: str = ""
    keeper_is_here: bool = False
    keeper_state: str = ""
    record_entries: int = 0
    record_digest: str = ""
    quiesced: bool = False
    adopted: list[AdoptedReport] = []
    #: None for a cluster whose brokers do not take over
    enhanced: EnhancedReport | None = None
    discovery: list[DiscoveryReport] = []
    links: list[LinkReport] = []
    interest: list[InterestReport] = []

    def takers(self) -> dict[str, str]:
        """The members that are away and were taken over, each with the member that serves its messages. No
        link to them is expected, so that one that is down is no fault."""
        members = self.enhanced.members if self.enhanced is not None else []
        up = {link.broker for link in self.links if link.state == "up"}
        return {
            member.broker: member.taken_by
            for member in members
            if member.state == "TAKEOVER_COMPLETE" and member.broker not in up
        }

    def expected_links(self) -> list[LinkReport]:
        """The links that are up or should be."""
        takers = self.takers()
        return [link for link in self.links if link.broker not in takers]
