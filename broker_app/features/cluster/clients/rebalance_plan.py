"""The clients that move when a broker has joined: as many clients as each broker has more than its share.

All brokers know how many clients each has, so that each moves its own surplus only, to those that have too
few, in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping


def most_of(own: int, others: Mapping[str, int]) -> int:
    """The most clients that a broker has once all are rebalanced."""
    return -(-(own + sum(others.values())) // (len(others) + 1))


def plan(own: int, others: Mapping[str, int]) -> dict[str, int]:
    """The number of this broker's `own` clients that go to each of the `others`, which have so many."""
    share = (own + sum(others.values())) // (len(others) + 1)
    most = most_of(own, others)
    surplus = own - most
    if surplus <= 0:
        return {}
    missing = {broker: share - clients for broker, clients in others.items() if clients < share}
    elsewhere = sum(max(0, clients - most) for clients in others.values())
    wanted = sum(missing.values())
    if not wanted:
        return {}
    # The others move their surplus, too: each broker fills its part of what is missing.
    moving = min(surplus, round(wanted * surplus / (surplus + elsewhere)))
    found: dict[str, int] = {}
    for at, (broker, clients) in enumerate(sorted(missing.items())):
        rest = moving - sum(found.values())
        last = at == len(missing) - 1
        number = rest if last else min(rest, round(moving * clients / wanted))
        if number > 0:
            found[broker] = number
    return found
