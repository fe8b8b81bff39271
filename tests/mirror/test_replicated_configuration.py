"""The configuration that mirrors get through the journal's store, and how much is read for it."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from base64 import b64encode
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker_app.features.mirror.configuration_key import ConfigurationKey, ConfigurationRefused
from broker_app.features.mirror.configuration_replicator import ConfigurationReplicator
from broker_app.features.mirror.replicated_configuration import ReplicatedConfiguration
from broker_app.journal.store import Note
from broker_app.journal.stores.directory.store import FileStore


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

    def use_key(self, keys: str, name: str = "B") -> None:
        """Start again with MOM_SECRET_KEY_FILE."""
        self.key.write_text(keys, "ascii")
        sealing = ConfigurationKey(self.key, name)
        self.configuration = ReplicatedConfiguration(self.store, self.database, self.key, sealing)

    def store_has(self, path: Path) -> bool:
        """Return True for a file of the shared store."""
        return path.is_file() and "mom_journal_B" in str(path)

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
    active.execute(f"INSERT INTO users VALUES ('anna@plant'), ('{'x' * 100_000}')")
    return active, standby


def test_a_change_is_carried_once_and_restored_once(tmp_path: Path) -> None:
    active, standby = pair(tmp_path)
    assert (active.carry(), standby.configuration.restore()) == (True, True)
    assert standby.key.read_text("ascii") == "a key"
    assert len(standby.execute("SELECT name FROM users")) == 2
    assert (active.carry(), standby.configuration.restore()) == (False, False)
    active.execute("DELETE FROM users WHERE name = 'anna@plant'")
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


def note_of(broker: Broker) -> bytes:
    return broker.store.notes("configuration")["configuration"].content


def sealing(place: Path, keys: str = "fresh\na key\n") -> tuple[Broker, Broker]:
    """An active broker and a standby, both with a key file; that of the former key is below."""
    active, standby = pair(place)
    for broker in (active, standby):
        broker.use_key(keys)
    return active, standby


def test_who_reads_the_store_finds_neither_keys_nor_users(tmp_path: Path) -> None:
    active, standby = sealing(tmp_path)
    assert active.carry()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if active.store_has(path))
    assert b"fresh" not in stored
    assert b"a key" not in stored
    for column in (b"anna@plant", b64encode(b"SQLite format 3")[:16], b"SQLite format 3"):
        assert column not in stored
    assert standby.configuration.restore()
    assert len(standby.execute("SELECT name FROM users")) == 2
    assert standby.key.read_text("ascii") == "fresh\na key\n", "the operator's file is not replaced"


def test_a_configuration_that_others_made_is_refused(tmp_path: Path) -> None:
    active, standby = sealing(tmp_path)
    assert (active.carry(), standby.configuration.restore()) == (True, True)
    sealed = json.loads(note_of(active))
    eve = Broker(tmp_path, "eve")
    eve.execute("CREATE TABLE users (name)")
    eve.use_key("eves\n")
    assert eve.carry()
    with pytest.raises(ConfigurationRefused, match="copy the file of MOM_SECRET_KEY_FILE"):
        standby.configuration.restore()
    forged = {**json.loads(note_of(eve)), "key": sealed["key"]}
    standby.store.put_note("configuration", json.dumps(forged).encode())
    standby.store.put_note("digest/configuration", b"another")
    with pytest.raises(ConfigurationRefused, match="changed in the store without the key"):
        standby.configuration.restore()
    assert len(standby.execute("SELECT name FROM users")) == 2


def test_a_configuration_that_was_refused_is_not_read_again(tmp_path: Path) -> None:
    active, standby = sealing(tmp_path)
    standby.use_key("another\n")
    assert active.carry()
    with pytest.raises(ConfigurationRefused):
        standby.configuration.restore()
    standby.store.read = 0
    with pytest.raises(ConfigurationRefused):
        standby.configuration.restore()
    assert standby.store.read < 1_000


def test_the_configuration_of_another_broker_is_refused(tmp_path: Path) -> None:
    active, standby = sealing(tmp_path)
    active.use_key("fresh\n", name="C")
    assert active.carry()
    with pytest.raises(ConfigurationRefused, match="that of the broker 'C'"):
        standby.configuration.restore()


def test_one_of_an_older_version_is_taken_until_the_first_sealed_one_if_it_has_a_known_key(
    tmp_path: Path,
) -> None:
    active, standby = pair(tmp_path)
    assert active.carry()
    standby.use_key("fresh\n")
    with pytest.raises(ConfigurationRefused, match="it is not sealed"):
        standby.configuration.restore()
    standby.use_key("fresh\na key\n")
    assert standby.configuration.restore()
    assert standby.carry()
    active.execute("INSERT INTO users VALUES ('eve')")
    assert active.carry()
    with pytest.raises(ConfigurationRefused, match="it is not sealed"):
        standby.configuration.restore()


def test_a_broker_without_the_key_does_not_replace_what_is_sealed(tmp_path: Path) -> None:
    active, standby = pair(tmp_path)
    active.use_key("fresh\n")
    assert active.carry()
    with pytest.raises(ConfigurationRefused, match="this broker has no key"):
        standby.configuration.restore()
    standby.key.write_text("its own", "ascii")
    standby.execute("CREATE TABLE users (name)")
    with pytest.raises(ConfigurationRefused, match="this broker has no key"):
        standby.carry()


@pytest.mark.parametrize(("has_key", "warns"), [(True, False), (False, True)])
async def test_a_broker_without_a_key_file_says_what_a_reader_of_the_store_can_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_key: bool, warns: bool
) -> None:
    active, _ = sealing(tmp_path) if has_key else pair(tmp_path)
    ConfigurationReplicator(active.configuration)
    assert ("each reader of that store" in caplog.text) is warns
    assert ("Set MOM_SECRET_KEY_FILE" in caplog.text) is warns
