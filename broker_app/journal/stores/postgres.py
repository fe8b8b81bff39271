"""A journal's store in PostgreSQL 14 or newer: one row a batch, in a schema of its own."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any, LiteralString

from broker_app.journal.errors import JournalFailed
from broker_app.journal.log.meta import TAG_BITS
from broker_app.journal.store import (
    PROBE_AFTER_S,
    PROBE_EVERY_S,
    PROBES,
    SILENT_S,
    Carried,
    Fenced,
    Grant,
    Holder,
    LeaseHeld,
    LeaseState,
    LogBatch,
    LogExtent,
    Lost,
    Note,
    StoredRow,
    StoreFull,
    Unreachable,
)

if TYPE_CHECKING:
    import psycopg

#: of the tables; a journal of another one is refused
FORMAT = 1
#: settings of the server that must not be off; `synchronous_commit` may be local, remote_write or more
_DURABILITY = ("fsync", "full_page_writes", "synchronous_commit")
#: seconds to connect and for a statement; shorter for the lease and notes, for which others wait
CONNECT_S, STATEMENT_S = 5, 30
SHORT_CONNECT_S, SHORT_STATEMENT_S = 2, 5
_SHORT = ("lease", "notes")
#: work in transactions that hold up a takeover, and the seconds after which the server ends one whose broker
#: sends nothing more: that may be paused, or be lost with its machine
_HOLDING, _IDLE_S = ("upkeep", "notes"), 3
#: seconds to wait for readers of a journal that is deleted
_LOCK_S = 1
#: rows that a scan fetches at a time, and bytes of one part of a snapshot
_FETCH, _PART_BYTES = 256, 8 * 1024 * 1024
#: frames that replay fetches at a time
_RUN_BYTES = 8 * 1024 * 1024
#: how the name of a schema begins, and its most bytes: PostgreSQL cuts a longer one off, and two brokers
#: could have the same one then
_PREFIX, _MAX_BYTES = "mom_journal_", 63


@cache
def _sql(name: str) -> LiteralString:
    """The statement in `postgres_sql/NAME.sql`."""
    folder = resources.files("broker_app.journal.stores").joinpath("postgres_sql")
    return folder.joinpath(f"{name}.sql").read_text("utf-8")


class PostgresStore:
    """See `store.Store` for the promises.

    `url` is a connection string of libpq; with several hosts, the one that takes writes is used. Each kind of
    work has a connection of its own, made when needed and made again after an error. Raises ValueError for a
    name that is too long.
    """

    def __init__(self, url: str, journal: str) -> None:
        self._url = url
        self._schema = _PREFIX + journal
        if len(self._schema.encode()) > _MAX_BYTES:
            raise ValueError(
                f"the name of the broker has {len(journal.encode())} bytes; with a journal in PostgreSQL it "
                f"has at most {_MAX_BYTES - len(_PREFIX)}: choose a shorter one (MOM_NAME)"
            )
        self.description = f"PostgreSQL, schema {self._schema!r}"
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        self._epoch = 0
        self._holder = ""
        #: the end of what was confirmed, and the connection of which it is known that its server has that
        self._end = 0
        self._checked: psycopg.Connection[Any] | None = None
        self._is_created = self._is_interrupted = False
        self._counters = {"store_reconnects": 0}

    # ------------------------------------------------------------------------------ lease

    def acquire(self, holder: Holder, lease_s: float, *, force: bool = False) -> Grant:
        """See `store.Store.acquire`. Raises JournalFailed for a server that would lose what it confirms."""
        with self._connected("lease") as connection:
            self._check_durability(connection)
            self._create(connection)
            query = {"holder": holder.name, "address": holder.address, "lease_s": lease_s, "force": force}
            found = connection.execute(_sql("acquire"), query).fetchone()
        if found is None:
            state = self.lease()
            assert state is not None
            raise LeaseHeld(state)
        self._epoch, self._holder, self._end = found[0], holder.name, 0
        return Grant(*found)

    def _check_durability(self, connection: psycopg.Connection[Any]) -> None:
        wrong = connection.execute(
            "SELECT name FROM pg_settings WHERE name = ANY(%s) AND setting = 'off' ORDER BY name",
            (list(_DURABILITY),),
        ).fetchall()
        if wrong:
            raise JournalFailed(
                f"{self.description}: with {', '.join(f'{name} off' for (name,) in wrong)} the server would "
                "lose confirmed messages when its machine fails; switch it on in postgresql.conf, or, for "
                "this user alone, ALTER ROLE … SET synchronous_commit = on"
            )

    def _create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the tables if they are missing. Raises JournalFailed for those of another format.

        Tables that exist are left alone: a lock on them would wait for a dump, and commits for that lock.
        """
        found = self._format(connection)
        if found is None:
            self._create_tables(connection)
            found = self._format(connection)
        if found != FORMAT:
            raise JournalFailed(
                f"{self.description} has format {found}; this version of MOM needs {FORMAT}: use the version "
                "that wrote it, or an empty schema"
            )
        self._is_created = True

    def _format(self, connection: psycopg.Connection[Any]) -> int | None:
        """The format of the tables; None if there are none."""
        from psycopg.errors import InvalidSchemaName, UndefinedTable

        try:
            found = connection.execute("SELECT format FROM lease").fetchone()
        except (InvalidSchemaName, UndefinedTable):
            return None
        return None if found is None else found[0]

    def _create_tables(self, connection: psycopg.Connection[Any]) -> None:
        """Create what is missing; one broker at a time, since two that try at once would both fail."""
        from psycopg import sql

        tag = random.SystemRandom().getrandbits(TAG_BITS)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._schema,))
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._schema)))
            connection.execute(_sql("schema"))
            connection.execute(
                "INSERT INTO lease (format, tag, created_us) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (FORMAT, tag, time.time_ns() // 1000),
            )

    def adopt(self, origin: Grant) -> Grant:
        """See `store.Store.adopt`."""
        with self._connected("lease") as connection:
            query = {
                **self._grant,
                "tag": origin.tag,
                "created_us": origin.created_us,
                "least": origin.epoch,
            }
            found = connection.execute(_sql("adopt"), query).fetchone()
        if found is None:
            raise self._fenced()
        self._epoch = found[0]
        return Grant(*found)

    def renew(self, lease_s: float) -> None:
        """See `store.Store.renew`."""
        with self._connected("lease") as connection:
            found = connection.execute(_sql("renew"), {**self._grant, "lease_s": lease_s}).fetchone()
        if found is None:
            raise self._fenced()

    def release(self) -> None:
        """See `store.Store.release`."""
        if self._epoch:
            with contextlib.suppress(Unreachable), self._connected("lease") as connection:
                connection.execute(_sql("release"), self._grant)
        self._epoch = 0
        for work in list(self._connections):
            self._drop(work)

    def erase(self) -> None:
        """See `store.ErasableStore.erase`."""
        from psycopg import sql

        with self._connected("notes") as connection, connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_LOCK_S}s",))
            # First: with the lock of its row alone, and a taker that waits for that, neither would go on.
            connection.execute("LOCK TABLE lease IN ACCESS EXCLUSIVE MODE")
            held = connection.execute(_sql("hold"), self._grant).fetchone()
            if held is not None:
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(self._schema)))
        if held is None:
            raise self._fenced()
        self._epoch = 0
        self.release()

    def interrupt(self) -> None:
        """See `store.Store.interrupt`."""
        self._is_interrupted = True
        for connection in list(self._connections.values()):
            with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as used:
                used.shutdown(socket.SHUT_RDWR)

    def lease(self) -> LeaseState | None:
        """See `store.Store.lease`."""
        from psycopg.errors import InvalidSchemaName, UndefinedTable

        with self._connected("lease") as connection:
            try:
                found = connection.execute(_sql("lease")).fetchone()
            except (InvalidSchemaName, UndefinedTable):  # this journal has never been used
                return None
        if found is None:
            return None
        holder, address, epoch, left_s, is_released = found
        return LeaseState(Holder(holder, address), epoch, float(left_s), is_released)

    def tag(self) -> int | None:
        """See `store.Store.tag`."""
        from psycopg.errors import InvalidSchemaName, UndefinedTable

        with self._connected("lease") as connection:
            try:
                found = connection.execute("SELECT tag FROM lease WHERE epoch > 0").fetchone()
            except (InvalidSchemaName, UndefinedTable):  # this journal has never been used
                return None
        return None if found is None else int(found[0])

    @property
    def _grant(self) -> dict[str, object]:
        return {"epoch": self._epoch, "holder": self._holder}

    def _fenced(self) -> Fenced:
        """The error of a holder whose epoch has ended."""
        state = None
        with contextlib.suppress(Unreachable):
            state = self.lease()
        taker = "another broker" if state is None else f"{state.holder.name} at {state.holder.address}"
        return Fenced(
            f"{taker} has taken over the journal in {self.description}: epoch {self._epoch} has ended"
        )

    # ------------------------------------------------------------------------------- log

    def rows(self) -> Iterator[StoredRow]:
        """See `store.Store.rows`."""
        query: LiteralString = (
            "SELECT segment, first_position, count, octet_length(frame), positions FROM batch "
            "ORDER BY segment, first_position"
        )
        for row in self._scan(query, ()):
            yield StoredRow(*row)

    def frames(self, position: int) -> Iterator[bytes]:
        """See `store.Store.frames`."""
        while True:
            with self._connected("scan") as connection:
                query = {"position": position, "bytes": _RUN_BYTES}
                run = connection.execute(_sql("frames"), query, binary=True).fetchall()
            if not run:
                return
            for _, _, frame in run:
                yield frame
            position = run[-1][0] + run[-1][1]

    def extent(self) -> LogExtent | None:
        """See `store.Store.extent`."""
        from psycopg.errors import InvalidSchemaName, UndefinedTable

        with self._connected("scan") as connection:
            try:
                found = connection.execute(_sql("extent")).fetchone()
            except (InvalidSchemaName, UndefinedTable):  # this journal has never been used
                return None
        return None if found is None else LogExtent(*found)

    def batch_start(self, position: int) -> int | None:
        """See `store.Store.batch_start`."""
        with self._connected("scan") as connection:
            found = connection.execute(_sql("batch_start"), {"position": position}).fetchone()
        return None if found is None else int(found[0])

    def append(self, segment: int, first_position: int, count: int, frame: bytes) -> None:
        """See `store.Store.append`."""
        batch = {
            **self._grant,
            "segment": segment,
            "first_position": first_position,
            "count": count,
            "frame": frame,
        }
        with self._connected("commit") as connection:
            if connection is not self._checked:
                self._check_end(connection)
            ((held,),) = connection.execute(_sql("append"), batch, binary=True).fetchall()
        if not held:
            raise self._fenced()
        self._end = first_position + count

    def _check_end(self, connection: psycopg.Connection[Any]) -> None:
        """Check that the server of a new connection has all that was confirmed. Raises Lost."""
        ((end,),) = connection.execute(_sql("log_end")).fetchall()
        if end < self._end:
            raise Lost(self.description, self._end)
        self._checked = connection

    def append_all(self, segment: int, batches: Sequence[LogBatch]) -> None:
        """See `store.Store.append_all`."""
        with self._holding("upkeep") as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO batch (segment, first_position, count, frame) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT DO NOTHING",
                [(segment, *batch) for batch in batches],
            )

    def load(self, keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """See `store.Store.load`."""
        wanted = list(keys)
        segments, positions = [segment for segment, _ in wanted], [position for _, position in wanted]
        with self._connected("read") as connection:
            rows = connection.execute(
                "SELECT segment, first_position, frame FROM batch "
                "JOIN unnest(%s::bigint[], %s::bigint[]) AS key (segment, first_position) "
                "USING (segment, first_position)",
                (segments, positions),
                binary=True,
            ).fetchall()
        return {(segment, first_position): frame for segment, first_position, frame in rows}

    def carry(self, segment: int, carried: Sequence[Carried], sources: Sequence[int]) -> None:
        """See `store.Store.carry`."""
        with self._holding("upkeep") as connection:
            for one in carried:
                connection.execute(
                    "INSERT INTO batch (segment, first_position, count, positions, frame) "
                    "VALUES (%s, %s, %s, %s, %s)",
                    (segment, one.first_position, len(one.positions), list(one.positions), one.frame),
                )
            connection.execute("DELETE FROM batch WHERE segment = ANY(%s)", (list(sources),))

    def delete(self, segments: Sequence[int]) -> None:
        """See `store.Store.delete`."""
        with self._holding("upkeep") as connection:
            connection.execute("DELETE FROM batch WHERE segment = ANY(%s)", (list(segments),))

    # -------------------------------------------------------------------------- snapshots

    def snapshot(self) -> tuple[int, bytes] | None:
        """See `store.Store.snapshot`."""
        with self._connected("read") as connection:
            rows = connection.execute(
                "SELECT position, content FROM snapshot ORDER BY part", binary=True
            ).fetchall()
        return (rows[0][0], b"".join(content for _, content in rows)) if rows else None

    def snapshot_position(self) -> int | None:
        """See `store.Store.snapshot_position`."""
        with self._connected("read") as connection:
            found = connection.execute("SELECT position FROM snapshot WHERE part = 0").fetchone()
        return None if found is None else found[0]

    def put_snapshot(self, position: int, parts: Sequence[bytes]) -> None:
        """See `store.Store.put_snapshot`."""
        with self._holding("upkeep") as connection:
            connection.execute("DELETE FROM snapshot")
            for number, content in enumerate(_pieces(parts)):
                connection.execute("INSERT INTO snapshot VALUES (%s, %s, %s)", (position, number, content))

    # ------------------------------------------------------------------------------ notes

    def put_note(self, key: str, content: bytes) -> None:
        """See `store.Store.put_note`."""
        with self._created() as connection:
            connection.execute(_sql("put_note"), {"key": key, "content": content})

    def put_holder_note(self, key: str, content: bytes) -> None:
        """See `store.Store.put_holder_note`."""
        with self._holding("notes") as connection:
            connection.execute(_sql("put_note"), {"key": key, "content": content})

    def drop_note(self, key: str) -> None:
        """See `store.Store.drop_note`."""
        with self._created() as connection:
            connection.execute("DELETE FROM note WHERE key = %s", (key,))

    def notes(self, prefix: str) -> dict[str, Note]:
        """See `store.Store.notes`."""
        with self._created() as connection:
            rows = connection.execute(_sql("notes"), {"prefix": prefix}, binary=True).fetchall()
        return {key: Note(content, age_s) for key, content, age_s in rows}

    @contextlib.contextmanager
    def _created(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection, whose tables exist, made if they were missing."""
        with self._connected("notes") as connection:
            if not self._is_created:
                self._create(connection)
            yield connection

    def free_bytes(self) -> int | None:
        """See `store.Store.free_bytes`: a server does not report the space of its disk."""
        return None

    def statistics(self) -> dict[str, int]:
        """See `store.Store.statistics`."""
        return dict(self._counters)

    # ------------------------------------------------------------------------ connections

    @contextlib.contextmanager
    def _connected(self, work: str) -> Iterator[psycopg.Connection[Any]]:
        """The connection for this kind of work. Raises Unreachable, StoreFull and JournalFailed."""
        import psycopg
        from psycopg import errors

        try:
            connection = self._connections.get(work)
            if connection is None:
                made = self._connect(work)
                connection = self._connections.setdefault(work, made)
                if connection is not made:  # another thread was faster
                    made.close()
            yield connection
        except errors.DiskFull as error:
            raise StoreFull(f"{self.description}: {_first_line(error)}") from error
        except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction) as error:
            self._drop(work)
            raise Unreachable(f"{self.description}: {_first_line(error)}") from error
        except psycopg.Error as error:
            self._drop(work)
            if self._epoch and isinstance(error, (errors.InvalidSchemaName, errors.UndefinedTable)):
                raise Fenced(f"{self.description} is gone: epoch {self._epoch} has ended") from error
            raise JournalFailed(f"{self.description}: {_first_line(error)}") from error

    @contextlib.contextmanager
    def _holding(self, work: str) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that only the holder of the lease may carry out. Raises Fenced."""
        with self._connected(work) as connection, connection.transaction():
            held = connection.execute(_sql("hold"), self._grant).fetchone()
            if held is not None:
                yield connection
                return
        raise self._fenced()

    def _scan(self, query: LiteralString, parameters: tuple[int, ...]) -> Iterator[Any]:
        """Rows in runs, from a cursor of the server: a backlog must not be in memory at once."""
        with (
            self._connected("scan") as connection,
            connection.transaction(),
            connection.cursor("scan", binary=True) as cursor,
        ):
            cursor.itersize = _FETCH
            yield from cursor.execute(query, parameters)

    def _connect(self, work: str) -> psycopg.Connection[Any]:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        if self._is_interrupted:
            raise Unreachable(f"{self.description}: the connections were closed")
        short = work in _SHORT
        statement_s = SHORT_STATEMENT_S if short else STATEMENT_S
        given = conninfo_to_dict(self._url)
        defaults: dict[str, Any] = {
            "connect_timeout": SHORT_CONNECT_S if short else CONNECT_S,
            "application_name": "mom",
            "target_session_attrs": "read-write",
            "keepalives_idle": PROBE_AFTER_S,
            "keepalives_interval": PROBE_EVERY_S,
            "keepalives_count": PROBES,
            "tcp_user_timeout": 1000 * min(SILENT_S, statement_s),
        }
        self._counters["store_reconnects"] += 1
        connection = psycopg.connect(make_conninfo("", **{**defaults, **given}), autocommit=True)
        # The server ends its statements, unless the network is silent.
        connection.wait = partial(connection.wait, timeout=statement_s + 1.0)  # type: ignore[method-assign]
        connection.execute("SELECT set_config('search_path', %s, false)", (f'"{self._schema}"',))
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (f"{statement_s}s",))
        if work in _HOLDING:
            idle = "SELECT set_config('idle_in_transaction_session_timeout', %s, false)"
            connection.execute(idle, (f"{_IDLE_S}s",))
        return connection

    def _drop(self, work: str) -> None:
        """Close a connection: the next use makes another."""
        connection = self._connections.pop(work, None)
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()


def _pieces(parts: Sequence[bytes]) -> Iterator[bytes]:
    """The joined parts, in pieces that are small enough for a statement."""
    joined = b"".join(parts)
    for at in range(0, len(joined) or 1, _PART_BYTES):
        yield joined[at : at + _PART_BYTES]


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
