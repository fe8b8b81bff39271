"""Addresses of journals: the store that each names, and those that are refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_app.config import ConfigError
from broker_app.journal.stores.directory.store import FileStore
from broker_app.journal.stores.postgres import PostgresStore
from broker_app.storage.factory import store_at


@pytest.mark.parametrize(
    "address", ["file:/srv/mom?a#b", "file:///srv/mom?a#b", "file://localhost/srv/mom?a#b"]
)
def test_the_directory_of_an_address(address: str) -> None:
    store = store_at(address, "B1")
    assert isinstance(store, FileStore)
    assert store.directory == Path("/srv/mom?a#b/mom_journal_B1")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("file:srv/mom", "is not absolute: write file:/DIRECTORY"),
        ("file:", "is not absolute"),
        ("file://", "is not absolute"),
        ("file://nas/mom", "names the host nas: mount its directory"),
        ("file://nas", "names the host nas"),
        ("mysql://mom:secret@db/mom", "is not that of a store"),
    ],
)
def test_addresses_that_are_refused(address: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        store_at(address, "B1")
    assert "secret" not in str(refused.value)


def test_a_name_that_postgres_would_cut_off_is_refused() -> None:
    address = "postgresql://db/mom"
    assert isinstance(store_at(address, "b" * 51), PostgresStore)
    for name in ("b" * 52, "ü" * 26):
        with pytest.raises(ConfigError, match="has 52 bytes; with a journal in PostgreSQL it has at most 51"):
            store_at(address, name)
