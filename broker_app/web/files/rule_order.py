"""Ordering: positions of rules that are in a new order, with as few of them changed as can be."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

FIRST, STEP = 1000, 10


def positions(order: Sequence[str], before: Mapping[str, int]) -> dict[str, int]:
    """An increasing position for each name. The longest run of those that are in order keeps its own."""
    kept = _longest_run([(name, before[name]) for name in order if name in before])
    found: dict[str, int] = {}
    gap: list[str] = []
    last = 0
    for name in order:
        if name not in kept:
            gap.append(name)
            continue
        step = (kept[name] - last) // (len(gap) + 1)
        if step == 0:  # too little room between two of them
            return {name: FIRST + STEP * index for index, name in enumerate(order)}
        found |= {new: last + step * number for number, new in enumerate(gap, 1)}
        found[name] = last = kept[name]
        gap = []
    begin = last + STEP if last else FIRST
    return found | {new: begin + STEP * number for number, new in enumerate(gap)}


def _longest_run(places: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The longest increasing subsequence, by patience sorting."""
    ends: list[int] = []
    at: list[int] = []
    previous: list[int] = []
    for index, (_, place) in enumerate(places):
        pile = bisect_left(ends, place)
        previous.append(at[pile - 1] if pile else -1)
        if pile == len(ends):
            ends.append(place)
            at.append(index)
        else:
            ends[pile], at[pile] = place, index
    found = []
    index = at[-1] if at else -1
    while index >= 0:
        found.append(places[index])
        index = previous[index]
    return dict(reversed(found))
