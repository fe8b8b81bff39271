"""The promises of the data pipeline as data, and the table of what was kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Promise:
    """A figure and its bound: the least one, or the most if less is better; None for a figure that nothing is
    promised about."""

    part: str
    title: str
    unit: str
    bound: float | None
    less_is_better: bool = False
    digits: int = 0

    def kept(self, value: float) -> bool:
        if self.bound is None:
            return True
        return value <= self.bound if self.less_is_better else value >= self.bound

    def words(self) -> str:
        if self.bound is None:
            return self.unit
        return f"{'≤' if self.less_is_better else '≥'} {self.bound:,g} {self.unit}"


@dataclass(frozen=True, slots=True)
class Seen:
    """A measured figure, what was measured next to it, and what was wrong with it; empty if nothing was."""

    value: float
    beside: str = ""
    fault: str = ""


PROMISES: Final[Mapping[str, Promise]] = {
    "source-1k": Promise("source", "source, messages of 1 KiB, segment files", "rows/s", 150_000),
    "source-events": Promise("source", "source, events without bodies, segment files", "rows/s", 400_000),
    "source-http": Promise("source", "source, messages of 1 KiB over HTTP", "rows/s", 100_000),
    "source-postgres": Promise("source", "source, messages of 1 KiB from PostgreSQL", "rows/s", 120_000),
    "archive-both": Promise("archive", "`run archive --messages`: both tables, 1 KiB", "messages/s", None),
    "archive-1k": Promise("archive", "archive, table of messages alone, 1 KiB", "messages/s", 60_000),
    "archive-1k-share": Promise("archive", "share of one PyArrow, decoder and writer", "x", 0.25, digits=2),
    "archive-1k-writer": Promise("archive", "share of PyArrow's writer alone", "x", None, digits=2),
    "archive-events": Promise("archive", "archive, table of events alone", "events/s", 200_000),
    "archive-events-share": Promise(
        "archive", "share of one PyArrow, decoder and writer", "x", 0.25, digits=2
    ),
    "archive-events-writer": Promise("archive", "share of PyArrow's writer alone", "x", None, digits=2),
    "statistics-stream": Promise("statistics", "statistics as a stream", "events/s", 120_000),
    "statistics-batch": Promise("statistics", "statistics of closed minutes", "events/s", 400_000),
    "statistics-share": Promise("statistics", "share of DuckDB's rate, same Parquet", "x", 0.125, digits=3),
    "reconcile": Promise("reconcile", "reconciliation, warm, ids exact", "s", 10, True, 1),
    "replay": Promise("replay", "replay of 1 KiB into a broker", "messages/s", 20_000),
    "start-cold": Promise("start", "start to first row, nothing in the cache", "s", 20, True, 1),
    "start-warm": Promise("start", "start to first row, after `mom pipeline warm`", "s", 8, True, 1),
    "memory-archive": Promise("memory", "archiving, all processes, heap 2 GiB", "GiB RSS", 3.5, True, 2),
    "memory-read": Promise("memory", "reading back, all processes, heap 2 GiB", "GiB RSS", 3.5, True, 2),
    "freshness": Promise("freshness", "event → console at 5,000 events/s, p95", "s", 5, True, 1),
    "share-average": Promise("share", "broker's rate beside statistics, on average", "x", 0.9, digits=2),
    "share-working": Promise("share", "the same, in seconds in which it works", "x", 0.9, digits=2),
    "share-archive": Promise("share", "broker's rate beside `run archive --messages`", "x", 0.9, digits=2),
    "share-archive-19": Promise("share", "the same, with `--nice 19`", "x", None, digits=2),
}
PARTS: Final = tuple(dict.fromkeys(promise.part for promise in PROMISES.values()))


def table(seen: Mapping[str, Seen]) -> str:
    """The table of the promises that were measured."""
    rows = ["| | promised | seen | next to it | |", "|---|---|---|---|---|"]
    for name, promise in PROMISES.items():
        if name not in seen:
            continue
        found = seen[name]
        verdict = "kept" if promise.kept(found.value) and not found.fault else "**missed**"
        rows.append(
            f"| {promise.title} | {promise.words()} | {found.value:,.{promise.digits}f} | {found.beside} "
            f"| {verdict}{': ' + found.fault if found.fault else ''} |"
        )
    return "\n".join(rows)


def missed(seen: Mapping[str, Seen]) -> Iterable[str]:
    """The names of the promises that were not kept."""
    return (name for name, found in seen.items() if found.fault or not PROMISES[name].kept(found.value))
