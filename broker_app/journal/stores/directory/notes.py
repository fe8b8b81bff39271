"""Notes that brokers exchange through files, with their age by the clock of the file system."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from urllib.parse import quote, unquote
from uuid import uuid4

from broker_app.journal.files import Files
from broker_app.journal.store import Note
from broker_app.journal.stores.directory.layout import DRAFT


class FileClock:
    """The time of a file system, which may be that of another machine."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._fd: int | None = None

    def now(self) -> float:
        """Seconds since 1970."""
        if self._fd is None:
            path = self._files.directory / f"{uuid4().hex}{DRAFT}"
            self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            path.unlink()
        os.utime(self._fd)
        return os.fstat(self._fd).st_mtime

    def close(self) -> None:
        """Close the file whose time is set."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class FileNotes:
    """See `store.Store` for the guarantees of each method."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._clock = FileClock(files)

    def put(self, key: str, content: bytes) -> None:
        """Write a note, or replace it."""
        self._files.create_directory()
        with unique_draft(self._files, content) as draft:
            self._files.rename(draft, quote(key, safe=""))

    def put_from(self, home: Files, key: str, content: bytes) -> None:
        """Write a note, or replace it, by way of a file in `home`; nothing is written when `home` is gone."""
        with unique_draft(home, content) as draft:
            self._files.create_directory()
            home.rename(draft, os.path.relpath(self._files.directory / quote(key, safe=""), home.directory))

    def drop(self, key: str) -> None:
        """Delete a note, if it is there."""
        self._files.remove(quote(key, safe=""))

    def find(self, prefix: str) -> dict[str, Note]:
        """The notes whose keys begin with `prefix`, by key."""
        found: dict[str, Note] = {}
        if not self._files.directory.exists():
            return found
        for name in self._files.names():
            key = unquote(name)
            if name.endswith(DRAFT) or not key.startswith(prefix):
                continue
            with contextlib.suppress(FileNotFoundError), open(self._files.directory / name, "rb") as file:
                age_s = self._clock.now() - os.fstat(file.fileno()).st_mtime
                found[key] = Note(file.read(), max(0.0, age_s))
        return found

    def close(self) -> None:
        """Close the files that are open."""
        self._clock.close()


@contextlib.contextmanager
def unique_draft(files: Files, content: bytes) -> Iterator[str]:
    """The name of a new file with `content`: several brokers may write the same file at once."""
    draft = f"{uuid4().hex}{DRAFT}"
    with files.draft(draft) as file:
        file.write((content,), 0)
        yield draft
