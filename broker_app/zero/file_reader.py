"""Files of limited size, with fingerprints that change when a file does."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from broker_app.base.process import ownership

MIB = 1024 * 1024
MAX_FILE_BYTES = MIB


#: state of a file without reading it: modification time in ns, size in bytes, inode
FileState = tuple[int, int, int]


class Unreadable(Exception):
    """A file that cannot be read; the text has the reason."""


class Missing(Unreadable):
    """A file that does not exist."""


class Fingerprint(NamedTuple):
    """The state of a file when it was read. Times alone would miss a file that replaces another."""

    modified_ns: int
    size: int
    inode: int
    sha256: str

    @property
    def state(self) -> FileState:
        return self.modified_ns, self.size, self.inode


class File(NamedTuple):
    """A file that was read. `name` is its path as seen from the folder of the first file; `includes` are
    the names of those that it includes."""

    name: str
    fingerprint: Fingerprint
    includes: tuple[str, ...]


def with_included(files: Mapping[str, File], name: str) -> list[str]:
    """The names of a file that was read, and of all that it includes, directly or not."""
    found = [name]
    for known in found:
        found += [inner for inner in files[known].includes if inner not in found]
    return found


class Files(Protocol):
    """A source of files. Names are paths with slashes, relative to the directory of the first file."""

    def read(self, name: str) -> tuple[bytes, Fingerprint]:
        """Return the content and the fingerprint of a file. Raises Missing, Unreadable."""


class Folder:
    """Files on disk. `confined` refuses those outside of the directory, `owned` those that other users can
    write."""

    def __init__(self, root: Path, *, confined: bool = False, owned: bool = False) -> None:
        self._root = root
        self._confined = confined
        self._owned = owned

    def path(self, name: str) -> Path:
        return self._root / name

    def stat(self, name: str) -> FileState | None:
        """Return the state of a file without reading it; None when it does not exist."""
        try:
            found = os.stat(self.path(name))
        except (OSError, ValueError):
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def read(self, name: str) -> tuple[bytes, Fingerprint]:
        path = self.path(name)
        if self._confined and not path.resolve().is_relative_to(self._root.resolve()):
            raise Unreadable(f"{name} is outside of the directory of the first file")
        try:
            # Non-blocking: a pipe of that name would block the reader forever.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise Unreadable(f"{name} is not a regular file")
                content = file.read(MAX_FILE_BYTES + 1)
            if self._owned:
                ownership.check(path)
        except (FileNotFoundError, NotADirectoryError):
            raise Missing(f"there is no file {name}") from None
        except ownership.ForeignPath as error:
            # Its state is the same afterwards, so that it would not be read again.
            raise Unreadable(f"{error}, and touch {name}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Unreadable(f"{name} cannot be read: {reason}") from None
        digest = hashlib.sha256(content).hexdigest()
        return content, Fingerprint(found.st_mtime_ns, found.st_size, found.st_ino, digest)


class Texts:
    """Files in memory by name; others are read from `others`."""

    def __init__(self, texts: Mapping[str, str], others: Files | None = None) -> None:
        self._texts = texts
        self._others = others

    def read(self, name: str) -> tuple[bytes, Fingerprint]:
        text = self._texts.get(name)
        if text is not None:
            content = text.encode("utf-8", "surrogatepass")
            return content, Fingerprint(0, len(content), 0, hashlib.sha256(content).hexdigest())
        if self._others is not None:
            return self._others.read(name)
        raise Missing(f"there is no file {name}")


def resolve_path(name: str, path: str) -> str:
    """The name of the file that `path` in file `name` refers to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def text_of(name: str, content: bytes) -> str:
    """The text of a file. Raises Unreadable when it is too large or not UTF-8."""
    if len(content) > MAX_FILE_BYTES:
        raise Unreadable(f"{name} is larger than {MAX_FILE_BYTES // MIB} MiB; split it with @include")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            f"{name} is not UTF-8: byte {error.start + 1}, in line {line}, is 0x{content[error.start]:02x}"
        ) from None
