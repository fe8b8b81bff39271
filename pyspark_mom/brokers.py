"""The brokers of a query: where their journals begin and end, and which of them cannot be reached."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

from pyspark_mom.errors import BrokerUnreachable, InvalidOption, JournalReplaced
from pyspark_mom.offsets import Offset, Place, backlog
from pyspark_mom.options import EARLIEST, LATEST, Options, Where
from pyspark_mom.ranges import REMEDY, lost
from pyspark_mom.transport import Journal, Span, open_journal

_log = logging.getLogger(__name__)

#: seconds before a broker that was not reached is tried again: first, and longest
_FIRST_RETRY_S: Final = 1.0
_LONGEST_RETRY_S: Final = 30.0
#: positions and frames from which the size of all others is guessed
_SAMPLE: Final = 10_000
_SAMPLE_FRAMES: Final = 256
#: brokers that are asked at the same time
_MAX_THREADS: Final = 16


class Brokers:
    """The journals of the brokers that `options` name. With `fail_on_unreachable`, a broker that cannot be
    reached is an error; else it is left out, logged, and tried again after a while."""

    def __init__(
        self, options: Options, *, fail_on_unreachable: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options
        self._fails = fail_on_unreachable
        self._clock = clock
        self.journals: dict[str, Journal] = {name: open_journal(name, options) for name in options.urls}
        #: the errors of brokers that were not reached, by name
        self.unreachable: dict[str, BrokerUnreachable] = {}
        self._retry_at: dict[str, float] = {}
        self._delays: dict[str, float] = {}

    def spans(self) -> dict[str, Span]:
        """The spans of the journals of the brokers that are reached, which are asked at the same time."""
        now = self._clock()
        due = [name for name in self.journals if now >= self._retry_at.get(name, now)]
        if len(due) > 1:
            with ThreadPoolExecutor(min(len(due), _MAX_THREADS)) as threads:
                answers = list(threads.map(self._span, due))
        else:
            answers = [self._span(name) for name in due]
        spans: dict[str, Span] = {}
        for name, answer in zip(due, answers, strict=True):
            if isinstance(answer, Span):
                spans[name] = answer
                self._reached(name)
            else:
                self._not_reached(name, answer)
        return spans

    def _span(self, name: str) -> Span | BrokerUnreachable:
        try:
            return self.journals[name].span()
        except BrokerUnreachable as error:
            return error

    def _reached(self, name: str) -> None:
        if self.unreachable.pop(name, None) is not None:
            _log.warning("%s is reached again", name)
        self._retry_at.pop(name, None)
        self._delays.pop(name, None)

    def _not_reached(self, name: str, error: BrokerUnreachable) -> None:
        if self._fails:
            raise error
        if name not in self.unreachable:
            _log.warning("%s The other brokers are read meanwhile.", error)
        self.unreachable[name] = error
        delay = self._delays.get(name, _FIRST_RETRY_S)
        self._retry_at[name] = self._clock() + delay
        self._delays[name] = min(2 * delay, _LONGEST_RETRY_S)

    # -------------------------------------------------------------------------- places

    def starts(self, spans: Mapping[str, Span]) -> dict[str, Place]:
        """The start of a new query."""
        options = self._options
        return self._places(spans, "startingOffsets", options.starting, options.starting_us)

    def extent(self, spans: Mapping[str, Span]) -> tuple[dict[str, Place], dict[str, Place]]:
        """The start and the end of a batch query. Raises InvalidOption where the end comes first."""
        starts, ends = self.starts(spans), self.ends(spans)
        for name, start in starts.items():
            if start.pos > ends[name].pos:
                option = "startingOffsets" if self._options.starting_us is None else "startingTimestamp"
                raise InvalidOption(
                    f"{option}: position {start.pos} of {name} is behind the end, which is position "
                    f"{ends[name].pos}"
                )
        return starts, ends

    def ends(self, spans: Mapping[str, Span]) -> dict[str, Place]:
        """The end of a batch query."""
        options = self._options
        return self._places(spans, "endingOffsets", options.ending, options.ending_us)

    def _places(
        self, spans: Mapping[str, Span], option: str, where: Where, time_us: int | None
    ) -> dict[str, Place]:
        found = {}
        for name, span in spans.items():
            if time_us is not None:
                position = self.journals[name].position_at(time_us)
            else:
                wanted = where if isinstance(where, str) else dict(where)[name]
                position = {EARLIEST: span.low, LATEST: span.end}.get(str(wanted), -1)
                if not isinstance(wanted, str):
                    position = wanted
            if position > span.end:
                raise InvalidOption(
                    f"{option}: the journal of {name} ends before position {span.end}; {position} is behind "
                    "it"
                )
            found[name] = Place(span.epoch, position, span.tag)
        return found

    def check(self, places: Offset, spans: Mapping[str, Span]) -> None:
        """Check that the journals are those from which positions were taken, and still have what follows
        them.

        A takeover that continues the journal keeps the tag and has a larger epoch. Raises JournalReplaced;
        InvalidOption for a journal that has another name now; DataLoss with the option failOnDataLoss.
        """
        gone = {place.tag: name for name, place in places.items() if name not in self.journals}
        for name in spans.keys() - places.keys():
            if spans[name].tag in gone:
                before = gone[spans[name].tag]
                raise InvalidOption(
                    f"broker: the journal of {name} was read as {before} with this checkpoint, and would be "
                    f"read again from its start; name the broker {before} again, or begin a new checkpoint "
                    "with startingOffsets"
                )
        for name in places.keys() & spans.keys():
            place, span = places[name], spans[name]
            if span.tag != place.tag:
                raise JournalReplaced(
                    f"{name}: the journal is another one (tag {span.tag}) than the one that was read (tag "
                    f"{place.tag}). {REMEDY}"
                )
            if span.epoch < place.epoch or span.end < place.pos:
                raise JournalReplaced(
                    f"{name}: the journal has epoch {span.epoch} and ends before position {span.end}; it was "
                    f"read up to {place.pos} in epoch {place.epoch}, so it was restored from an older copy. "
                    f"{REMEDY}"
                )
            if self._options.fail_on_data_loss and place.pos < span.low:
                raise lost(self.journals[name], name, place.pos, span.low, span.low)

    def bytes_per_position(self, start: Offset, end: Offset) -> float:
        """About how many bytes are stored for a position between two offsets, by a sample of what comes
        first."""
        size = count = 0.0
        for name, waiting in backlog(start, end).items():
            first = start[name].pos
            frames = (
                self.journals[name].frames(first, min(first + _SAMPLE, end[name].pos))
                if waiting
                else iter(())
            )
            sample = [(frame.count, len(content)) for frame, content in islice(frames, _SAMPLE_FRAMES)]
            positions = sum(each for each, _ in sample)
            if positions:
                size += waiting * sum(each for _, each in sample) / positions
                count += waiting
        return size / count if count else 1.0

    def close(self) -> None:
        """Close all journals."""
        for journal in self.journals.values():
            journal.close()
