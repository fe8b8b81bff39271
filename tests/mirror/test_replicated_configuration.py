"""The configuration that mirrors get through the journal's store, and how much is read for it."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from broker_app.journal.file_store import FileStore
from broker_app.journal.store import Note
from broker_app.mirror.replicated_configuration import ReplicatedConfiguration


class CountingStore(FileStore):
    """Counts the bytes of the notes that are read and written."""

    read = written = 0

    def notes(self, prefix: str) -> dict[str, Note]:
        found = super().notes(prefix)
        self.read += sum(len(note.content) for note in found.values())
        return found

    def put_note(self, key: str, content: bytes) -> None:
        self.written += len(content)
        super().put_note(key, content)


class Broker:
    """A data directory of its own, and the store that it shares with others."""

    def __init__(self, place: Path, name: str) -> None:
        self.database = place / name / "config.sqlite3"
        self.database.parent.mkdir()
        self.key = place / name / "secret_key"
        self.store = CountingStore(place, "B")
        self.configuration = ReplicatedConfiguration(self.store, self.database, self.key)

    def execute(self, statement: str) -> list[Any]:
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            with connection:
                return connection.execute(statement).fetchall()

    def carry(self) -> bool:
        return self.configuration.store(self.store.put_note)

    def settle(self) -> None:
        """Make the last change of the files a minute old."""
        ago = time.time() - 60
        for path in self.database.parent.iterdir():
            os.utime(path, (ago, ago))


def pair(place: Path) -> tuple[Broker, Broker]:
    active, standby = Broker(place, "active"), Broker(place, "standby")
    active.key.write_text("a key", "ascii")
    active.execute("CREATE TABLE users (name)")
    active.execute(f"INSERT INTO users VALUES ('anna'), ('{'x' * 100_000}')")
    return active, standby


def test_a_change_is_carried_once_and_restored_once(tmp_path: Path) -> None:
    active, standby = pair(tmp_path)
    assert (active.carry(), standby.configuration.restore()) == (True, True)
    assert standby.key.read_text("ascii") == "a key"
    assert len(standby.execute("SELECT name FROM users")) == 2
    assert (active.carry(), standby.configuration.restore()) == (False, False)
    active.execute("DELETE FROM users WHERE name = 'anna'")
    assert (active.carry(), standby.configuration.restore()) == (True, True)
    assert len(standby.execute("SELECT name FROM users")) == 1


def test_a_configuration_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    active, standby = pair(tmp_path)
    assert (active.carry(), standby.configuration.restore()) == (True, True)
    active.settle()
    assert not active.carry()
    standby.store.read = active.store.written = 0
    active.configuration._content = None  # type: ignore[assignment,method-assign]  # it is not called
    for _ in range(10):
        assert (active.carry(), standby.configuration.restore()) == (False, False)
    assert standby.store.read < 1_000
    assert active.store.written == 0


def test_a_configuration_whose_digest_came_first_is_read_until_it_is_there(tmp_path: Path) -> None:
    active, standby = pair(tmp_path)
    assert (active.carry(), standby.configuration.restore()) == (True, True)
    active.execute("INSERT INTO users VALUES ('eve')")
    late: list[tuple[str, bytes]] = []
    active.configuration.store(
        lambda key, content: (
            active.store.put_note(key, content) if "digest" in key else late.append((key, content))
        )
    )
    assert not standby.configuration.restore()
    for key, content in late:
        active.store.put_note(key, content)
    assert standby.configuration.restore()
    assert len(standby.execute("SELECT name FROM users")) == 3
