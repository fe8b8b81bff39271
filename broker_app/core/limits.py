"""The bounds the core keeps; one frozen value, replaced as a whole when the policy changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    #: deliveries that come back this often go to the dead letters
    max_attempts: int = 16
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
    transactions_per_peer: int = 100
    commands_per_transaction: int = 10_000
    bytes_per_transaction: int = 64 * 1024 * 1024
    #: an automatically created queue without consumers and messages goes after this time
    idle_queue_ms: int = 120_000
