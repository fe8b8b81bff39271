"""Users, rules and bridges, carried in the journal's store to mirrors without a database.

With `MOM_SECRET_KEY_FILE` the note is sealed, see `configuration_key`. Without it, the note has the secret
key too, which encrypts what the database has: who can read the store is an administrator then.

The whole SQLite file of the configuration is carried: what the active broker has is what its mirrors get. Its
digest is a note of its own, since mirrors look every second whether it has changed, and it has the audit log.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from broker_app.features.mirror.configuration_key import ConfigurationKey, ConfigurationRefused
from broker_app.journal.store import Store
from broker_app.net.rest.node.mirror_status import READABLE, SEALED

_KEY, _DIGEST_KEY = "configuration", "digest/configuration"
#: bytes 18 and 19 of a SQLite file: 1 for a rollback journal. A copy in memory cannot have a write-ahead log.
_VERSIONS_AT, _ROLLBACK = 18, b"\x01\x01"
_TIMEOUT_S = 10.0
#: a file that was changed less than so many seconds ago may be changed again without another time
_SETTLED_S = 2.0


class ReplicatedConfiguration:
    """The SQLite file `database` and the file of the secret key, which is carried too if there is no `key` to
    seal with. One thread at a time uses it."""

    def __init__(
        self, store: Store, database: Path, secret_key: Path, key: ConfigurationKey | None = None
    ) -> None:
        self._store = store
        self._database = database
        self._secret_key = secret_key
        self._key = key
        #: there once this broker has sealed a configuration, or opened one: it takes no other since then
        self._only_sealed = database.with_name("configuration.sealed")
        #: why the stored configuration is not taken, and its digest
        self._refused: ConfigurationRefused | None = None
        self._refused_digest = ""
        #: of the content that was carried or restored last
        self._digest = ""
        #: how often the configuration here was replaced
        self.replaced = 0
        #: times and sizes of the files whose content that is; None if they have to be read
        self._files: list[tuple[int, int]] | None = None

    @property
    def carried(self) -> str:
        """SEALED or READABLE: the way in which the configuration is carried."""
        return READABLE if self._key is None else SEALED

    def store(self, put_note: Callable[[str, bytes], None]) -> bool:
        """Store the configuration by `put_note` if it has changed; return True if it had.

        Raises JournalError, OSError, and ConfigurationRefused if others seal it, and this broker cannot.
        """
        if self._key is None and self._refused is not None:
            raise self._refused
        files = self._settled_files()
        if files is not None and files == self._files:
            return False
        content = self._content()
        digest = hashlib.sha256(content).hexdigest()
        if digest == self._digest:
            self._files = files
            return False
        note = self._note(content)
        # In this order: who finds the digest of a content that is not there yet asks again.
        put_note(_DIGEST_KEY, digest.encode())
        put_note(_KEY, note)
        self._digest, self._files = digest, files
        return True

    def restore(self) -> bool:
        """Replace the configuration here by the stored one if that has changed; return True if it had.

        Raises JournalError, OSError, sqlite3.Error, and ConfigurationRefused.
        """
        noted = self._store.notes(_DIGEST_KEY).get(_DIGEST_KEY)
        noted_digest = noted.content.decode() if noted is not None else ""
        if noted_digest and noted_digest == self._digest:
            return False
        if self._refused is not None and noted_digest and noted_digest == self._refused_digest:
            raise self._refused
        note = self._store.notes(_KEY).get(_KEY)
        if note is None:
            return False
        document = json.loads(note.content)
        try:
            content = self._opened(document)
        except ConfigurationRefused as refused:
            self._refused, self._refused_digest = refused, noted_digest
            raise
        self._refused = None
        digest = hashlib.sha256(content).hexdigest()
        if digest == self._digest:
            return False
        if self._key is None:
            self._write_key(document["secret_key"])
        self._database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(sqlite3.connect(":memory:")) as source:
            source.deserialize(content)
            with closing(sqlite3.connect(self._database, timeout=_TIMEOUT_S)) as target:
                source.backup(target)
        # First: who finds nothing new then has seen that.
        self.replaced += 1
        self._digest, self._files = digest, None
        return True

    def _note(self, content: bytes) -> bytes:
        """The note with the configuration."""
        if self._key is None:
            secret_key = self._secret_key.read_text("ascii")
            document = {"secret_key": secret_key, "database": b64encode(content).decode("ascii")}
            return json.dumps(document).encode()
        sealed = self._key.seal(content)
        self._only_sealed.touch(mode=0o600)
        return sealed

    def _opened(self, document: dict[str, Any]) -> bytes:
        """The database of a note. Raises ConfigurationRefused."""
        is_sealed = "sealed" in document
        if self._key is None:
            if is_sealed:
                raise ConfigurationRefused(
                    "it is sealed, and this broker has no key: set MOM_SECRET_KEY_FILE to a copy of that "
                    "file of the active broker"
                )
            return b64decode(document["database"])
        if is_sealed:
            content = self._key.open(document)
            self._database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._only_sealed.touch(mode=0o600)
            return content
        # One of before there was the file: it has the former secret key, which stands below the new one.
        former = str(document["secret_key"]).split()
        if self._only_sealed.exists() or not former or not all(map(self._key.knows, former)):
            raise ConfigurationRefused(
                "it is not sealed, so any program that can write into the store may have made it. Set "
                "MOM_SECRET_KEY_FILE at the active broker, too; docs/mirrors.md has the steps"
            )
        return b64decode(document["database"])

    def _settled_files(self) -> list[tuple[int, int]] | None:
        """Times and sizes of the files of the database; None if one was changed just now."""
        found = []
        for path in (self._database, self._database.with_name(f"{self._database.name}-wal")):
            if path.exists():
                status = path.stat()
                if time.time() - status.st_mtime < _SETTLED_S:
                    return None
                found.append((status.st_mtime_ns, status.st_size))
        return found

    def _content(self) -> bytes:
        with (
            closing(
                sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=_TIMEOUT_S)
            ) as source,
            closing(sqlite3.connect(":memory:")) as copy,
        ):
            source.backup(copy)
            content = copy.serialize()
        return content[:_VERSIONS_AT] + _ROLLBACK + content[_VERSIONS_AT + len(_ROLLBACK) :]

    def _write_key(self, key: str) -> None:
        if self._secret_key.exists() and self._secret_key.read_text("ascii") == key:
            return
        self._secret_key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._secret_key.parent)  # with mode 0600
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key)
        os.replace(name, self._secret_key)
