"""Time series of a destination or of the node: columns of numbers, a row for each second, ten seconds and
minute.

Only steps with activity are written; the steps between two of them are filled in at the next one or when the
series is read, so an idle destination costs nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import nan
from typing import Any, NamedTuple

#: messages within a step
COUNTS = ("in", "out", "acked", "dead", "expired")
#: as they stand at the end of a step
GAUGES = ("depth", "unsettled", "delayed", "consumers")
#: in seconds, at the end of a step
AGES = ("oldest_s",)
#: in seconds, of samples of the minute before; no number while there are none
DURATIONS = ("wait_p50_s", "wait_p95_s", "wait_p99_s", "hold_p50_s", "hold_p95_s", "hold_p99_s")
COLUMNS = (*COUNTS, *GAUGES, *AGES, *DURATIONS)

_MOST = (1 << 32) - 1

Row = Sequence[float]
Series = dict[str, list[float | None]]
#: a step in seconds, and how many rows of it are kept
Resolution = tuple[int, int]


class Layout:
    """The columns of a time series, in this order: counts within a step, gauges at its end, ages at its end,
    and durations, which are not known at every step."""

    def __init__(
        self,
        counts: Sequence[str],
        gauges: Sequence[str],
        ages: Sequence[str],
        durations: Sequence[str],
    ) -> None:
        self.columns = (*counts, *gauges, *ages, *durations)
        #: of each column, how `array` keeps a number of it
        self.codes = "I" * (len(counts) + len(gauges)) + "f" * (len(ages) + len(durations))
        self.counts = len(counts)
        #: where ages begin, and durations
        self.first_age = len(counts) + len(gauges)
        self.first_duration = self.first_age + len(ages)


DESTINATION = Layout(COUNTS, GAUGES, AGES, DURATIONS)
#: ten minutes, an hour, a day
DESTINATION_RESOLUTIONS: Sequence[Resolution] = ((1, 600), (10, 360), (60, 1_440))


class Ring:
    """The newest `length` rows at `step_s` seconds each, in at most 4 bytes a number."""

    __slots__ = ("_columns", "_first", "_last", "_layout", "length", "step_s")

    def __init__(self, step_s: int, length: int, layout: Layout = DESTINATION) -> None:
        self.step_s = step_s
        self.length = length
        self._layout = layout
        self._columns: list[array[Any]] = [array(code) for code in layout.codes]
        #: numbers of the step that stands at index 0 (or stood there rounds ago), and of the newest
        self._first = 0
        self._last = -1

    def put(self, second: int, row: Row) -> None:
        """Take the row of `second`, which is not before the last one's: counts of one step add up."""
        step = second // self.step_s
        if self._last < 0:
            self._first = step
        elif step <= self._last:
            self._add(row)
            return
        else:
            self._fill(step - 1)
        self._last = step
        index = (step - self._first) % self.length
        for column, value in zip(self._columns, row, strict=True):
            number = value if column.typecode == "f" else min(int(value), _MOST)
            column[index : index + 1] = array(column.typecode, (number,))

    def shift(self, by_s: int) -> None:
        """Have all rows stand so much later."""
        if self._last >= 0:
            steps = by_s // self.step_s
            self._first += steps
            self._last += steps

    def catch_up(self, second: int) -> None:
        """Nothing has happened from the last row to `second`."""
        if self._last >= 0:
            self._fill(second // self.step_s)

    def series(self, until: int, count: int, together: int = 1) -> Series:
        """`count` steps of `together` rows each, the last one with the second `until` in it. Counts are
        summed, of all else the last is taken; None is where nothing is known."""
        self.catch_up(until)
        end = until // self.step_s // together * together + together  # behind the last row
        start = end - count * together
        found: Series = {}
        for number, name in enumerate(self._layout.columns):
            rows = self._read(self._columns[number], start, end)
            steps = [rows[at : at + together] for at in range(0, len(rows), together)]
            if number < self._layout.counts:
                found[name] = [_sum(step) for step in steps]
            else:
                found[name] = [_last(step) for step in steps]
        return found

    def _add(self, row: Row) -> None:
        index = (self._last - self._first) % self.length
        for number, (column, value) in enumerate(zip(self._columns, row, strict=True)):
            before = column[index] if number < self._layout.counts else 0
            column[index] = value if column.typecode == "f" else min(int(before + value), _MOST)

    def _fill(self, step: int) -> None:
        """Rows of rest behind the last one, up to `step`."""
        gap = min(step - self._last, self.length)
        if gap <= 0:
            return
        layout = self._layout
        at = (self._last - self._first) % self.length
        last: list[float] = [column[at] for column in self._columns]
        skipped = step - self._last - gap  # forgotten before they were written
        if skipped:
            self._first = step - self.length + 1
            self._columns = [array(code) for code in layout.codes]
            self._last = self._first - 1
        start = self._last + 1
        for number, column in enumerate(self._columns):
            rest: array[Any]
            if number < layout.counts:
                rest = array(column.typecode, bytes(column.itemsize * gap))
            elif layout.first_age <= number < layout.first_duration and last[number]:
                ages = (last[number] + self.step_s * (skipped + after) for after in range(1, gap + 1))
                rest = array("f", ages)
            elif number >= layout.first_duration:
                rest = array("f", (nan,)) * gap
            else:
                rest = array(column.typecode, (last[number],)) * gap
            self._write(column, (start - self._first) % self.length, rest)
        self._last = step

    def _write(self, column: array[Any], index: int, values: array[Any]) -> None:
        room = min(len(values), self.length - index)
        column[index : index + room] = values[:room]
        column[: len(values) - room] = values[room:]

    def _read(self, column: array[Any], start: int, end: int) -> list[float | None]:
        oldest = max(self._first, self._last - self.length + 1)
        rows: list[float | None] = []
        for step in range(start, end):
            if self._last < 0 or not oldest <= step <= self._last:
                rows.append(None)
            else:
                value = column[(step - self._first) % self.length]
                rows.append(None if value != value else value)
        return rows


class Window(NamedTuple):
    """A piece of the past: `t0` is where its first step begins (seconds since 1970)."""

    t0: int
    step_s: int
    series: Series


class History:
    """One past at several resolutions."""

    LONGEST_S = 86_400
    __slots__ = ("_rings",)

    def __init__(
        self, layout: Layout = DESTINATION, resolutions: Sequence[Resolution] = DESTINATION_RESOLUTIONS
    ) -> None:
        self._rings = tuple(Ring(step_s, length, layout) for step_s, length in resolutions)

    def put(self, second: int, row: Row) -> None:
        for ring in self._rings:
            ring.put(second, row)

    def shift(self, by_s: int) -> None:
        """Move all samples forward by this time, because the clock was set."""
        for ring in self._rings:
            ring.shift(by_s)

    def window(self, until: int, window_s: int, step_s: int) -> Window:
        """The last `window_s` seconds before and with `until`, in steps of at least `step_s`: a multiple of
        the finest resolution that reaches so far back."""
        ring = next((ring for ring in self._rings if window_s <= ring.step_s * ring.length), self._rings[-1])
        together = max(1, -(-step_s // ring.step_s))
        step_s = together * ring.step_s
        count = -(-window_s // step_s)
        end = until // step_s * step_s + step_s
        return Window(end - count * step_s, step_s, ring.series(until, count, together))


def _sum(step: list[float | None]) -> float | None:
    known = [value for value in step if value is not None]
    return sum(known) if known else None


def _last(step: list[float | None]) -> float | None:
    return next((value for value in reversed(step) if value is not None), None)
