"""Archives that are written without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mom_pipeline import archive_files
from mom_pipeline.archive_files import ArchivePart
from mom_pipeline.archive_tables import EVENT
from mom_pipeline.parquet_archive import stage_rows
from tests.pipeline import traffic


def write(
    root: Path, query: str, batch: int, rows: list[dict[str, Any]], tasks: int = 1, table: str = EVENT
) -> bool:
    """Write a batch as tasks of Spark and its driver do."""
    staging = archive_files.staging_folder(query, batch)
    size = -(-len(rows) // tasks)
    parts: list[ArchivePart] = []
    for start in range(0, len(rows), size):
        batches = traffic.batches(rows[start : start + size], table)
        parts += stage_rows(iter(batches), root, staging, table)
    return archive_files.commit(root, query, batch, parts)
