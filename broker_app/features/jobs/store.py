"""The files of jobs: one folder each, below `data/jobs`.

job.json         the job as it was at its last change of state; replaced as a whole
positions        of its messages: u64, little endian, in order
intent.json      the messages of the present batch, written before it is submitted
results.ndjson   one line for each processed message, in order; a torn last line is cut
import.ndjson    the uploaded lines         export.ndjson   the exported lines
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from array import array
from collections.abc import Iterator
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from broker_app.features.jobs.job import Job

#: finished jobs that are kept, and how long
MAX_KEPT = 200
MAX_AGE_MS = 7 * 24 * 3600 * 1000
#: bytes of all files of jobs; the oldest finished ones make room
MAX_BYTES = 1024 * 1024 * 1024

_Intent = list[tuple[int, str, str, str]]


class Store:
    """Owns `directory`. All methods block for the time of a small file; some sync, as documented."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def folder(self, job_id: str) -> Path:
        return self._directory / job_id

    def results_file(self, job_id: str) -> Path:
        return self.folder(job_id) / "results.ndjson"

    def import_file(self, job_id: str) -> Path:
        return self.folder(job_id) / "import.ndjson"

    def export_file(self, job_id: str) -> Path:
        return self.folder(job_id) / "export.ndjson"

    def create(self, job: Job, positions: array[int]) -> None:
        """Store a new job; synced. It exists once `job.json` exists."""
        self.folder(job.id).mkdir(parents=True, exist_ok=True)
        if sys.byteorder != "little":
            positions = array("Q", positions)
            positions.byteswap()
        _write(self.folder(job.id) / "positions", positions.tobytes())
        self.save(job)
        _sync_directory(self._directory)

    def save(self, job: Job) -> None:
        """Replace the stored job; synced."""
        _write(self.folder(job.id) / "job.json", msgspec.json.encode(job))

    def positions(self, job_id: str) -> array[int]:
        found: array[int] = array("Q")
        found.frombytes((self.folder(job_id) / "positions").read_bytes())
        if sys.byteorder != "little":
            found.byteswap()
        return found

    def intend(self, job_id: str, intent: _Intent) -> None:
        """Store (number, id, target, header lines to remove) of messages about to be moved; synced."""
        _write(self.folder(job_id) / "intent.json", msgspec.json.encode(intent))

    def intent(self, job_id: str) -> _Intent:
        """The last intention; empty if none was written."""
        try:
            return msgspec.json.decode((self.folder(job_id) / "intent.json").read_bytes(), type=_Intent)
        except (OSError, msgspec.DecodeError):
            return []

    def open_results(self, job_id: str) -> FileIO:
        """For appending results, behind the last whole line."""
        file = FileIO(self.results_file(job_id), "a+")
        file.truncate(_whole_lines(file.fileno()))
        return file

    def open_export(self, job_id: str, size: int) -> BufferedWriter:
        """For appending to the export, which is cut to `size` bytes."""
        file = self.export_file(job_id).open("ab")
        file.truncate(size)
        return file

    def open_import(self, job_id: str, mode: Literal["rb", "wb"] = "rb") -> BinaryIO:
        """For reading or writing the upload."""
        return self.import_file(job_id).open(mode)

    def results(self, job_id: str) -> Iterator[dict[str, Any]]:
        """The results so far, in order."""
        with contextlib.suppress(FileNotFoundError), self.results_file(job_id).open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield msgspec.json.decode(line)

    def load(self) -> list[Job]:
        """All jobs, oldest first. Folders without a whole job (it was never accepted) are removed."""
        jobs = []
        for folder in sorted(self._directory.glob("j_*")):
            try:
                jobs.append(msgspec.json.decode((folder / "job.json").read_bytes(), type=Job))
            except (OSError, msgspec.DecodeError):
                shutil.rmtree(folder, ignore_errors=True)
        return sorted(jobs, key=lambda job: job.number)

    def remove(self, job_id: str) -> None:
        shutil.rmtree(self.folder(job_id), ignore_errors=True)

    def size(self, job_id: str) -> int:
        """Bytes of all files of a job."""
        return sum(map(_size, self.folder(job_id).glob("*")))


def _write(path: Path, content: bytes) -> None:
    """Replace a file atomically, and sync it. Other threads may be writing it, too."""
    new = path.with_suffix(f".{threading.get_ident()}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    new.replace(path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _whole_lines(descriptor: int) -> int:
    """The length of a file up to the end of its last whole line."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - 65_536)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _size(path: Path) -> int:
    """The size of a file; 0 if the job has just replaced it."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
