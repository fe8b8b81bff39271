"""Users, rules, bridges and the secret key, carried in the journal's store to mirrors without a database.

The whole SQLite file of the configuration is carried: what the active broker has is what its mirrors get.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
from base64 import b64decode, b64encode
from contextlib import closing
from pathlib import Path

from broker_app.journal.store import Store

_KEY = "configuration"
#: bytes 18 and 19 of a SQLite file: 1 for a rollback journal. A copy in memory cannot have a write-ahead log.
_VERSIONS_AT, _ROLLBACK = 18, b"\x01\x01"
_TIMEOUT_S = 10.0


class ReplicatedConfiguration:
    """The SQLite file `database` and the file of the secret key. One thread at a time uses it."""

    def __init__(self, store: Store, database: Path, secret_key: Path) -> None:
        self._store = store
        self._database = database
        self._secret_key = secret_key
        #: of the content that was carried or restored last
        self._digest = b""

    def store(self) -> bool:
        """Store the configuration if it has changed; return True if it had. Raises JournalError, OSError."""
        content = self._content()
        digest = hashlib.sha256(content).digest()
        if digest == self._digest:
            return False
        key = self._secret_key.read_text("ascii")
        document = {"secret_key": key, "database": b64encode(content).decode("ascii")}
        self._store.put_note(_KEY, json.dumps(document).encode())
        self._digest = digest
        return True

    def restore(self) -> bool:
        """Replace the configuration here by the stored one if that has changed; return True if it had.

        Raises JournalError, OSError and sqlite3.Error.
        """
        note = self._store.notes(_KEY).get(_KEY)
        if note is None:
            return False
        document = json.loads(note.content)
        content = b64decode(document["database"])
        digest = hashlib.sha256(content).digest()
        if digest == self._digest:
            return False
        self._write_key(document["secret_key"])
        self._database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(sqlite3.connect(":memory:")) as source:
            source.deserialize(content)
            with closing(sqlite3.connect(self._database, timeout=_TIMEOUT_S)) as target:
                source.backup(target)
        self._digest = digest
        return True

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
