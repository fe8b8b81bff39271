"""The run `reconcile`: what one broker forwarded against what another received."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mom_pipeline.errors import DATA_LOSS, PipelineError
from mom_pipeline.job_folder import Job
from mom_pipeline.jobs import reconcile
from mom_pipeline.run_state import RunState
from mom_pipeline.runner import Run, Surroundings, begun
from mom_pipeline.source import Source
from pyspark_mom import schema
from pyspark_mom.transport import Journal, open_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION: Final = 1
#: the file of a run without one of its own, in its folder
REPORT: Final = "differences.ndjson"
#: what the console takes of a result: rows, bytes of JSON, and characters of the path of a file
MOST_ROWS: Final = 1_000
_MOST_BYTES: Final = 900_000
_LONGEST_PATH: Final = 1_000


@dataclass(frozen=True)
class Reconcile:
    """The parameters: the bridges of the sender that lead to the receiver, the file for messages that are not
    ok, and the time from which messages are compared."""

    bridges: Sequence[str]
    report: Path | None = None
    start: datetime | None = None
    grace: timedelta = timedelta(minutes=1)


@dataclass(frozen=True)
class ReconcileResult:
    """The number of messages in each state, and the file with the ids of those that are not ok."""

    run: Run
    states: dict[str, int]
    report: Path

    @property
    def differs(self) -> bool:
        """Return whether messages were lost or doubled, or come from nowhere."""
        return any(self.states.get(state) for state in reconcile.DIFFERENCES)


@dataclass(frozen=True)
class _Extent:
    """The positions of both journals that are compared, from the first to before the second one, and the time
    up to which the receiver's are complete."""

    sent: tuple[int, int]
    received: tuple[int, int]
    until: datetime


def run(
    name: str, sender: Source, receiver: Source, wish: Reconcile, around: Surroundings
) -> ReconcileResult:
    """Compare, write the report, and return the result. Raises PipelineError."""
    for source in (sender, receiver):
        source.parsed()
    parameters = {
        "sender": sender.parameters(), "receiver": receiver.parameters(), "bridges": list(wish.bridges),
    }  # fmt: skip
    job = Job(name, "reconcile", VERSION, schema.VERSION, parameters)
    with begun(job, around) as found, found.spark() as spark:
        extent = _extent(sender, receiver, wish)
        messages = _compared(spark, sender, receiver, wish, extent).persist()
        try:
            states = {row["state"]: row["messages"] for row in reconcile.summary(messages).collect()}
            report = wish.report.absolute() if wish.report else found.folder.path / REPORT
            shown = _write(messages, report)
        finally:
            messages.unpersist()
        found.progress.batch(sum(states.values()), 0)
        file = str(report) if len(str(report)) <= _LONGEST_PATH else ""
        found.reporter.store("reconciliation", {"states": states, "file": file, "rows": shown})
        for source, positions in ((sender, extent.sent), (receiver, extent.received)):
            first, end = ({source.broker: {"pos": position}} for position in positions)
            found.lineage.read(source.url, first, end)
        found.lineage.wrote(str(report), sum(states.values()) - states.get(reconcile.OK, 0))
    return ReconcileResult(found, states, report)


def _compared(
    spark: SparkSession, sender: Source, receiver: Source, wish: Reconcile, extent: _Extent
) -> DataFrame:
    """A row for each message."""
    received = receiver.read(
        spark, reconcile.RECEIVED_COLUMNS, events="RECEIVE", **_offsets(receiver, extent.received)
    )
    sent = sender.read(spark, reconcile.SENT_COLUMNS, **_offsets(sender, extent.sent))
    return reconcile.transform(
        sent,
        received,
        origin=sender.broker,
        bridges=wish.bridges,
        received_until=extent.until,
        grace=wish.grace,
        start=extent.sent[0],
    )


def _offsets(source: Source, positions: tuple[int, int]) -> dict[str, str]:
    """The options for positions from the first to before the second one."""
    names = ("startingOffsets", "endingOffsets")
    return {
        name: json.dumps({source.broker: position}) for name, position in zip(names, positions, strict=True)
    }


def _extent(sender: Source, receiver: Source, wish: Reconcile) -> _Extent:
    """The positions to compare. The end of the receiver is fixed first: whatever it has by then, the sender
    knows. Raises PipelineError where the receiver no longer has the first of them."""
    there = open_journal(receiver.broker, receiver.parsed())
    here = open_journal(sender.broker, sender.parsed())
    try:
        until = datetime.now(UTC)
        theirs, ours = there.span(), here.span()
        sent = ours.low if wish.start is None else here.position_at(_us(wish.start))
        begun_us, known_us = _time_us(here, sent, ours.end), _time_us(there, theirs.low, theirs.end)
        # A journal that begins at its first position has everything.
        if theirs.low > 1 and begun_us is not None and (known_us is None or known_us > begun_us):
            since = until if known_us is None else datetime.fromtimestamp(known_us / 1e6, UTC) + wish.grace
            raise PipelineError(
                f"[DATA_LOSS] {receiver.broker}: its journal begins at position {theirs.low}, later than the "
                f"first message of {sender.broker} that is to be compared",
                f"compare what is newer: --from {since:%Y-%m-%dT%H:%M:%SZ}",
                DATA_LOSS,
            )
        return _Extent((sent, ours.end), (theirs.low, theirs.end), until)
    finally:
        here.close()
        there.close()


def _time_us(journal: Journal, position: int, end: int) -> int | None:
    """The time of the batch of a position; None at the end."""
    found = next(iter(journal.frames(position, min(position + 1, end))), None)
    return None if found is None else found.frame.time_us


def _us(when: datetime) -> int:
    return round(when.timestamp() * 1_000_000)


def _write(messages: DataFrame, file: Path) -> list[dict[str, object]]:
    """Write the rows that are not ok, each as a line of JSON; return those that the console shows: errors of
    forwarding before others."""
    errors, others = list[str](), list[str]()
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.draft")
    with draft.open("w", encoding="utf-8") as lines:
        for row in reconcile.report(messages).orderBy("origin_position").toLocalIterator():
            line = json.dumps(row.asDict(), default=_text)
            lines.write(line + "\n")
            kept = errors if row["state"] in reconcile.DIFFERENCES else others
            if len(kept) < MOST_ROWS:
                kept.append(line)
    draft.replace(file)
    return excerpt([*errors, *others])


def excerpt(lines: Sequence[str]) -> list[dict[str, object]]:
    """The first rows, as many as the console takes in one request."""
    rows: list[dict[str, object]] = []
    size = 0
    for line in lines[:MOST_ROWS]:
        size += len(line) + len(", ")
        if size > _MOST_BYTES:
            break
        rows.append(json.loads(line))
    return rows


def _text(value: object) -> str:
    """A time as text in UTC."""
    assert isinstance(value, datetime)
    return value.astimezone(UTC).isoformat()


STATE: Final = RunState(
    again="the next run compares all that both journals have, as each run does",
    instead="each run compares from --from TIME on",
)
