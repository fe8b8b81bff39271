"""Percentiles of durations, from samples, in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

#: buckets of an octave are 2 ** this: a percentile is at most an eighth too high
_FINE = 3
_FINENESS = 1 << _FINE
#: durations up to 2 ** 40 ms, 34 years
_MAX_BITS = 40
_BUCKETS = (_MAX_BITS - _FINE + 1) * _FINENESS


class Percentiles(NamedTuple):
    """Durations in seconds, None without samples."""

    p50: float | None
    p95: float | None
    p99: float | None
    samples: int


def bucket(ms: int) -> int:
    """The bucket of a duration: one for each of the first milliseconds, then eight an octave."""
    if ms < _FINENESS:
        return max(0, ms)
    bits = ms.bit_length()
    if bits > _MAX_BITS:
        return _BUCKETS - 1
    return (bits - _FINE) * _FINENESS + ((ms >> (bits - _FINE - 1)) & (_FINENESS - 1))


def upper_ms(index: int) -> int:
    """The longest duration of a bucket."""
    if index < _FINENESS:
        return index
    octave, part = divmod(index, _FINENESS)
    return ((_FINENESS + part + 1) << (octave - 1)) - 1


class Durations:
    """The samples of the last half to whole minute, counted by logarithmic buckets."""

    HALF_S = 30
    __slots__ = ("_former", "_half", "_latest", "_now", "_stale")

    def __init__(self) -> None:
        self._now = array("I", bytes(4 * _BUCKETS))
        self._former = array("I", bytes(4 * _BUCKETS))
        self._half = 0
        self._stale = True
        self._latest = Percentiles(None, None, None, 0)

    def record(self, second: int, samples_ms: Iterable[int]) -> None:
        """Take the samples of the second `second`."""
        self._turn(second)
        for ms in samples_ms:
            self._now[bucket(ms)] += 1
            self._stale = True

    def percentiles(self, second: int) -> Percentiles:
        """As of `second`; each is the upper end of the bucket it falls into."""
        self._turn(second)
        if self._stale:
            self._latest, self._stale = self._count(), False
        return self._latest

    def shift(self, by_s: int) -> None:
        """Have the samples be so much later, for the clock was set."""
        self._half += by_s // self.HALF_S

    def _turn(self, second: int) -> None:
        half = second // self.HALF_S
        if half == self._half:
            return
        empty = array("I", bytes(4 * _BUCKETS))
        self._former = self._now if half == self._half + 1 else empty
        self._now = array("I", bytes(4 * _BUCKETS))
        self._half = half
        self._stale = True

    def _count(self) -> Percentiles:
        counts = list(map(int.__add__, self._now, self._former))
        total = sum(counts)
        if not total:
            return Percentiles(None, None, None, 0)
        found: list[float] = []
        seen = 0
        ranks = [-(-total * percent // 100) for percent in (50, 95, 99)]
        for index, count in enumerate(counts):
            seen += count
            while len(found) < len(ranks) and seen >= ranks[len(found)]:
                found.append(upper_ms(index) / 1000)
            if len(found) == len(ranks):
                break
        return Percentiles(found[0], found[1], found[2], total)
