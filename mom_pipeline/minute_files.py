"""Parquet files of `stat_minute`: one for each hour of a broker, whose minutes are replaced.

    <root>/stat_minute/v=1/broker=A/date=2026-11-21/hour=03/minutes.parquet

A file appears complete, by one rename. `minute` is UTC."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mom_pipeline import archive_files

TABLE: Final = "stat_minute"
_KEY: Final = ("minute", "destination")


def replace(root: Path, rows: pa.Table, start: datetime, end: datetime) -> None:
    """Write rows, whose minutes are in [start, end); they take the place of all stored ones in it."""
    for broker, hour, part in _by_hour(rows):
        folder = root / archive_files.hour_folder(
            TABLE, archive_files.checked_name("broker", broker), f"{hour:%Y-%m-%d}", hour.hour
        )
        file = folder / "minutes.parquet"
        if file.exists():
            before = pq.read_table(file, partitioning=None).cast(part.schema)
            kept = pc.or_(
                pc.less(before["minute"], _scalar(start, part)),
                pc.greater_equal(before["minute"], _scalar(end, part)),
            )
            part = pa.concat_tables([before.filter(kept), part])
        folder.mkdir(parents=True, exist_ok=True)
        _write(part.sort_by([(name, "ascending") for name in _KEY]), file)


def _by_hour(rows: pa.Table) -> Iterator[tuple[str, datetime, pa.Table]]:
    """(broker, hour, its rows) of each hour of each broker."""
    hours = pc.floor_temporal(rows["minute"], unit="hour")
    keys = pa.table({"broker": rows["broker"], "hour": hours})
    for key in keys.group_by(["broker", "hour"]).aggregate([]).to_pylist():
        chosen = pc.and_(pc.equal(rows["broker"], key["broker"]), pc.equal(hours, key["hour"]))
        yield key["broker"], key["hour"], rows.filter(chosen)


def _scalar(when: datetime, rows: pa.Table) -> pa.Scalar:
    return pa.scalar(when, pa.timestamp("us", "UTC")).cast(rows.schema.field("minute").type)


def _write(rows: pa.Table, file: Path) -> None:
    draft = file.with_name(".minutes.draft")
    pq.write_table(rows, draft, compression="zstd")
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    os.rename(draft, file)
    archive_files.sync_folder(file.parent)
