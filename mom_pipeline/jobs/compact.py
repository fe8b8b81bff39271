"""Compaction: the small files of an hour of the archive become files of about 128 MiB, in order of position.

It needs no Spark. An hour is exchanged in one step, so a reader sees its rows once at any time; a query that
has listed the old files and opens one afterwards fails with "file not found", and is right when it is
repeated."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mom_pipeline import archive_files
from mom_pipeline.archive_files import STAGING, ArchiveError, bounds
from mom_pipeline.archive_tables import TABLES, VERSION, arrow_schema
from mom_pipeline.parts import FILE_BYTES, PartWriter

_STAGING = f"{STAGING}/compact"
#: seconds for which a folder that was replaced stays where it is: a reader may be listing it, and would find
#: less than its files while they are deleted
REPLACED_S = 2.0


@dataclass(frozen=True)
class Compacted:
    """The files of one hour, before and after."""

    folder: str
    files_before: int
    files_after: int
    rows: int


@dataclass(frozen=True)
class _Small:
    """A file to be merged, and its bounds."""

    path: Path
    first: int
    last: int


def compact(root: Path | str, before: datetime, *, file_bytes: int = FILE_BYTES) -> Iterator[Compacted]:
    """Compact each hour that ended before a time, and yields it; those with less than two files of half of
    `file_bytes` stay as they are. Refused while another compaction of this archive runs."""
    root = Path(root).absolute()
    with archive_files.only_one(root, "compact"):
        shutil.rmtree(root / _STAGING, ignore_errors=True)  # of a compaction that was killed
        archive_files.sweep(root)
        replaced: list[tuple[float, Path]] = []
        for folder in hours(root, before):
            done = _compact_hour(root, folder, file_bytes, replaced)
            if done is not None:
                yield done
            while replaced and replaced[0][0] <= time.monotonic():
                shutil.rmtree(replaced.pop(0)[1])
        for due, path in replaced:
            time.sleep(max(0.0, due - time.monotonic()))
            shutil.rmtree(path)


def hours(root: Path, before: datetime) -> list[str]:
    """The folders of the hours that ended before a time, relative to the root."""
    end = before.astimezone(UTC).strftime("date=%Y-%m-%d/hour=%H")
    found = (path for table in TABLES for path in root.glob(f"{table}/v={VERSION}/broker=*/date=*/hour=*"))
    return sorted(path.relative_to(root).as_posix() for path in found if "/".join(path.parts[-2:]) < end)


def _compact_hour(
    root: Path, folder: str, file_bytes: int, replaced: list[tuple[float, Path]]
) -> Compacted | None:
    """Compact an hour, and add the folder that was replaced with the time at which it may be deleted."""
    files = sorted((root / folder).glob("part-*.parquet"))
    small = [path for path in files if path.stat().st_size < file_bytes // 2]
    if len(small) < 2:
        return None
    table, broker = folder.split("/")[0], folder.split("/")[2].removeprefix("broker=")
    staging = f"{_STAGING}/{uuid.uuid4().hex}"
    writer = PartWriter(root, staging, table, folder, broker, file_bytes)
    rows = 0
    for merged in _merged(small, arrow_schema(table)):
        rows += merged.num_rows
        for batch in merged.to_batches():
            writer.add(batch)
    parts = writer.close()
    if sum(part.rows for part in parts) != rows:
        raise ArchiveError(
            f"{root / folder} had {rows} rows, and its compacted files have others; nothing was changed"
        )
    replacement = root / staging
    for part in parts:
        os.rename(root / part.staged, replacement / Path(part.final).name)
    archive_files.exchange(root, folder, replacement, [path.name for path in small])
    replaced.append((time.monotonic() + REPLACED_S, replacement))
    return Compacted(folder, len(files), len(files) - len(small) + len(parts), rows)


def _merged(files: list[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of files in order of position; only files whose positions overlap are in memory together.
    Columns that files of former versions do not have are null."""
    waiting = sorted(
        (_Small(path, *bounds(path)) for path in files), key=lambda small: (small.first, small.last)
    )
    while waiting:
        together, end = [waiting.pop(0)], -1
        while waiting and waiting[0].first <= max(end, together[-1].last):
            end = max(end, together[-1].last)
            together.append(waiting.pop(0))
        rows = pa.concat_tables(
            pq.read_table(small.path, schema=schema, partitioning=None) for small in together
        )
        yield rows if _is_sorted(rows["position"]) else rows.sort_by("position")


def _is_sorted(positions: pa.ChunkedArray) -> bool:
    return len(positions) < 2 or bool(pc.all(pc.less_equal(positions[:-1], positions[1:])).as_py())
