"""The run `replay`: messages of an archive are published again, each once under the name of the run.

The plan has the end of each broker's messages. It is stored before the first message is sent, so that a run
that goes on sends the same ones, however the archive has grown. Messages are sent in order of position; the
number of a batch is the position behind its last message. The broker knows the last number of each producer,
and a run begins there; a batch that it published is a duplicate."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mom_pipeline import archive_tables, replay_batches
from mom_pipeline.errors import TEMPORARY, USAGE, PipelineError
from mom_pipeline.job_folder import Job, JobFolder
from mom_pipeline.jobs import replay
from mom_pipeline.progress import Api, ApiRefused, ApiUnreachable
from mom_pipeline.replay_batches import STRETCH, Batch, Stretch, reading
from mom_pipeline.run_state import RunState
from mom_pipeline.runner import Run, Surroundings, begun, open_session
from pyspark_mom import schema
from pyspark_mom.bulk_client import BulkClient
from pyspark_mom.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

VERSION: Final = 1
#: messages that a preview shows
SAMPLE: Final = 5
_PLAN: Final = "plan.json"
_SENT: Final = "sent.json"
#: producers that the broker lists at most
_LISTED: Final = 500


@dataclass(frozen=True)
class Replay:
    """The parameters: the archive, the condition and other limits of the messages, and the destination of all
    of them, else each has its own. `rate` is the most messages a second."""

    archive: Path
    where: str | None = None
    destinations: Sequence[str] = ()
    start: datetime | None = None
    end: datetime | None = None
    limit: int | None = None
    to: str | None = None
    rate: float | None = None

    def job(self, name: str) -> Job:
        """The job, with what must stay the same under a name. Raises PipelineError."""
        parameters = {
            "archive": str(self.archive.absolute()), "where": self.where,
            "destinations": list(self.destinations), "from": _text(self.start), "until": _text(self.end),
            "limit": self.limit, "to": self.to,
        }  # fmt: skip
        return Job(name, "replay", VERSION, schema.VERSION, parameters)


@dataclass(frozen=True)
class Plan:
    """The messages that are left to send: by broker the position behind the last one, `counts` by broker and
    destination, and the first ones as a sample. `left_out` have destinations that take no messages of
    clients; `sent` were sent before."""

    ends: Mapping[str, int]
    counts: Sequence[Mapping[str, Any]]
    sample: Sequence[Mapping[str, Any]]
    left_out: int = 0
    sent: int = 0

    @property
    def messages(self) -> int:
        """The number of messages that are left to send."""
        return sum(row["messages"] for row in self.counts)


@dataclass
class _Sent:
    """The progress: by broker the epoch and position up to which messages were sent, and their number."""

    places: dict[str, dict[str, int]] = field(default_factory=dict)
    messages: int = 0

    @classmethod
    def of(cls, folder: JobFolder) -> _Sent:
        stored = folder.read(_SENT) or {}
        return cls(stored.get("places", {}), stored.get("messages", 0))

    def add(self, broker: str, place: dict[str, int], messages: int) -> None:
        self.places[broker] = place
        self.messages += messages

    def store(self, folder: JobFolder) -> None:
        folder.write(_SENT, {"places": self.places, "messages": self.messages})


def plan(name: str, wish: Replay, around: Surroundings) -> Plan:
    """The messages that a run would send, which is not begun. Raises PipelineError."""
    folder = JobFolder(around.state, wish.job(name))
    folder.compare()
    if not (wish.archive / archive_tables.MESSAGE).is_dir():
        raise PipelineError(
            f"{wish.archive} has no messages",
            "name the folder of an archive with bodies: mom pipeline run archive --out … --messages",
            USAGE,
        )
    archived = _Archived(open_session(name, around), wish)
    archived.chosen()  # a wrong condition is found before the broker is asked
    stored, sent = folder.read(_PLAN), _Sent.of(folder)
    starts = _starts(name, sent, around.api)
    if stored is not None:
        return archived.planned(starts, stored["ends"], sent.messages)
    return archived.planned(starts, archived.ends())


def run(name: str, wish: Replay, planned: Plan, sink: SinkOptions, around: Surroundings) -> Run:
    """Send what was planned, and return the run, which has ended. Raises PipelineError."""
    with begun(wish.job(name), around) as found, found.spark() as spark:
        stored = found.folder.read(_PLAN)
        if stored is None:
            stored = {"ends": dict(planned.ends)}
            found.folder.write(_PLAN, stored)
        sent = _Sent.of(found.folder)
        starts = _starts(name, sent, around.api)
        archived = _Archived(spark, wish)
        found.progress.total = planned.messages
        around.show(found.progress)
        with closing(BulkClient(sink, sleep=found.stop.sleep)) as client:
            found.lineage.read_files(str(wish.archive.absolute() / archive_tables.MESSAGE), **stored)
            sender = _Sender(found, client, sink.url, sent, wish.rate)
            for broker, end in sorted(stored["ends"].items()):
                start = starts.get(broker, 0)
                if start >= end:
                    continue
                with closing(archived.tables(broker, start, end)) as tables:
                    for batch in replay_batches.batches(broker, tables):
                        sender.send(batch)
    return found


def _offsets(folder: JobFolder) -> list[dict[str, object]]:
    """The positions up to which the messages of each broker were sent."""
    return [
        {"broker": broker, "epoch": place["epoch"], "position": place["pos"]}
        for broker, place in sorted(_Sent.of(folder).places.items())
    ]


def _forget(folder: JobFolder, api: Api) -> None:
    """Have the broker forget what it has published of this run. Raises PipelineError."""
    for broker in _published(folder.job.name, api):
        producer = quote(replay_batches.producer(folder.job.name, broker), safe="")
        with _answered("its progress is not forgotten"):
            api.call("DELETE", f"/bulk/producers/{producer}")


class _Archived:
    """Reads the chosen messages of an archive. Each query lists its files, since compaction replaces them."""

    def __init__(self, spark: SparkSession, wish: Replay) -> None:
        self._spark = spark
        self._wish = wish
        self._root = wish.archive.absolute()

    def chosen(self) -> DataFrame:
        """The chosen messages. Raises PipelineError when Spark does not understand the condition."""
        wish = self._wish
        return self._choose(
            archive_tables.read(
                self._spark, self._root, archive_tables.MESSAGE, start=wish.start, end=wish.end
            )
        )

    def ends(self) -> dict[str, int] | None:
        """The positions behind the messages that a limit permits, by broker; None without a limit."""
        most = self._wish.limit
        if most is None:
            return None
        rows = reading(lambda: replay.limited(self._sendable(self.chosen()), most).collect())
        return {row["broker"]: row["end"] for row in rows}

    def planned(self, starts: Mapping[str, int], ends: Mapping[str, int] | None, sent: int = 0) -> Plan:
        """The plan of the messages from `starts` on and up to `ends`; without ends, up to the last one."""

        def left() -> DataFrame:
            return replay.within(self.chosen(), starts, ends)

        def sample() -> pa.Table:
            return self._sendable(left()).orderBy("broker", "position").limit(SAMPLE).toArrow()

        # As Arrow, because rows of Spark have times in the zone of this machine.
        found = reading(lambda: replay.counts(left(), self._wish.to).toArrow()).to_pylist()
        left_out = sum(row["messages"] for row in found if row["destination"] is None)
        counts = [row for row in found if row["destination"] is not None]
        counts.sort(key=lambda row: (row["broker"], row["destination"]))
        first = reading(sample).to_pylist() if counts else []
        if ends is None:  # of the rows of a broker, that with the largest end is the last one
            ends = dict(sorted((row["broker"], row["end"]) for row in counts))
        return Plan(ends, counts, first, left_out, sent)

    def tables(self, broker: str, start: int, end: int) -> Generator[pa.Table]:
        """The rows to send of a broker at positions in [start, end), in order, some at a time."""

        def sizes() -> DataFrame:
            chosen = replay.within(self.chosen(), {broker: start}, {broker: end})
            return replay.sizes(self._sendable(chosen), STRETCH)

        rows = reading(lambda: sizes().collect())
        stretches = [Stretch(row["stretch"], row["messages"], row["bytes"]) for row in rows]
        parts = replay_batches.ranges(stretches, start, end)
        return replay_batches.ahead(partial(self._rows, broker, *part) for part in parts)

    def _rows(self, broker: str, start: int, end: int) -> pa.Table:
        def read() -> pa.Table:
            messages = archive_tables.read_positions(
                self._spark, self._root, archive_tables.MESSAGE, broker, start, end
            )
            return replay.transform(self._sendable(self._choose(messages)), self._wish.to).toArrow()

        return reading(read).sort_by("position")

    def _sendable(self, messages: DataFrame) -> DataFrame:
        return replay.sendable(messages, self._wish.to)

    def _choose(self, messages: DataFrame) -> DataFrame:
        from pyspark.errors import AnalysisException

        wish = self._wish
        try:
            return replay.choose(
                messages, wish.where or "true", destinations=wish.destinations, start=wish.start, end=wish.end
            )
        except AnalysisException as error:
            what = str(error).strip().partition("SQLSTATE")[0].splitlines()[0].strip()
            columns = ", ".join(archive_tables.names(archive_tables.MESSAGE))
            fix = f"write a condition of SQL about the columns {columns}"
            raise PipelineError(f"--where: {what}", fix, USAGE) from error


class _Sender:
    """Publishes batches, and notes how far it has come."""

    def __init__(self, run: Run, client: BulkClient, url: str, sent: _Sent, rate: float | None) -> None:
        self._run = run
        self._client = client
        self._url = url
        #: messages by destination
        self._counts = Counter[str]()
        self._sent = sent
        self._rate = rate
        self._due = time.monotonic()

    def send(self, batch: Batch) -> None:
        """Publish a batch, unless it was published before. Raises Stopped when that is requested."""
        self._wait(batch.rows.num_rows)
        began = time.monotonic()
        rows = batch.rows.select(replay.SENT)
        stage = self._client.stage_rows(rows.to_batches())
        self._client.commit(replay_batches.producer(self._run.name, batch.broker), batch.end, [stage])
        self._counts.update(rows["destination"].to_pylist())
        for destination, messages in self._counts.items():
            self._run.lineage.sent(self._url, destination, messages)
        place = {"epoch": batch.epoch, "pos": batch.end}
        self._sent.add(batch.broker, place, batch.rows.num_rows)
        self._sent.store(self._run.folder)
        progress = self._run.progress
        progress.batch(batch.rows.num_rows, round(1000 * (time.monotonic() - began)))
        progress.read += batch.rows.num_rows
        progress.set(offsets=dict(self._sent.places))
        self._run.around.show(progress)

    def _wait(self, messages: int) -> None:
        """Wait until the rate permits so many messages."""
        now = time.monotonic()
        self._run.stop.sleep(max(0.0, self._due - now))
        if self._rate is not None:
            self._due = max(self._due, now) + messages / self._rate


def _starts(name: str, sent: _Sent, api: Api) -> dict[str, int]:
    """The positions from which messages were not sent, by broker."""
    starts = {broker: place["pos"] for broker, place in sent.places.items()}
    for broker, position in _published(name, api).items():
        starts[broker] = max(starts.get(broker, 0), position)
    return starts


def _published(name: str, api: Api) -> dict[str, int]:
    """The positions behind the last batch that the broker has published, by broker of the archive. Raises
    PipelineError."""
    with _answered("the messages that were sent before are not known"):
        producers = api.call("GET", f"/bulk/producers?limit={_LISTED}")["items"]
    found = ((replay_batches.broker_of(name, one["name"]), one["last_batch"]) for one in producers)
    return {broker: last for broker, last in found if broker is not None and last is not None}


@contextmanager
def _answered(what: str) -> Iterator[None]:
    """Raise PipelineError when the broker does not answer."""
    try:
        yield
    except (ApiRefused, ApiUnreachable) as error:
        raise PipelineError(
            f"{what}: {error}", "try again when the broker can be reached", TEMPORARY
        ) from error


def _text(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()


STATE: Final = RunState(
    again="the next run sends the messages again that were sent before",
    offsets=_offsets,
    instead="each message is sent once; to send others, give another --name",
    forget=_forget,
)
