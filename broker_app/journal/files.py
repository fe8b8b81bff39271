"""All system calls of the journal; every error names the file, the position and how to fix it."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from broker_app.journal.errors import Busy, JournalFailed, NoSpace

_Result = TypeVar("_Result")

_PIECES = 64  # written with one call; the system takes no more than 1024
SPARE_DESCRIPTORS = 16  # all parts of a journal together need no more at once

_REMEDIES = {
    errno.ENOSPC: "free space on that file system or move the data directory, then start the broker again",
    errno.EDQUOT: "raise the disk quota or move the data directory, then start the broker again",
    errno.EIO: "the disk reports errors: check it (dmesg, smartctl) and copy the data directory away",
    errno.EROFS: "the file system is read-only: mount it writable, then start the broker again",
    errno.EACCES: "give the broker's user the right to read and write there",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files (sysctl fs.file-max)",
}

_KINDS = {errno.ENOSPC: NoSpace, errno.EDQUOT: NoSpace, errno.EMFILE: Busy, errno.ENFILE: Busy}


class File:
    """An open file of the journal."""

    __slots__ = ("_system", "fd", "path")

    def __init__(self, path: Path, fd: int, system: Any) -> None:
        self.path = path
        self.fd = fd
        self._system = system

    def read(self, size: int, offset: int) -> bytes:
        """`size` bytes from `offset`; fewer at the end of the file."""
        try:
            content: bytes = self._system.pread(self.fd, size, offset)
            while len(content) < size:  # one pread gives at most 2 GiB
                more = self._system.pread(self.fd, size - len(content), offset + len(content))
                if not more:
                    break
                content += more
        except OSError as error:
            raise failed(error, f"reading {size} bytes", self.path, offset) from error
        return content

    def write(self, pieces: Sequence[bytes], offset: int) -> None:
        """Write all pieces, one after the other, from `offset`."""
        size = sum(map(len, pieces))
        try:
            written = self._system.pwritev(self.fd, pieces, offset)
            if written < size:
                rest = b"".join(pieces)
                while written < size:
                    written += self._system.pwritev(self.fd, (rest[written:],), offset + written)
        except OSError as error:
            raise failed(error, f"writing {size} bytes", self.path, offset) from error

    def reserve(self, size: int) -> None:
        """Allocate blocks for `size` bytes, without writing them."""
        try:
            self._system.posix_fallocate(self.fd, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # a file system that cannot: no harm
                raise failed(error, f"reserving {size} bytes", self.path, 0) from error

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, or extend it with a hole."""
        try:
            self._system.ftruncate(self.fd, size)
        except OSError as error:
            raise failed(error, "truncating", self.path, size) from error

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        try:
            self._system.fdatasync(self.fd)
        except OSError as error:
            raise failed(error, "syncing", self.path, None) from error

    def size(self) -> int:
        """Bytes in the file."""
        return int(self._system.fstat(self.fd).st_size)

    def close(self) -> None:
        """Close the file."""
        self._system.close(self.fd)


class Files:
    """The files of one journal's directory, by name. `system` stands for `os`; tests make it fail."""

    def __init__(self, directory: Path, system: Any = os) -> None:
        self.directory = directory
        self._system = system
        self._spare_descriptors: list[int] = []

    def keep_spare_descriptors(self) -> None:
        """Reserve descriptors, so that files can be opened when clients use all the others."""
        with suppress(OSError):
            while len(self._spare_descriptors) < SPARE_DESCRIPTORS:
                self._spare_descriptors.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def release_spare_descriptors(self) -> None:
        """Close the descriptors that `keep_spare_descriptors` reserved."""
        while self._spare_descriptors:
            os.close(self._spare_descriptors.pop())

    def create_directory(self) -> None:
        """Create the directory durably, readable only by its owner, unless it exists."""
        missing = [path for path in (self.directory, *self.directory.parents) if not path.exists()]
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise failed(error, "creating", self.directory, None) from error
        for path in {self.directory, *missing}:
            self._sync_directory(path.parent)

    def free_bytes(self) -> int:
        """The free bytes of the directory's file system."""
        try:
            found = self._system.statvfs(self.directory)
        except OSError as error:
            raise failed(error, "asking for free space", self.directory, None) from error
        return int(found.f_bavail * found.f_frsize)

    def names(self) -> list[str]:
        """All names in the directory, sorted."""
        try:
            return sorted(self._with_descriptor(lambda: self._system.listdir(self.directory)))
        except OSError as error:
            raise failed(error, "listing", self.directory, None) from error

    def open(self, name: str, *, write: bool = False, create: bool = False) -> File:
        """Open for reading, or for both; `create` makes the file if it is not there."""
        path = self.directory / name
        flags = os.O_CLOEXEC | (os.O_RDWR if write or create else os.O_RDONLY)
        if create:
            flags |= os.O_CREAT
        try:
            return File(path, self._open(path, flags), self._system)
        except OSError as error:
            raise failed(error, "opening", path, None) from error

    def _open(self, path: Path, flags: int) -> int:
        """A descriptor of the file."""
        return self._with_descriptor(lambda: int(self._system.open(path, flags, 0o600)))

    def _with_descriptor(self, call: Callable[[], _Result]) -> _Result:
        """The result of a call that takes a descriptor; a spare one makes room when there is no other."""
        while True:
            try:
                return call()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._spare_descriptors:
                    raise
            with suppress(IndexError):  # another thread took the last one
                os.close(self._spare_descriptors.pop())

    def content(self, name: str, size: int | None = None) -> bytes:
        """The whole file, or its first `size` bytes."""
        file = self.open(name)
        try:
            return file.read(file.size() if size is None else size, 0)
        finally:
            file.close()

    def replace(self, name: str, *pieces: bytes) -> None:
        """Replace a whole file, atomically and, after `sync_directory`, durably."""
        draft = f"{name}.new"
        with self.draft(draft) as file:
            at = 0
            for start in range(0, len(pieces), _PIECES):
                run = pieces[start : start + _PIECES]
                file.write(run, at)
                at += sum(map(len, run))
            file.sync()
            self.rename(draft, name)

    @contextmanager
    def draft(self, name: str) -> Iterator[File]:
        """A new file to be written; it is closed at the end, and deleted if that is not reached."""
        file = self.open(name, create=True)
        try:
            file.truncate(0)
            yield file
        except BaseException:
            self.discard(name)
            raise
        finally:
            file.close()

    def discard(self, name: str) -> None:
        """Delete a file after a failure, if possible; only the first failure is reported."""
        with suppress(JournalFailed):
            self.remove(name)

    def rename(self, old: str, new: str) -> None:
        """Rename a file; replaces a file of the new name."""
        try:
            self._system.rename(self.directory / old, self.directory / new)
        except OSError as error:
            raise failed(error, f"renaming to {new}", self.directory / old, None) from error

    def remove(self, name: str) -> None:
        """Delete a file if it is there."""
        try:
            self._system.unlink(self.directory / name)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise failed(error, "deleting", self.directory / name, None) from error

    def sync_directory(self) -> None:
        """Return when created, renamed and deleted names are on the disk."""
        self._sync_directory(self.directory)

    def _sync_directory(self, path: Path) -> None:
        try:
            fd = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._system.fsync(fd)
            finally:
                self._system.close(fd)
        except OSError as error:
            raise failed(error, "syncing", path, None) from error


def failed(error: OSError, operation: str, path: Path, offset: int | None) -> JournalFailed:
    """The error with the file, the position, what happened and how to fix it."""
    place = "" if offset is None else f" at offset {offset}"
    remedy = _REMEDIES.get(error.errno or 0, "see to it, then start the broker again")
    kind = _KINDS.get(error.errno or 0, JournalFailed)
    return kind(f"{path}: {operation}{place} failed: {error.strerror}; {remedy}")
