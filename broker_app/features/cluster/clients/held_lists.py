"""The lists that clients have, each with the number of its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from broker_app.features.cluster.clients.client_reports import HeldList, ListVersion


def held_lists(held: Iterable[tuple[str, ListVersion | None]], present: Mapping[str, int]) -> list[HeldList]:
    """All lists that clients have, those of most clients first. `held` are the listener and the list of each
    client, None for none, and `present` the versions of the present lists by listener."""
    clients: Counter[tuple[str, int]] = Counter()
    since: dict[tuple[str, int], float | None] = {}
    for listener, one in held:
        key = listener, one.version if one is not None else 0
        clients[key] += 1
        since[key] = one.since if one is not None else None
    return [
        HeldList(
            listener=listener,
            version=version,
            since=since[listener, version],
            behind=version != present[listener],
            clients=number,
        )
        for (listener, version), number in clients.most_common()
    ]
