"""Reads a journal from the store that brokers share, as a standby does: without its lease."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from broker_app.journal import codec
from broker_app.journal.errors import JournalError
from broker_app.journal.store import Store
from broker_app.journal.stores.directory.store import FileStore
from pyspark_mom.credentials import Credential
from pyspark_mom.errors import BrokerUnreachable, InvalidOption, JournalUnreadable
from pyspark_mom.transport import Span, StoredFrame, failures

_REDIS: Final = ("redis", "rediss", "valkey", "valkeys")


class StoreJournal:
    """See `transport.Journal`. `make` is called for the store when it is needed; `broker` is the name of the
    broker, by which stores know its journal."""

    def __init__(self, broker: str, make: Callable[[], Store]) -> None:
        self._broker = broker
        self._make = make
        self._opened: Store | None = None

    def span(self) -> Span:
        """See `transport.Journal.span`."""
        with self._answering() as store:
            found = store.extent()
            if found is None:
                raise BrokerUnreachable(
                    f"{self._broker}: {store.description} holds no journal; name with the option broker, or "
                    "in brokers, the broker by its own name (MOM_NAME), which must have been started once"
                )
        return Span(found.low, found.end, found.epoch, found.tag)

    def frames(self, start: int, end: int) -> Iterator[StoredFrame]:
        """See `transport.Journal.frames`."""
        with self._answering() as store:
            first = store.batch_start(start)
        frames = self._from(start if first is None else first)
        for found in frames:
            if found.frame.first_position >= end:
                return
            yield found

    def position_at(self, time_us: int) -> int:
        """See `transport.Journal.position_at`; assumes that the clock was not set back."""
        low, high, _, _ = self.span()
        while low < high:
            with self._answering() as store:
                middle = store.batch_start((low + high) // 2)
            found = None if middle is None else next(self._from(middle), None)
            if found is None:  # it was let go meanwhile
                low, high, _, _ = self.span()
            elif found.frame.time_us < time_us:
                low = found.frame.next_position
            else:
                high = found.frame.first_position
        return low

    def close(self) -> None:
        """See `transport.Journal.close`."""
        store, self._opened = self._opened, None
        if store is not None:
            store.release()

    def _from(self, position: int) -> Iterator[StoredFrame]:
        """The frames of the batches from one on."""
        with self._answering() as store:
            frames = store.frames(position)
        while True:
            with self._answering():
                content = next(frames, None)
            if content is None:
                return
            frame = codec.decode_frame(content, 0)
            if frame is None:
                raise JournalUnreadable(f"{self._broker}: a batch behind position {position} is damaged")
            yield StoredFrame(frame, content)

    @contextmanager
    def _answering(self) -> Iterator[Store]:
        try:
            if self._opened is None:
                self._opened = self._make()
            yield self._opened
        except JournalError as error:
            if isinstance(self._opened, FileStore):
                raise failures.of_files(self._broker, self._opened.directory, error) from error
            raise BrokerUnreachable(f"{self._broker}: {error}") from error


def store_at(broker: str, url: str, credential: Credential) -> Store:
    """The store of a broker at an address of PostgreSQL or Redis. Raises InvalidOption and AccessDenied."""
    if urlsplit(url).scheme in _REDIS:
        from broker_app.journal.stores.redis import RedisStore

        try:
            return RedisStore(_with_login(url, credential), broker)
        except ValueError as error:
            raise InvalidOption(f"url: not the address of a Redis server: {error}") from None
    try:
        from psycopg.conninfo import make_conninfo
    except ImportError as error:
        raise InvalidOption(
            "url: PostgreSQL needs one more package: pip install 'psycopg[binary]'"
        ) from error
    from broker_app.journal.stores.postgres import PostgresStore

    login = credential.user_and_password()
    names = {} if login is None else dict(zip(("user", "password"), login, strict=True))
    return PostgresStore(make_conninfo(url, **names), broker)


def _with_login(url: str, credential: Credential) -> str:
    """The address with user and password, which never leave this process."""
    login = credential.user_and_password()
    if login is None:
        return url
    parts = urlsplit(url)
    user, password = (quote(half, safe="") for half in login)
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc.rpartition('@')[2]}"))
