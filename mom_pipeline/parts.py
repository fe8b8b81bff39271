"""Parquet files with rows in order of position, of about one size each, not visible before they are
committed."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mom_pipeline.archive_files import ArchivePart

#: bytes of a file at which the next one begins
FILE_BYTES = 128 * 1024 * 1024
#: bytes in memory that become a row group
ROW_GROUP_BYTES = 16 * 1024 * 1024
#: columns with few values
_DICTIONARY = {
    "broker", "event", "destination", "destination_kind", "subscription", "topic", "reason", "client_id",
    "user", "origin_broker", "peer_broker", "content_type", "schema_id", "priority", "epoch",
}  # fmt: skip
#: columns whose smallest and largest value no query needs
_WITHOUT_STATISTICS = {"headers", "body"}


class PartWriter:
    """Writes the rows of one hour of one broker into files of about `file_bytes`."""

    def __init__(
        self, root: Path, staging: str, table: str, folder: str, broker: str, file_bytes: int = FILE_BYTES
    ) -> None:
        self._root = root
        self._staging, self._table, self._folder, self._broker = staging, table, folder, broker
        self._file_bytes = file_bytes
        self._rows: list[pa.RecordBatch] = []
        #: bytes of rows in memory
        self.buffered = 0
        self._file: _File | None = None
        self._closed: list[ArchivePart] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Take more rows, whose positions are not smaller than those before."""
        self._rows.append(rows)
        self.buffered += rows.nbytes
        if self.buffered >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the rows in memory as a row group."""
        if not self._rows:
            return
        table = pa.Table.from_batches(self._rows)
        self._rows, self.buffered = [], 0
        if self._file is None:
            self._file = _File(self._root, f"{self._staging}/{uuid.uuid4().hex}.staged", table.schema)
        self._file.write(table)
        if self._file.size >= self._file_bytes:
            self._end_file()

    def close(self) -> list[ArchivePart]:
        """The files, durable and not visible."""
        self.flush()
        self._end_file()
        return self._closed

    def _end_file(self) -> None:
        if self._file is not None:
            first, last, rows = self._file.close()
            place = self._file.name, self._table, self._folder, self._broker
            self._closed.append(ArchivePart(*place, first, last, rows))
            self._file = None


class _File:
    """One Parquet file that is being written."""

    def __init__(self, root: Path, name: str, schema: pa.Schema) -> None:
        self.name = name
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "xb")  # noqa: SIM115 (closed by `close`)
        self._first, self._last, self._rows = (1 << 63) - 1, -1, 0
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name in _DICTIONARY],
            write_statistics=[name for name in schema.names if name not in _WITHOUT_STATISTICS],
            sorting_columns=[pq.SortingColumn(schema.get_field_index("position"))],
        )

    @property
    def size(self) -> int:
        return self._file.tell()

    def write(self, table: pa.Table) -> None:
        bounds = pc.min_max(table["position"]).as_py()
        self._first, self._last = min(self._first, bounds["min"]), max(self._last, bounds["max"])
        self._rows += table.num_rows
        self._writer.write_table(table)

    def close(self) -> tuple[int, int, int]:
        """(first position, last position, rows) of the file, which is on the disk."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._first, self._last, self._rows
