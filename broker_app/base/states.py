"""The states of everything that has some, and how each is shown.

REST and its description, metrics, the command line, the console with its TypeScript, and docs/protocol.md
read them here. The owner of a state takes its names from its family: `CLOSED, OPEN, HALF_OPEN = BREAKER`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from broker_app.base.marked import mark as _

Tone = Literal["good", "quiet", "warn", "bad", "accent"]


class Sign(NamedTuple):
    """A colour, and an icon, so that a state does not depend on colours."""

    tone: Tone
    icon: str


class State(NamedTuple):
    """`label` is for people, and translated; `meaning` is for the documents."""

    label: str
    sign: Sign
    meaning: str


#: of one thing, by the name that API and journals have
Family = Mapping[str, State]

_GOOD, _QUIET = Sign("good", "circle-check"), Sign("quiet", "circle")
_WARN, _BAD = Sign("warn", "triangle-alert"), Sign("bad", "circle-x")
_ALARM, _STALLED = Sign("bad", "octagon-alert"), Sign("bad", "hourglass")
_PAUSED, _OFF = Sign("quiet", "circle-pause"), Sign("quiet", "circle-off")

#: all of them, by the name of their type in TypeScript, with what has them
FAMILIES: Final[dict[str, tuple[str, Family]]] = {}


def _family(type_name: str, subject: str, states: dict[str, State]) -> Family:
    FAMILIES[type_name] = subject, (family := MappingProxyType(states))
    return family


def described(family: Family) -> str:
    """The meanings, for the description of a member of a reply."""
    return "; ".join(f"{name}: {state.meaning}" for name, state in family.items())


HEALTH: Final = _family("Health", "component, of any kind", {
    "running": State(_("running"), _GOOD, "it works"),
    "degraded": State(_("degraded"), _WARN, "it works, but not all of it, or not each time"),
    "stalled": State(_("stalled"), _STALLED, "messages wait, and none gets on"),
    "failing": State(_("failing"), _BAD, "it does not work"),
    "paused": State(_("paused"), _PAUSED, "an operator has paused it"),
    "off": State(_("off"), _OFF, "it has ended, or is not to run"),
})  # fmt: skip
DESTINATION: Final = _family("DestinationState", "queue or topic, the worst first", {
    "at-limit": State(_("at limit"), _ALARM, "a limit of messages or bytes is reached"),
    "no-consumer": State(_("no consumer"), Sign("warn", "user-x"), "messages wait or come, none is received"),
    "growing": State(_("growing"), Sign("warn", "trending-up"), "more messages come than are received"),
    "paused": State(_("paused"), _PAUSED, "an operator has paused sending, receiving or both"),
    "flowing": State(_("flowing"), Sign("good", "activity"), "messages came or went in the last second"),
    "idle": State(_("idle"), _QUIET, "no message came or went in the last second"),
})  # fmt: skip
SUBSCRIPTION: Final = _family("SubscriptionState", "durable or shared subscription", {
    "offline": State(_("offline"), _WARN, "it has no consumer"),
    "stalled": State(_("stalled"), _WARN, "its consumers have used up their credit"),
    "active": State(_("active"), _GOOD, "a consumer takes messages"),
})  # fmt: skip
CONNECTION: Final = _family("ConnectionState", "client", {
    "disconnected": State(_("disconnected"), _QUIET, "it has disconnected, within the last day"),
    "draining": State(_("draining"), Sign("warn", "loader"), "it finishes what it has, and is then closed"),
    "slow": State(_("slow"), _WARN, "a consumer of it takes longer than others do"),
    "congested": State(_("not reading"), _WARN, "it does not read what was sent to it"),
    "throttled": State(_("throttled"), Sign("warn", "circle-pause"), "it sends more than its limit"),
    "connected": State(_("connected"), _GOOD, "it is connected"),
})  # fmt: skip
CLIENT_EVENT: Final = _family("ClientEventName", "event of a client", {
    "connected": State(_("connected"), _QUIET, "it has logged in"),
    "subscribed": State(_("subscribed"), _QUIET, "it has subscribed to a destination"),
    "unsubscribed": State(_("unsubscribed"), _QUIET, "it has ended a subscription"),
    "slow": State(_("slow"), _WARN, "it takes longer for messages than others do"),
    "recovered": State(_("reads messages again"), _QUIET, "it is not slow any more"),
    "refused": State(_("refused"), _BAD, "it was refused something; `code` says why, `by` which rule"),
    "draining": State(_("drained"), _WARN, "an operator has it finish what it has"),
    "disconnecting": State(_("closed by an operator"), _BAD, "an operator (`by`) has disconnected it"),
    "closed": State(_("disconnected"), _QUIET, "it has disconnected, for the reason in `detail`"),
})  # fmt: skip
ALERT: Final = _family("AlertState", "alert", {
    "firing": State(_("firing"), _ALARM, "its condition holds, and no operator has taken care of it"),
    "acknowledged": State(_("acknowledged"), Sign("quiet", "user"), "an operator has taken care of it"),
    "silenced": State(_("silenced"), Sign("quiet", "bell-off"), "an operator has silenced it for a time"),
    "ended": State(_("ended"), _GOOD, "its condition does not hold any more"),
})  # fmt: skip
SEVERITY: Final = _family("Severity", "alert that fires", {
    "warning": State(_("warning"), _WARN, "it should be looked at"),
    "critical": State(_("critical"), _ALARM, "messages are at risk, or are not served"),
})  # fmt: skip
BRIDGE: Final = _family("BridgeState", "bridge", {
    "suspended": State(_("idle"), _PAUSED, "nothing is to be forwarded, so it has no connection"),
    "connecting": State(_("connecting"), _QUIET, "it connects to the other broker"),
    "running": State(_("running"), _GOOD, "it is connected"),
    "retrying": State(_("retrying"), _WARN, "the connection was lost or refused, and is tried again"),
    "failed": State(_("failed"), _BAD, "it needs another configuration, and does not try again"),
})  # fmt: skip
FLOW: Final = _family("FlowState", "queue of a bridge", {
    "suspended": State(_("suspended"), _PAUSED, "nothing is to be forwarded"),
    "starting": State(_("starting"), _QUIET, "it asks the other broker what has arrived there"),
    "running": State(_("running"), _GOOD, "messages are forwarded as they come"),
    "retrying": State(_("retrying"), _WARN, "the other broker has refused a message, and gets it again"),
    "stalled": State(_("stalled"), _STALLED, "messages wait, and none is accepted"),
    "failed": State(_("failed"), _BAD, "it needs another configuration, and does not try again"),
})  # fmt: skip
CALLBACK: Final = _family("CallbackState", "callback", {
    "paused": State(_("paused"), _PAUSED, "an operator has paused it: messages wait"),
    "suspended": State(_("suspended: no right"), _BAD, "its owner lacks a right"),
    "verifying": State(_("verifying the URL"), _WARN, "the URL is asked whether it agrees"),
    "unverified": State(_("the URL does not agree"), _BAD, "the URL has not agreed, and is asked again"),
    "running": State(_("running"), _GOOD, "messages are pushed as they come"),
    "ended": State(_("ended by its receiver"), _OFF, "the receiver has answered 410"),
    "failed": State(_("failed"), _BAD, "the subscription was refused, and is tried again"),
})  # fmt: skip
BREAKER: Final = _family("BreakerState", "circuit breaker of a host", {
    "closed": State(_("closed"), _QUIET, "messages are pushed to the host"),
    "open": State(_("open"), _BAD, "pushes have failed in a row, and the host is left alone for a time"),
    "half-open": State(_("half-open"), Sign("warn", "hourglass"), "one push is tried after that time"),
})  # fmt: skip
PUSH: Final = _family("PushOutcome", "push of a callback that has ended", {
    "accepted": State(_("accepted"), _GOOD, "the answer was 2xx"),
    "ended": State(_("ended"), _WARN, "the answer was 410: the callback ends"),
    "delayed": State(_("delayed"), _WARN, "the answer was 429 or 503 with Retry-After"),
    "refused": State(_("refused"), _WARN, "the answer was another 4xx"),
    "failed": State(_("failed"), _WARN, "the answer was another one"),
    "timed-out": State(_("timed out"), _WARN, "no answer came in time"),
    "unreachable": State(_("unreachable"), _WARN, "there was no connection"),
    "forbidden": State(_("address forbidden"), _WARN, "the address is not public, and not allowed"),
    "unsent": State(_("not sent"), _WARN, "no worker sends requests now"),
})  # fmt: skip
REFLEX: Final = _family("ReflexState", "reflex, or library of reflexes", {
    "running": State(_("running"), _GOOD, "it is asked"),
    "starting": State(_("starting"), _QUIET, "its library starts"),
    "failed": State(_("failed"), _BAD, "its library is not called for a while"),
    "unusable": State(_("unusable"), _BAD, "its function was not found; see error"),
    "disabled": State(_("disabled"), _OFF, "it is not to be asked"),
})  # fmt: skip
TRIAL: Final = _family("TrialResult", "reflex in a trial of a message", {
    "accepted": State(_("accepted"), _GOOD, "it would let the message pass"),
    "refused": State(_("refused"), _BAD, "it would refuse the message"),
    "not asked": State(_("not asked"), _QUIET, "the message would not come so far"),
})  # fmt: skip
STORED_TRIAL: Final = _family("StoredTrialResult", "stored message in a trial of a reflex", {
    "refused": State(_("refused"), _BAD, "it would refuse the message"),
    "changed": State(_("changed"), _WARN, "it would set or remove headers"),
    "kept": State(_("unchanged"), _GOOD, "it would let the message pass as it is"),
})  # fmt: skip
ORIGIN: Final = _family("OriginState", "connection to the origin of a service", {
    "connecting": State(_("connecting"), _WARN, "it is not connected, and tries again"),
    "connected": State(_("connected"), _GOOD, "it is connected"),
})  # fmt: skip
SERVICE: Final = _family("ServiceActivity", "service", {
    "active": State(_("active"), _GOOD, "it gets copies of messages to profiles"),
    "inactive": State(_("inactive"), _QUIET, "it gets none until it is activated"),
})  # fmt: skip
ORIGINAL: Final = _family("PendingState", "message at the origin of a service", {
    "waiting": State(_("waiting"), _QUIET, "it waits at the origin"),
    "fetching": State(_("being fetched"), Sign("quiet", "loader"), "it is on its way"),
    "fetched": State(_("held by a consumer"), _GOOD, "a consumer here holds it"),
    "settling": State(_("being settled"), Sign("good", "loader"), "it is settled at the origin"),
})  # fmt: skip
MIRROR: Final = _family("MirrorState", "broker that shares a journal", {
    "active": State(_("active"), _GOOD, "it holds the journal, and serves clients"),
    "standby": State(_("standby"), _QUIET, "it follows the journal, and can take over"),
    "stopped": State(_("stopped"), _OFF, "it was stopped"),
    "unreachable": State(_("not reachable"), _BAD, "it gives no sign of life"),
})  # fmt: skip
#: shown for a standby that could not take over at once
BEHIND: Final = State(_("standby, behind"), _WARN, "it does not have all of the journal yet")
PRIVATE_JOURNAL: Final = _family("PrivateJournalState", "copy of a shared journal in files", {
    "copying": State(_("being copied"), _WARN, "it is behind the shared journal"),
    "in step": State(_("in step"), _GOOD, "it has what the shared journal has"),
    "failed": State(_("not written"), _BAD, "it cannot be written; see error"),
})  # fmt: skip
CONFIGURATION_COPY: Final = _family("ConfigurationCopy", "configuration that brokers share", {
    "sealed": State(_("sealed"), _GOOD, "it reaches the others encrypted"),
    "readable in the store": State(_("readable in the store"), _WARN, "it reaches the others unencrypted"),
    "in a shared database": State(_("in a shared database"), _QUIET, "all of them use one database"),
})  # fmt: skip
TAKEOVER_CAUSE: Final = _family("TakeoverCause", "takeover of a shared journal", {
    "started": State(_("started"), _QUIET, "no broker held the journal"),
    "stopped": State(_("clean stop"), _QUIET, "the holder was stopped"),
    "lease-expired": State(_("lease expired"), _WARN, "the holder gave no sign of life"),
    "switchover": State(_("switch-over"), _GOOD, "an operator has ordered it"),
    "forced": State(_("forced"), _BAD, "an operator has forced it, with records missing"),
})  # fmt: skip
LINK: Final = _family("LinkState", "link to another broker of a cluster", {
    "up": State(_("up"), _GOOD, "messages pass"),
    "connecting": State(_("connecting"), _WARN, "not yet reached, or lost; it is tried again"),
    "refused": State(_("refused"), _BAD, "one of the two does not want the other; see reason"),
    "stopped": State(_("stopped"), _PAUSED, "the other has reported that it stops"),
})  # fmt: skip
#: shown for the broker that draws its cluster
HERE: Final = State(_("this broker"), _QUIET, "it is the one that is asked")
MEMBER: Final = _family("MemberState", "member of an enhanced cluster, as GlassFish MQ calls them", {
    "OPERATING": State(_("operating"), _GOOD, "it serves its clients"),
    "TAKEOVER_STARTED": State(_("being taken over"), _WARN, "another member takes over its journal"),
    "TAKEOVER_COMPLETE": State(_("taken over"), _WARN, "another member serves its journal"),
    "TAKEOVER_FAILED": State(_("takeover failed"), _BAD, "its journal could not be taken over"),
    "QUIESCE_STARTED": State(_("quiescing"), _WARN, "it refuses new clients"),
    "QUIESCE_COMPLETE": State(_("quiesced"), _WARN, "it refuses new clients, and has none any more"),
    "SHUTDOWN_STARTED": State(_("stopping"), _QUIET, "it stops"),
    "BROKER_DOWN": State(_("down"), _QUIET, "it was stopped"),
    "UNKNOWN": State(_("suspect"), _WARN, "its heart-beats are missing"),
})  # fmt: skip
TAKEOVER: Final = _family("TakeoverResult", "takeover of a member of an enhanced cluster", {
    "running": State(_("under way"), _WARN, "the taker reads the journal"),
    "complete": State(_("complete"), _GOOD, "the taker serves the journal"),
    "failed": State(_("failed"), _BAD, "nothing was taken: the messages wait in the journal"),
})  # fmt: skip
REBALANCING: Final = _family("RebalancingState", "rebalancing of a broker's clients", {
    "running": State(_("running"), _QUIET, "clients are being asked to go"),
    "done": State(_("done"), _GOOD, "all that were asked have gone"),
    "incomplete": State(_("incomplete"), _WARN, "some had not gone in time"),
    "replaced": State(_("replaced by the next"), _PAUSED, "another rebalancing has begun"),
})  # fmt: skip
STAYS: Final = _family("Stays", "client that stays in a rebalancing", {
    "": State("", _QUIET, "it would go"),
    "no-list": State(_("take no list"), _QUIET, "it does not listen to lists"),
    "priority": State(_("prefer this broker"), _QUIET, "it prefers this broker"),
    "transaction": State(_("have a transaction"), _QUIET, "it has one to end, and goes if it does in time"),
    "deliveries": State(_("have deliveries to settle"), _QUIET, "it has some to settle, and goes after that"),
    "asked": State(_("were asked"), _QUIET, "it was asked already"),
    "declined": State(_("stayed though asked"), _QUIET, "it was asked, and has stayed"),
    "no-address": State(_("have no address elsewhere"), _QUIET, "no broker has an address for its transport"),
    "not-needed": State(_("need not go"), _QUIET, "as many as should go are others"),
})  # fmt: skip
LIST_PLACE: Final = _family("ListPlaceState", "broker, for the list of brokers that clients are sent", {
    "listed": State(_("on the list"), _GOOD, "clients may go there"),
    "left": State(
        _("on the list though away"), _WARN, "it has left; update_cluster_clients_on_remove would take it off"
    ),
    "filtered": State(_("kept off by the filter"), _OFF, "update_cluster_filter does not match its name"),
    "away": State(_("away"), _QUIET, "it is not linked"),
    "no-address": State(_("without an address"), _WARN, "it has none that clients of this broker reach"),
})  # fmt: skip
PIPELINE: Final = _family("PipelineState", "run of the data pipeline", {
    "starting": State(_("starting"), _WARN, "Spark starts"),
    "running": State(_("running"), _GOOD, "a batch is processed"),
    "idle": State(_("waiting for messages"), _GOOD, "it has read all that there is"),
    "stopping": State(_("stopping"), _OFF, "it ends after its batch"),
    "done": State(_("done"), _OFF, "it has ended, with all that it was to read"),
    "stopped": State(_("stopped"), _OFF, "it was stopped"),
    "failed": State(_("failed"), _BAD, "it has ended with an error"),
    "lost": State(_("no longer reports"), _STALLED, "it has not reported for 30 s"),
})  # fmt: skip
RECONCILED: Final = _family("ReconciliationState", "forwarded message in a reconciliation", {
    "ok": State(_("arrived once"), _QUIET, "it has arrived once"),
    "in-flight": State(_("in flight"), _QUIET, "it was sent a moment ago, and may still arrive"),
    "lost": State(_("lost"), _BAD, "it has not arrived"),
    "doubled": State(_("doubled"), _BAD, "it has arrived more than once"),
    "foreign": State(_("unknown at the sender"), _BAD, "it has arrived, and was not sent"),
    "expired": State(_("expired"), _QUIET, "it expired at the sender"),
    "refused": State(_("refused"), _QUIET, "it became a dead letter at the sender"),
    "removed": State(_("removed"), _QUIET, "it was removed at the sender"),
})  # fmt: skip
JOB: Final = _family("JobState", "job", {
    "waiting": State(_("waiting"), Sign("quiet", "circle-dashed"), "jobs before it run"),
    "running": State(_("running"), Sign("accent", "loader"), "messages are processed"),
    "done": State(_("done"), _GOOD, "all its messages were processed"),
    "cancelled": State(_("cancelled"), _OFF, "a user has cancelled it"),
    "stopped": State(_("stopped by errors"), _ALARM, "too large a part of its messages was refused"),
    "failed": State(_("failed"), _BAD, "it could not go on; see reason"),
})  # fmt: skip
