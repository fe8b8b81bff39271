"""The bounds the core keeps; one frozen value, replaced as a whole when the policy changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    #: unsettled deliveries a subscription may ask for
    max_credit: int = 100_000
    #: messages of one queue and priority whose bodies stay in memory; what waits behind them is read back
    window: int = 16_384
    #: bytes of messages in memory, over all queues; beyond it new ones stay in the journal only
    memory_bytes: int = 128 * 1024 * 1024
    #: bodies read back in one go: messages and bytes; the next run is asked for while as many still wait
    fetch_messages: int = 4_096
    fetch_bytes: int = 4 * 1024 * 1024
    #: messages that may wait for one topic subscription before it is ended as too slow
    topic_pending: int = 10_000
    subscriptions_per_peer: int = 10_000
    #: bytes of their ids, destinations and selectors
    subscription_bytes_per_peer: int = 1024 * 1024
    #: patterns that a message is searched for (`Selector.searches`) in the selectors of one user
    searches_per_user: int = 200
    #: subscriptions that read histories at a time
    replays: int = 1_000
    #: durable and shared subscriptions of the broker
    named_subscriptions: int = 100_000
    #: queues of other brokers of which it is known how far they have come
    offsets: int = 100_000
    transactions_per_peer: int = 100
    commands_per_transaction: int = 10_000
    bytes_per_transaction: int = 64 * 1024 * 1024
    #: matches of one selector in a lane that are known ahead, and plain messages looked at in one go
    known_matches: int = 4_096
    scan_batch: int = 4_096
    #: message groups of a queue without unsettled messages whose consumer is remembered
    idle_groups: int = 10_000
    #: how long what was found for a selector is kept without a consumer; those who poll come back
    unused_selector_ms: int = 30_000
    #: messages that wait in memory before another attempt; more of them come at once
    delayed_redeliveries: int = 10_000
    #: dedup-ids that are remembered: of one destination, and of all
    dedup_ids: int = 500_000
    dedup_ids_together: int = 2_000_000
    #: an automatically created queue without consumers and messages goes after this time
    idle_queue_ms: int = 120_000
    #: how long a message waits for room in a full queue before it is refused
    patience_ms: int = 30_000
    #: bytes of all messages that wait for room (one peer may have half of it), and of one peer before it is
    #: read no further
    blocked_bytes: int = 64 * 1024 * 1024
    blocked_per_peer: int = 256 * 1024
    #: messages in all queues together, and their bytes; 0 is no limit
    max_messages: int = 0
    max_bytes: int = 0
    #: what messages may take beyond `memory_bytes`: those that live in memory only, as nothing else does then
    transient_bytes: int = 256 * 1024 * 1024
    #: bytes of what all open transactions hold; one user may have half of it
    bytes_of_transactions: int = 256 * 1024 * 1024

    @property
    def transient_per_user(self) -> int:
        """The part of `transient_bytes` that may wait for one user's connections. With what each of these may
        have in any case it stays below the level from which on others have to wait."""
        return self.transient_bytes // 2

    @property
    def transient_per_peer(self) -> int:
        return self.transient_bytes // 4
