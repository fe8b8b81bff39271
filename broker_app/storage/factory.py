"""The journal of a broker by the setting `journal`: segment files, or a store that brokers share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from broker_app.config import Config, ConfigError
from broker_app.core.durability.records import body_at
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import ErasableStore, Holder, Store
from broker_app.journal.stores.directory.store import FileStore
from broker_app.journal.worker import CallSoon

_POSTGRES = ("postgres", "postgresql")
_FILES = "file"
_REDIS = ("redis", "rediss", "valkey", "valkeys")


def is_shared(config: Config) -> bool:
    """True if the journal is in a store that brokers share."""
    return config.journal is not None


def make_files(config: Config, loop: asyncio.AbstractEventLoop) -> SegmentJournal:
    """The journal in the data directory, not open yet."""
    return SegmentJournal(
        config.data / "journal",
        segment_bytes=config.segment_bytes,
        retention_bytes=config.journal_retention_bytes,
        cursor_bytes=config.cursor_bytes,
        call_soon_threadsafe=loop.call_soon_threadsafe,
        body_at=body_at,
    )


def make_shared(
    config: Config, store: Store, holder: Holder, call_soon_threadsafe: CallSoon
) -> SharedJournal:
    """The journal in `store`, not open yet."""
    return SharedJournal(
        store,
        holder,
        lease_s=config.lease_s,
        segment_bytes=config.segment_bytes,
        retention_bytes=config.journal_retention_bytes,
        cursor_bytes=config.cursor_bytes,
        call_soon_threadsafe=call_soon_threadsafe,
        private=private_store(config),
        body_at=body_at,
    )


def private_store(config: Config) -> Store | None:
    """The store of the private journal; None without one."""
    if config.private_journal is None:
        return None
    return FileStore(config.private_journal, config.name)


def journal_directories(config: Config) -> dict[str, Path]:
    """The directories of the shared and of the private journal, by the names of their settings; other stores
    have none. Raises ConfigError."""
    found = {}
    if config.journal is not None and urlsplit(config.journal).scheme == _FILES:
        found["journal"] = FileStore(_directory(config.journal), config.journal_name).directory
    if config.private_journal is not None:
        found["private_journal"] = FileStore(config.private_journal, config.name).directory
    return found


def make_store(config: Config) -> ErasableStore:
    """A store with connections of its own. Raises ConfigError for an address that is not one of a store."""
    assert config.journal is not None
    return store_at(config.journal, config.journal_name)


def is_address(place: str) -> bool:
    """Return whether a text is an address, and not the path of a directory."""
    return place.startswith(f"{_FILES}:") or "://" in place


def store_at(address: str, name: str) -> ErasableStore:
    """The store of broker `name` at an address, with connections of its own. Raises ConfigError."""
    scheme = urlsplit(address).scheme
    if scheme in _POSTGRES:
        return _postgres(address, name)
    if scheme in _REDIS:
        return _redis(address, name)
    if scheme == _FILES:
        return FileStore(_directory(address), name)
    # Without the address: it can contain a password.
    raise ConfigError(
        "the journal's address is not that of a store: write postgresql://USER:PASSWORD@HOST/NAME, "
        "redis://USER:PASSWORD@HOST:PORT, or file:/DIRECTORY for one on a shared file system"
    )


def _directory(address: str) -> Path:
    """The directory of a shared journal. Raises ConfigError for one that is not the same for all brokers."""
    path = address[len(_FILES) + 1 :]
    if path.startswith("//"):
        host, slash, path = path[2:].partition("/")
        path = slash + path
        if host not in ("", "localhost"):
            raise ConfigError(
                f"the journal's address {address} names the host {host}: mount its directory on all machines "
                "that share it, and write file:/DIRECTORY with the place where it is mounted"
            )
    if not path.startswith("/"):
        raise ConfigError(
            f"the journal's address {address} is not absolute: write file:/DIRECTORY, since brokers that are "
            "started in other directories would have journals of their own"
        )
    return Path(path)


def _postgres(url: str, name: str) -> ErasableStore:
    # Here and below: brokers with files need no client of a database.
    try:
        import psycopg  # noqa: F401 - not all brokers need it

        from broker_app.journal.stores.postgres import PostgresStore
    except ImportError as error:
        raise ConfigError(
            "a journal in PostgreSQL needs one more package: pip install 'psycopg[binary]'"
        ) from error
    try:
        return PostgresStore(url, name)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _redis(url: str, name: str) -> ErasableStore:
    from broker_app.journal.stores.redis import RedisStore

    try:
        return RedisStore(url, name)
    except ValueError as error:
        raise ConfigError(f"the journal's address is not that of a Redis server: {error}") from error
