"""The status of brokers that share a journal, as the API and pages have it."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from broker_app.base import states
from broker_app.base.reply_types import Count, Seconds, Time, about, state_of
from broker_app.telemetry.component_health import Health
from broker_app.telemetry.lag_samples import KEPT, STEP_S

ACTIVE, STANDBY, STOPPED, UNREACHABLE = states.MIRROR
#: reasons of takeovers
STARTED, FORMER_STOPPED, EXPIRED, SWITCHOVER, FORCED = states.TAKEOVER_CAUSE
#: how the configuration reaches the other brokers
SEALED, READABLE, DATABASE = states.CONFIGURATION_COPY

_Role = Annotated[int, about("1 of a main, -1 of a mirror")]
_State = Annotated[str, state_of(states.MIRROR)]
_Uris = Annotated[list[str], about("what clients connect to")]


class FailoverBroker(TypedDict):
    """A broker as clients know it."""

    role: _Role
    state: _State
    web: str
    uris: _Uris


class FailoverList(TypedDict):
    """The brokers for clients, the active one first."""

    name: Annotated[str, about("of the brokers")]
    active: Annotated[str | None, about("comma-separated addresses of the active one")]
    uris: Annotated[list[str], about("of all, those of the active one first; empty without mirrors")]
    brokers: list[FailoverBroker]


class MirrorLease(TypedDict):
    """The lease of the journal."""

    holder: str
    epoch: Count
    left_s: float


class PrivateJournalStatus(TypedDict):
    """The copy of the journal in files of this broker."""

    place: str
    state: Annotated[str, state_of(states.PRIVATE_JOURNAL)]
    pending_frames: Annotated[Count, about("batches that are not copied yet")]
    error: Annotated[str, about("why it is not written; else empty")]


class MirrorBroker(TypedDict):
    """One of the brokers that share a journal."""

    id: str
    role: _Role
    state: _State
    web: str
    uris: _Uris
    position: Annotated[Count, about("of the journal, up to which it has applied")]
    lag_records: Count
    lags: Annotated[
        list[Count],
        Meta(
            max_length=KEPT,
            description=f"`lag_records` every {STEP_S} seconds of the last half hour, oldest first, as the "
            "broker that serves has seen them",
        ),
    ]
    lag_s: float
    in_step: bool
    seen_s: Annotated[float, about("since it last reported")]


class MirrorLoss(TypedDict):
    """The messages that a forced takeover would lose."""

    persistent: Count
    non_persistent: Count | None


class MirrorPause(TypedDict):
    """A time in which no standby takes over by itself."""

    left_s: float
    reason: str
    user: str


class Takeover(TypedDict):
    """A change of the lease's holder."""

    at: Time
    at_s: Seconds
    epoch: Count
    cause: Annotated[str, state_of(states.TAKEOVER_CAUSE)]
    broker: str
    role: int
    former: Annotated[str, about("the former holder; empty if there was none")]
    position: Count
    took_s: float
    non_persistent_lost: Count | None
    records_lost: Annotated[
        Count,
        about(
            "records that the journal had confirmed and its store has lost, as after a failover to a replica "
            "without them"
        ),
    ]
    reason: str
    detail: Annotated[str, about("a sentence")]


class Mirrors(TypedDict):
    """The brokers that share the journal, their health, the lease, what would be lost, and takeovers."""

    name: str
    id: Annotated[str, about("HOST:PORT of this broker")]
    role: _Role
    state: _State
    health: Health
    journal: Annotated[str, about("the store that is shared, without secrets")]
    lease_s: float
    lease: MirrorLease | None
    private_journal: Annotated[
        PrivateJournalStatus | None,
        about("the copy of the journal in files of this broker, while it serves"),
    ]
    configuration: Annotated[
        str,
        state_of(states.CONFIGURATION_COPY),
        about(
            "how users, rules and bridges reach the other brokers; where they are `readable in the store`, "
            "each reader of it is an administrator: set MOM_SECRET_KEY_FILE"
        ),
    ]
    brokers: list[MirrorBroker]
    would_be_lost: MirrorLoss
    successor: Annotated[str | None, about("the broker that an operator has chosen")]
    pause: Annotated[MirrorPause | None, about("while it lasts, no standby takes over by itself")]
    takeovers: list[Takeover]
