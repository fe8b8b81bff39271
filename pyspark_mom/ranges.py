"""Ranges of positions: the partitions of a query, and the frames of one, checked."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from broker_app.journal import codec
from pyspark_mom import columns
from pyspark_mom.errors import BrokerUnreachable, DataLoss, JournalReplaced, JournalUnreadable, rfc3339
from pyspark_mom.offsets import Offset, backlog
from pyspark_mom.options import Options
from pyspark_mom.patterns import matcher
from pyspark_mom.sent_messages import SentMessages
from pyspark_mom.transport import Journal, StoredFrame, open_journal

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

#: what to do about a journal that is not the one that was read
REMEDY: Final = (
    "Compare what was written with what is stored, and begin a new checkpoint with startingOffsets"
)
#: positions of a partition, at most; a position is a record
POSITIONS: Final = 250_000


@dataclass(frozen=True)
class Range(InputPartition):
    """The positions from `start` to before `end` of the journal with this tag, whose epoch was `epoch` when
    they were durable."""

    broker: str
    start: int
    end: int
    epoch: int
    tag: int


def split(start: Offset, end: Offset, min_partitions: int) -> list[Range]:
    """The positions between two offsets in ranges of about the same size: at least `min_partitions` if there
    are so many positions. Follows from the arguments alone, so that a batch that is repeated has the same
    ones."""
    waiting = backlog(start, end)
    size = max(1, min(POSITIONS, sum(waiting.values()) // min_partitions))
    return [part for name in sorted(waiting) for part in _split(name, start, end, waiting[name], size)]


def _split(name: str, start: Offset, end: Offset, count: int, size: int) -> Iterator[Range]:
    first, (epoch, _, tag) = start[name].pos, end[name]
    parts = -(-count // size)
    for part in range(parts):
        yield Range(name, first + count * part // parts, first + count * (part + 1) // parts, epoch, tag)


def read(part: Range, options: Options, asked: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a range, in batches. Raises MomError."""
    wanted = columns.wanted(asked, options.events, matcher(options.destinations))
    with (
        closing(open_journal(part.broker, options)) as journal,
        # Messages that were sent earlier are read in between, where they are needed.
        closing(open_journal(part.broker, options)) as earlier,
    ):
        sent = SentMessages(part.tag, partial(_whole, earlier, part.broker))
        made = columns.Columns(asked, part.broker, part.tag, wanted, sent)
        yield from made.batches(
            checked(journal, part, fail_on_loss=options.fail_on_data_loss), part.start, part.end
        )


def checked(journal: Journal, part: Range, *, fail_on_loss: bool) -> Iterator[StoredFrame]:
    """The frames of a range: whole, one after the other, the first with its start and the last with its end.

    Raises DataLoss if some are gone; without `fail_on_loss` they are left out, and logged.
    """
    position = part.start
    for found in _whole(journal, part.broker, part.start, part.end):
        frame = found.frame
        if frame.next_position <= position:
            continue
        if frame.epoch > part.epoch:
            raise JournalReplaced(
                f"{part.broker}: position {frame.first_position} was written in epoch {frame.epoch}, but was "
                f"read before in epoch {part.epoch}: the journal was restored from an older copy. {REMEDY}"
            )
        if frame.first_position > position:
            _lost(journal, part, position, frame.first_position, fail_on_loss=fail_on_loss)
        yield found
        position = frame.next_position
    if position < part.end:
        _lost(journal, part, position, part.end, fail_on_loss=fail_on_loss)


def _whole(journal: Journal, broker: str, start: int, end: int) -> Iterator[StoredFrame]:
    """The stored frames of the log that overlap positions, whole."""
    for found in journal.frames(start, end):
        frame, content = found
        if not codec.is_whole(content, 0, frame):
            raise JournalUnreadable(f"{broker}: the batch at position {frame.first_position} is damaged")
        if not frame.flags & codec.CARRIED:
            yield found


def _lost(journal: Journal, part: Range, start: int, end: int, *, fail_on_loss: bool) -> None:
    """Raise the error of a range that is not there, or log it."""
    low, stored_end, _, _ = journal.span()
    if stored_end < end:
        raise JournalReplaced(
            f"{part.broker}: the journal ends before position {stored_end}, but had reached {part.end}: it "
            f"was replaced, or restored from an older copy. {REMEDY}"
        )
    if start >= low:
        raise BrokerUnreachable(
            f"{part.broker}: the positions {start} to {end - 1} are stored, but were not returned; try again"
        )
    error = lost(journal, part.broker, start, min(end, low), low)
    if fail_on_loss:
        raise error
    _log.warning("%s", error)


def lost(journal: Journal, broker: str, start: int, end: int, low: int) -> DataLoss:
    """The error of positions that are gone."""
    oldest = next(iter(journal.frames(low, low + 1)), None)
    since = f", written at {rfc3339(oldest.frame.time_us)}" if oldest is not None else ""
    return DataLoss(
        f"{broker}: the positions {start} to {end - 1} are gone from the journal, which begins at position "
        f"{low}{since}. Keep more with MOM_JOURNAL_RETENTION_BYTES or a cursor; to read what is left, set "
        "failOnDataLoss to false"
    )
