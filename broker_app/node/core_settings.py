"""Limits and policies of the core, from the settings and the configuration of a node."""

from __future__ import annotations

from broker_app.config import Config
from broker_app.core.limits import Limits
from broker_app.core.policy import Policies
from broker_app.features.bridge.drain import with_draining
from broker_app.net.policy.policy import Policy


def policies_of(policy: Policy) -> Policies:
    """The policies of destinations for the core; those of draining bridges refuse producers."""
    return with_draining(policy.destinations.policies, policy.bridges.values())


def limits_of(config: Config) -> Limits:
    """The limits of the core, from the settings."""
    return Limits(
        memory_bytes=config.body_bytes,
        subscriptions_per_peer=config.max_subscriptions,
        bytes_per_transaction=config.transactions_bytes // 4,
        bytes_of_transactions=config.transactions_bytes,
        max_messages=config.max_messages,
        max_bytes=config.max_bytes,
        transient_bytes=config.transient_bytes,
        idle_queue_ms=round(config.queue_reap * 1000),
        blocked_timeout_ms=round(config.full_wait * 1000),
        blocked_bytes=config.blocked_bytes,
    )
