"""The messages of a replay: read from the archive in ranges that fit into memory, and cut into batches.

Batches are cut by their rows and bytes alone, from the first message on, and not where a range ends: a run
that goes on behind a batch cuts the others as the first one did."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

#: messages of a batch, and bytes of their bodies: what each broker publishes at once, with mirrors, too
BATCH_ROWS: Final = 2_000
BATCH_BYTES: Final = 8 * 1024 * 1024
#: messages that are read at a time, and bytes of their bodies
RANGE_ROWS: Final = 50_000
RANGE_BYTES: Final = 32 * 1024 * 1024
#: positions whose messages are counted together
STRETCH: Final = 100
#: attempts to read files that a compaction replaces meanwhile
_ATTEMPTS: Final = 5
_REPLACED: Final = "FILE_NOT_EXIST"

_Found = TypeVar("_Found")


class Stretch(NamedTuple):
    """`STRETCH` positions of a broker that have messages."""

    number: int
    messages: int
    bytes: int


@dataclass(frozen=True)
class Batch:
    """Messages of one broker, and its epoch and position behind the last one, which is their number."""

    broker: str
    epoch: int
    end: int
    rows: pa.Table


def ranges(stretches: Iterable[Stretch], first: int, end: int) -> Iterator[tuple[int, int]]:
    """Ranges [start, end) of positions that have the messages of all stretches, in order: each has as many
    as fit into memory, or those of one stretch. The first begins at `first`, the last ends at `end`."""
    start, rows, size = first, 0, 0
    for stretch in sorted(stretches):
        if rows and (rows + stretch.messages > RANGE_ROWS or size + stretch.bytes > RANGE_BYTES):
            border = stretch.number * STRETCH
            yield start, border
            start, rows, size = border, 0, 0
        rows, size = rows + stretch.messages, size + stretch.bytes
    if rows:
        yield start, end


def batches(broker: str, tables: Iterable[pa.Table]) -> Iterator[Batch]:
    """The batches of tables with the columns of `jobs.replay.transform`, each sorted by position."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        begin = 0
        for at, length in enumerate(pc.fill_null(pc.binary_length(table["body"]), 0).to_pylist()):
            if rows and (rows == BATCH_ROWS or size + length > BATCH_BYTES):
                yield _batch(broker, [*waiting, table.slice(begin, at - begin)])
                waiting, begin, rows, size = [], at, 0, 0
            rows, size = rows + 1, size + length
        waiting.append(table.slice(begin))
    if rows:
        yield _batch(broker, waiting)


def _batch(broker: str, parts: list[pa.Table]) -> Batch:
    rows = pa.concat_tables(parts)
    last = rows.num_rows - 1
    return Batch(broker, rows["epoch"][last].as_py(), rows["position"][last].as_py() + 1, rows)


def ahead(calls: Iterable[Callable[[], _Found]]) -> Generator[_Found]:
    """The results of calls in order; each is made while the one before it is used. Closing it waits for the
    call that is made."""
    with ThreadPoolExecutor(1, "reader") as thread:
        waiting = None
        for call in calls:
            following = thread.submit(call)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


def reading(query: Callable[[], _Found]) -> _Found:
    """The result of a query, which is repeated when a compaction has replaced a file that it was to read."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return query()
        except Exception as error:
            if _REPLACED not in str(error):
                raise
    return query()


def producer(name: str, broker: str) -> str:
    """The producer of the messages of one broker of the archive, in a replay of that name."""
    return f"{name}/{broker}"


def broker_of(name: str, known: str) -> str | None:
    """The broker whose messages a producer has sent; None for one of something else."""
    return known.removeprefix(f"{name}/") if known.startswith(f"{name}/") else None
