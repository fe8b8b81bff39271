"""The policy of a destination: limits, behavior at limits, attempts, dead letters, retention.

`Policies` is one frozen value, replaced as a whole between two batches when an administrator changes
something. A pattern ends in `>` (the rest of the name) and is beaten by an exact name, and by a longer
pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mom_client.storeandforward import DEAD_SUFFIX

FLOW_CONTROL, REJECT_NEWEST, REMOVE_OLDEST, REMOVE_LOW_PRIORITY = LIMIT_BEHAVIORS = (
    "FLOW_CONTROL",
    "REJECT_NEWEST",
    "REMOVE_OLDEST",
    "REMOVE_LOW_PRIORITY",
)
#: whether each broker of a cluster has the limits of a destination for itself, or all have them together
BROKER, CLUSTER = SCOPES = ("broker", "cluster")
#: the limits to which the scope applies
SCOPED_LIMITS = ("max_messages", "max_bytes", "max_producers")
NONE, PRODUCERS, CONSUMERS, ALL = PAUSES = ("none", "producers", "consumers", "all")


@dataclass(frozen=True, slots=True)
class DestinationPolicy:
    """The policy of one destination. Sizes are in bytes; 0 is "no limit" unless noted."""

    max_messages: int = 0
    max_bytes: int = 0
    max_message_bytes: int = 0
    max_producers: int = 0
    max_consumers: int = 0
    limit_behavior: str = FLOW_CONTROL
    #: of max_messages, max_bytes and max_producers
    scope: str = BROKER
    #: a message that is returned this often is dead-lettered
    max_attempts: int = 16
    #: delay before a returned message is delivered again; each time `retry_factor` longer
    retry_delay_ms: int = 0
    retry_factor: float = 2.0
    max_retry_delay_ms: int = 3_600_000
    #: name of the dead letter queue; empty: the name of the queue and ".dead"
    dead_letters: str = ""
    #: whether expired messages are dead-lettered, too
    dead_letter_expired: bool = False
    #: whether there are dead letters; without, such messages are discarded
    use_dead_letters: bool = True
    #: how long a dedup-id is remembered
    dedup_window_ms: int = 600_000
    #: history of a topic for replay: kept for this time, at most so many bytes; both 0: none
    retention_ms: int = 0
    retention_bytes: int = 0
    #: a consumer that uses all its credit this long while messages wait is disconnected
    slow_consumer_ms: int = 0
    #: whether a queue is created by its first use; without, it needs a policy of its own
    auto_create: bool = True
    #: which side is paused: messages are refused, consumers receive nothing
    paused: str = NONE
    #: whether messages of a queue go to consumers of other brokers only if those of this one do not keep up
    prefer_local: bool = False
    #: whether consumers of other brokers receive nothing from here
    local_only: bool = False

    @property
    def retains(self) -> bool:
        """True if messages of a topic are kept for replay."""
        return bool(self.retention_ms or self.retention_bytes)

    @property
    def refuses_producers(self) -> bool:
        """True if an administrator has paused the producers."""
        return self.paused in (PRODUCERS, ALL)

    @property
    def holds_consumers(self) -> bool:
        """True if an administrator has paused the consumers."""
        return self.paused in (CONSUMERS, ALL)

    @property
    def has_limits(self) -> bool:
        """True if messages are checked against limits when they are published."""
        return bool(self.max_messages or self.max_bytes or self.max_message_bytes or self.max_producers)


#: of dead letter queues without a policy of their own, which are browsed rather than consumed
DEAD_LETTERS_POLICY = DestinationPolicy(
    max_messages=100_000, max_bytes=256 * 1024 * 1024, limit_behavior=REMOVE_OLDEST
)


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of all destinations, by address ("/queue/orders", "/topic/prices.>"). A queue that has
    one of its own exists, whether it is used or not."""

    default: DestinationPolicy = field(default_factory=DestinationPolicy)
    exact: Mapping[str, DestinationPolicy] = field(default_factory=dict)
    #: by the part before the ">"
    prefixes: Mapping[str, DestinationPolicy] = field(default_factory=dict)
    #: addresses of the queues that policies name for dead letters
    dead_letter_queues: frozenset[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        named = {
            policy.dead_letters for policy in (self.default, *self.exact.values(), *self.prefixes.values())
        }
        object.__setattr__(self, "dead_letter_queues", frozenset(f"/queue/{name}" for name in named if name))

    def of(self, address: str, topic: str = "") -> DestinationPolicy:
        """The policy of a destination: its own, that of the longest pattern, or the default. A durable
        subscription to `topic` has the policy of that topic."""
        found = self._found(address)
        if found is None and topic:
            found = self._found(topic)
        if not self.is_of_dead_letters(address):
            return found or self.default
        if found is None:
            return DEAD_LETTERS_POLICY
        # Dead letters come in at any time: at limits older ones make room.
        return replace(found, limit_behavior=REMOVE_OLDEST)

    def is_of_dead_letters(self, address: str) -> bool:
        """Return whether a queue is for dead letters, which wait for an operator and not for consumers: by
        its name, or since another one names it."""
        return address.endswith(DEAD_SUFFIX) or address in self.dead_letter_queues

    def _found(self, address: str) -> DestinationPolicy | None:
        found = self.exact.get(address)
        if found is None and self.prefixes:
            fitting = [prefix for prefix in self.prefixes if address.startswith(prefix)]
            found = self.prefixes[max(fitting, key=len)] if fitting else None
        return found

    @property
    def retains(self) -> bool:
        """True if any topic may have a history."""
        policies = (self.default, *self.exact.values(), *self.prefixes.values())
        return any(policy.retains for policy in policies)

    @property
    def shares_limits(self) -> bool:
        """True if any destination may share limits with other brokers."""
        policies = (self.default, *self.exact.values(), *self.prefixes.values())
        return any(policy.scope == CLUSTER for policy in policies)

    @property
    def limits_topics(self) -> bool:
        """True if any topic may have limits."""
        return self.default.has_limits or any(
            policy.has_limits
            for policies in (self.exact, self.prefixes)
            for address, policy in policies.items()
            if not address.startswith("/queue/")
        )
