"""Offsets of a query: for each broker the position up to which its journal was read, end exclusive.

Spark stores them as JSON and compares their text, so names and fields are always in order:

    {"A": {"epoch": 3, "pos": 812345, "tag": 51423906}}

`epoch` and `tag` are those of the journal when `pos` was taken from it; see `brokers.check`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyspark_mom.errors import MomError

#: positions are u64 in the journal, and bigint in Spark
MAX_POSITION: Final = 2**63 - 1


class InvalidOffset(MomError):
    """A text is not an offset."""

    code = "INVALID_OFFSET"


class Place(NamedTuple):
    """A position in the journal with this epoch and tag."""

    epoch: int
    pos: int
    tag: int


#: by the names of brokers, and as Spark stores it
Offset = Mapping[str, Place]
Stored = dict[str, dict[str, int]]


def parse(stored: Mapping[str, Any]) -> dict[str, Place]:
    """The offset that Spark has stored. Raises InvalidOffset."""
    found = {}
    for name, fields in stored.items():
        try:
            place = Place(*(int(fields[field]) for field in Place._fields))
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidOffset(
                f"the offset of {name!r} is {json.dumps(fields)[:200]}; it needs the numbers epoch, pos and "
                "tag"
            ) from error
        if not 0 <= place.pos <= MAX_POSITION:
            raise InvalidOffset(
                f"the offset of {name!r} has the position {place.pos}; it is from 0 to 2^63 - 1"
            )
        found[name] = place
    return found


def as_dict(offset: Offset) -> Stored:
    """The form that Spark stores; equal offsets have equal texts."""
    return {name: dict(sorted(offset[name]._asdict().items())) for name in sorted(offset)}


def text(offset: Offset) -> str:
    """The JSON of an offset."""
    return json.dumps(as_dict(offset))


def backlog(start: Offset, end: Offset) -> dict[str, int]:
    """Positions between two offsets, by broker; those of brokers that only one of them has are 0."""
    return {name: max(0, end[name].pos - start[name].pos) for name in end if name in start}


def limit(start: Offset, end: Offset, most: int) -> dict[str, Place]:
    """`end`, reduced to at most `most` positions after `start`: each broker has a part in proportion to its
    backlog, so that one with little to read takes nothing from the others."""
    waiting = backlog(start, end)
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    shares = {name: most * count // total for name, count in waiting.items()}
    # The rest goes to those that lost most by rounding down; without it, small ones would never be read.
    lost = sorted(waiting, key=lambda name: (-(most * waiting[name] % total), name))
    for name in lost[: most - sum(shares.values())]:
        shares[name] += 1
    return {
        **end,
        **{name: end[name]._replace(pos=start[name].pos + share) for name, share in shares.items()},
    }


def merge(start: Offset, end: Offset) -> dict[str, Place]:
    """`end` with the brokers that only `start` has; where nothing is to be read, the place of `start`, so
    that a new epoch alone is no progress."""
    return {
        name: start[name]
        if name in start and (name not in end or end[name].pos <= start[name].pos)
        else end[name]
        for name in {*start, *end}
    }
