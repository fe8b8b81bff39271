"""Draining: producers are refused at the queues of a bridge that forwards what is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from broker_app.core.policy import ALL, CONSUMERS, PRODUCERS, DestinationPolicy, Policies
from broker_app.features.bridge.remote import DRAINING, Remote
from mom_client.storeandforward import PREFIX


def with_draining(policies: Policies, remotes: Iterable[Remote]) -> Policies:
    """The policies, with the queues of draining bridges shut for producers; the same where none is."""
    shut = [f"/queue/{PREFIX}{remote.name}/queue/" for remote in remotes if remote.desired == DRAINING]
    if not shut:
        return policies
    exact, prefixes = dict(policies.exact), dict(policies.prefixes)
    for beginning in shut:
        prefixes.setdefault(beginning, policies.of(beginning))
        for table in (exact, prefixes):
            for address, policy in table.items():
                if address.startswith(beginning):
                    table[address] = _shut(policy)
    return Policies(policies.default, exact, prefixes)


def _shut(policy: DestinationPolicy) -> DestinationPolicy:
    return replace(policy, paused=ALL if policy.paused in (CONSUMERS, ALL) else PRODUCERS)
