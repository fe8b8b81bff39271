"""The limits of the core: one frozen value, replaced as a whole when the configuration changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one broker."""

    #: the highest credit of a subscription
    max_credit: int = 100_000
    #: messages of one queue and priority whose bodies stay in memory; bodies behind them are read back later
    window: int = 16_384
    #: bytes of messages in memory, of all queues; beyond it, bodies of new ones stay in the journal only
    memory_bytes: int = 128 * 1024 * 1024
    #: bodies read back in one run: messages and bytes; the next run is requested while as many still wait
    fetch_messages: int = 4_096
    fetch_bytes: int = 4 * 1024 * 1024
    #: messages that may wait for one topic subscription before it is ended as too slow
    topic_pending: int = 10_000
    subscriptions_per_peer: int = 10_000
    #: bytes of their ids, destinations and selectors
    subscription_bytes_per_peer: int = 1024 * 1024
    #: the same for the link to another broker of a cluster, which subscribes for all its clients
    subscriptions_per_link: int = 100_000
    subscription_bytes_per_link: int = 32 * 1024 * 1024
    #: patterns in the selectors of one user that may read whole headers (`Selector.searches`)
    searches_per_user: int = 200
    #: subscriptions that replay history at a time
    replays: int = 1_000
    #: durable and shared subscriptions of the broker
    named_subscriptions: int = 100_000
    #: replication offsets: queues of other brokers that forward to this one
    offsets: int = 100_000
    #: producers of batches whose last batch is known
    bulk_producers: int = 100_000
    transactions_per_peer: int = 100
    commands_per_transaction: int = 10_000
    bytes_per_transaction: int = 64 * 1024 * 1024
    #: matches of one selector that are known ahead in a lane, and messages that are matched in one round
    known_matches: int = 4_096
    scan_batch: int = 4_096
    #: message groups of a queue that keep their owner without unsettled messages
    idle_groups: int = 10_000
    #: how long the matches of a selector are kept without a consumer, for clients that poll
    unused_selector_ms: int = 30_000
    #: messages that wait in memory for another attempt; beyond it, they are delivered again without delay
    delayed_redeliveries: int = 10_000
    #: dedup-ids that are remembered: for one destination, and in all
    dedup_ids: int = 500_000
    dedup_ids_together: int = 2_000_000
    #: an automatically created queue without consumers and messages is deleted after this time; 0 is never
    idle_queue_ms: int = 120_000
    #: how long the temporary queues of clients of another broker are kept while it is not linked
    suspended_queue_ms: int = 60_000
    #: how long a message waits for room in a full queue before it is refused
    blocked_timeout_ms: int = 30_000
    #: bytes of all blocked messages (one peer may have half of it), and of one peer before it is throttled
    blocked_bytes: int = 64 * 1024 * 1024
    blocked_per_peer: int = 256 * 1024
    #: messages in all queues together, and their bytes; 0 is no limit
    max_messages: int = 0
    max_bytes: int = 0
    #: bytes beyond `memory_bytes` for messages that exist in memory only
    transient_bytes: int = 256 * 1024 * 1024
    #: bytes of all open transactions; one user may have half of it
    bytes_of_transactions: int = 256 * 1024 * 1024

    @property
    def transient_per_user(self) -> int:
        """The part of `transient_bytes` that may wait for the connections of one user. Together with the
        minimum of each connection it stays below the level at which other users are blocked."""
        return self.transient_bytes // 2

    @property
    def transient_per_peer(self) -> int:
        """The part of `transient_bytes` that may wait for one connection."""
        return self.transient_bytes // 4
