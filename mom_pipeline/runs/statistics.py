"""The run `statistics`: minutes that are over become rows in Parquet files, and in the console's charts.

Minutes are computed an hour at a time, from the position at which the last run ended. What a run that was
killed has stored is replaced by the same rows. A resident run also shows the minute that is not over in the
console. It keeps what it has counted of it in memory, and adds the new events each time; what is lost with it
is computed again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from broker_app.journal.port import FIRST_POSITION
from mom_pipeline import minute_files
from mom_pipeline.errors import DATA_LOSS, TEMPORARY, PipelineError
from mom_pipeline.job_folder import Job, JobFolder
from mom_pipeline.jobs import statistics
from mom_pipeline.open_minutes import OpenMinutes
from mom_pipeline.progress import IDLE, RUNNING, ApiRefused, ApiUnreachable
from mom_pipeline.run_state import RunState
from mom_pipeline.runner import Run, Surroundings, begun
from mom_pipeline.source import Source
from pyspark_mom import schema
from pyspark_mom.errors import JournalReplaced
from pyspark_mom.offsets import Place, as_dict, parse
from pyspark_mom.ranges import Range
from pyspark_mom.transport import Journal, Span, open_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION: Final = 1
#: a minute is over so long after its end, since a batch has the time at which it began
GRACE: Final = timedelta(seconds=5)
_MINUTE: Final = timedelta(minutes=1)
_STEP: Final = timedelta(hours=1)
_UNTIL: Final = "until.json"
#: positions that this process reads; Spark reads more of them
_FEW: Final = 100_000
#: rows in one request: with the longest destinations they are below the 1 MiB that it may have
_POSTED: Final = 500
#: a resident run rests as long as it has worked; thrice as long after many events, because their broker is
#: busy and needs the cores
_BUSY_REST: Final = 3
_LONGEST_REST_S: Final = 60.0
#: columns that the console does not store
_FILES_ONLY: Final = ("kll", "final")


@dataclass(frozen=True)
class Statistics:
    """The parameters: the folder for files, the minutes [start, end), and the seconds from one look of a
    resident run to the next."""

    out: Path | None = None
    start: datetime | None = None
    end: datetime | None = None
    every_s: float | None = None


@dataclass(frozen=True)
class _Until:
    """The time up to which minutes are stored, and the position of the journal there."""

    time: datetime
    place: Place


def run(name: str, source: Source, wish: Statistics, around: Surroundings) -> Run:
    """Compute the minutes that are over, and return the run, which has ended. Raises PipelineError."""
    out = wish.out.absolute() if wish.out else None
    parameters = {**source.parameters(), "out": str(out) if out else None}
    job = Job(name, "statistics", VERSION, schema.VERSION, parameters)
    options = source.parsed()
    with begun(job, around) as found, found.spark() as spark:
        journal = open_journal(source.broker, options)
        try:
            _Minutes(found, spark, source, journal, out).run(wish)
        finally:
            journal.close()
    return found


def _offsets(folder: JobFolder) -> list[dict[str, object]]:
    """The place up to which minutes are stored."""
    stored = folder.read(_UNTIL)
    places = {} if stored is None else parse(stored["place"])
    return [
        {"broker": broker, "epoch": place.epoch, "position": place.pos, "until": stored["until"]}
        for broker, place in places.items()
    ]


class _Minutes:
    """Computes and stores the minutes of one journal."""

    def __init__(
        self, run: Run, spark: SparkSession, source: Source, journal: Journal, out: Path | None
    ) -> None:
        self._run = run
        self._spark = spark
        self._source = source
        self._journal = journal
        self._out = out
        self._console = True
        #: of a resident run
        self._open: OpenMinutes | None = None
        #: end of the journal whose events the console shows
        self._shown = -1
        #: positions that were added last
        self._added = 0

    def run(self, wish: Statistics) -> None:
        """Compute what is over now, once or at an interval."""
        until = self._begin(wish.start)
        while True:
            began = time.monotonic()
            for end in self._steps(until, wish.end):
                until = self._step(until, end)
                if self._run.stop.requested:
                    return
            if wish.every_s is not None and wish.end is None:
                if self._open is None:
                    self._open = OpenMinutes(self._spark, until.time)
                    began = time.monotonic()  # it rests from what comes again
                self._show_open(self._open, until)
            self._run.progress.set(state=IDLE)
            self._run.around.show(self._run.progress)
            if wish.every_s is None:
                return
            worked = time.monotonic() - began
            if self._run.stop.wait(max(wish.every_s - worked, self._rest_s(worked))):
                return

    def _rest_s(self, worked_s: float) -> float:
        """The seconds from one round of a resident run to the next."""
        return min(worked_s * (_BUSY_REST if self._added > _FEW else 1), _LONGEST_REST_S)

    def _begin(self, start: datetime | None) -> _Until:
        """The place to go on: `start`, else behind the last minute that was stored, else the first whole
        minute of the journal."""
        span = self._journal.span()
        if start is not None:
            return self._at(self._checked(_minute(start), span), span)
        stored = self._run.folder.read(_UNTIL)
        if stored is not None:
            place = parse(stored["place"])[self._source.broker]
            if (place.tag, place.epoch) > (span.tag, span.epoch) or place.tag != span.tag:
                raise JournalReplaced(
                    f"{self._source.broker}: the journal is another one than that of the minutes that are "
                    f"stored. Give the run another --name to begin with this journal"
                )
            return _Until(datetime.fromisoformat(stored["until"]), place)
        first = self._first_whole_minute(span)
        if first is None:
            return _Until(_minute(datetime.now(UTC)), Place(span.epoch, span.low, span.tag))
        if span.low <= FIRST_POSITION:
            return _Until(first, Place(span.epoch, span.low, span.tag))
        return self._at(first, span)

    def _first_whole_minute(self, span: Span) -> datetime | None:
        """The first minute of which the journal has all events; None if it has no events at all."""
        first = next(iter(self._journal.frames(span.low, min(span.low + 1, span.end))), None)
        if first is None:
            return None
        begin = _minute(datetime.fromtimestamp(first.frame.time_us / 1e6, UTC))
        # What came earlier in the minute may not be stored any more.
        return begin if span.low <= FIRST_POSITION else begin + _MINUTE

    def _checked(self, start: datetime, span: Span) -> datetime:
        """A minute from which on all can be computed. Raises PipelineError for one that the journal does not
        have whole: its row would take the place of a complete one."""
        first = self._first_whole_minute(span)
        if span.low > FIRST_POSITION and first is not None and start < first:
            raise PipelineError(
                f"minutes from {_words(start)} cannot be computed: the journal begins within that of "
                f"{_words(first - _MINUTE)}, and what is stored of earlier ones would be lost",
                f"compute them from {_words(first)} on: --from {_words(first)}",
                DATA_LOSS,
            )
        return start

    def _steps(self, until: _Until, wanted: datetime | None) -> Iterator[datetime]:
        """The ends of the hours up to the last minute that is wanted and over, and its end."""
        over = _minute(min(wanted or datetime.max.replace(tzinfo=UTC), datetime.now(UTC) - GRACE))
        end = until.time
        while end < over:
            end = min(end.replace(minute=0) + _STEP, over)
            yield end

    def _step(self, until: _Until, end: datetime) -> _Until:
        """Store the minutes up to `end`."""
        began = time.monotonic()
        progress = self._run.progress
        progress.set(state=RUNNING)
        span = self._journal.span()
        after = self._at(end, span)
        read = max(0, after.place.pos - until.place.pos)
        self._count(after, span, read=0)
        if read:
            if self._open is None:
                events = self._events(until.place.pos, after.place.pos, span)
                rows = statistics.transform(events, until.time, end).toArrow()
            else:
                self._add(self._open, until, after.place.pos, span)
                rows = self._open.complete(end)
            self._store(rows, until.time, end)
            progress.batch(rows.num_rows, round(1000 * (time.monotonic() - began)))
        else:
            self._post([], until.time, end)
        place = as_dict({self._source.broker: after.place})
        self._note(until, place)
        self._run.folder.write(_UNTIL, {"until": end.isoformat(), "place": place})
        progress.reach(place)
        self._count(after, span, read)
        return after

    def _count(self, after: _Until, span: Span, read: int) -> None:
        """Show how much was read, of which a step has just read a part."""
        progress = self._run.progress
        progress.read += read
        lag = max(0, span.end - after.place.pos)
        progress.total = progress.read + lag
        progress.set(lag=lag)
        self._run.around.show(progress)

    def _show_open(self, minutes: OpenMinutes, until: _Until) -> None:
        """Have the console show the minutes that are not over, if there are new events."""
        span = self._journal.span()
        if span.end != self._shown:
            self._add(minutes, until, span.end, span)
            self._post(_as_json(minutes.rows), until.time)
            self._shown = span.end

    def _add(self, minutes: OpenMinutes, until: _Until, end: int, span: Span) -> None:
        """Add the events up to a position to the open minutes."""
        start = max(until.place.pos, minutes.end)
        if end > start:
            minutes.add(self._events(start, end, span), until.time)
            minutes.end = end
            self._added = end - start

    def _events(self, start: int, end: int, span: Span) -> DataFrame:
        """The events from a position to before another."""
        if end - start <= _FEW:
            positions = Range(self._source.broker, start, end, span.epoch, span.tag)
            return self._source.read_here(self._spark, statistics.COLUMNS, positions)
        return self._source.read(
            self._spark,
            statistics.COLUMNS,
            startingOffsets=json.dumps({self._source.broker: start}),
            endingOffsets=json.dumps({self._source.broker: end}),
        )

    def _note(self, until: _Until, place: dict[str, dict[str, int]]) -> None:
        """Note for the lineage what was read and written."""
        lineage = self._run.lineage
        lineage.read(self._source.url, as_dict({self._source.broker: until.place}), place)
        if self._out is not None:
            lineage.wrote(str(self._out / minute_files.TABLE), self._run.progress.rows)

    def _store(self, rows: pa.Table, start: datetime, end: datetime) -> None:
        if self._out is not None:
            minute_files.replace(self._out, rows, start, end)
        self._post(_as_json(rows), start, end)

    def _post(self, rows: list[dict[str, object]], start: datetime, computed: datetime | None = None) -> None:
        """Have the console store rows, and that all minutes from `start` to before `computed` are complete:
        those without a row had no messages."""
        pages = [rows[first : first + _POSTED] for first in range(0, len(rows), _POSTED)]
        bodies: list[dict[str, object]] = [{"rows": page} for page in pages]
        if computed is not None and not self._source.destinations:
            bodies = bodies or [{"rows": []}]
            times = {"begin": start.isoformat(), "end": computed.isoformat()}
            bodies[-1]["computed"] = {"broker": self._source.broker, **times}
        for body in bodies:
            try:
                self._run.around.api.call("POST", "/pipeline/statistics", body)
            except (ApiRefused, ApiUnreachable) as error:
                self._without_console(error, start)
                return

    def _without_console(self, error: Exception, start: datetime) -> None:
        if self._out is None:
            raise PipelineError(
                f"the minutes cannot be stored: {error}",
                "start the broker, or name with --out a folder for files",
                TEMPORARY,
            ) from error
        if self._console:
            self._console = False
            self._run.around.say(
                f"minutes are in {self._out} alone: {error}; --from {_words(start)} sends them later"
            )

    def _at(self, end: datetime, span: Span) -> _Until:
        position = self._journal.position_at(round(end.timestamp() * 1_000_000))
        return _Until(end, Place(span.epoch, min(position, span.end), span.tag))


def _minute(when: datetime) -> datetime:
    """The beginning of a minute."""
    return when.astimezone(UTC).replace(second=0, microsecond=0)


def _words(minute: datetime) -> str:
    return f"{minute:%Y-%m-%dT%H:%MZ}"


def _as_json(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows as the console stores them."""
    found: list[dict[str, Any]] = rows.drop_columns(list(_FILES_ONLY)).to_pylist()
    for row in found:
        minute = row["minute"]
        row["minute"] = (minute if minute.tzinfo else minute.replace(tzinfo=UTC)).isoformat()
    return found


STATE: Final = RunState(
    again="the next run computes all minutes again whose events {source} has; their rows are replaced",
    offsets=_offsets,
    instead="have minutes computed again with --from TIME",
)
