"""A journal's store in Redis 6.2 or newer, or Valkey: one stream a segment, one entry a batch.

All keys of a journal share a hash tag, so they are in one slot of a Redis Cluster. What changes the log is a
script that first checks the epoch: it is carried out for the holder of the lease, or not at all.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from broker_app.journal.errors import JournalFailed
from broker_app.journal.log.meta import TAG_BITS
from broker_app.journal.port import FIRST_POSITION
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
    from redis.commands.core import Script

#: of the keys; a journal of another one is refused
FORMAT = 1
#: seconds to connect and for a command; shorter for the lease and notes, for which others wait
CONNECT_S, COMMAND_S = 5, 30
SHORT_CONNECT_S, SHORT_COMMAND_S = 2, 5
#: scripts that are short commands
_SHORT = ("lease", "renew", "notes", "put_note", "put_holder_note")
#: bytes that replay fetches at a time, of one part of a snapshot, and of survivors that are sent at a time
_RUN_BYTES, _PART_BYTES, _CARRY_BYTES = 8 * 1024 * 1024, 8 * 1024 * 1024, 1024 * 1024
#: the settings of a server that keeps what it has confirmed
_NEEDED = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
#: values of the query parameter `durability`: what may be lost, or that it was not checked
_EVERYSEC, _UNCHECKED = DURABILITIES = ("everysec", "unchecked")
#: the keys that a journal has once, next to its lease
_KEYS = ("segments", "carries", "snapshot", "snapshot:a", "snapshot:b", "notes", "notes:at")
#: of a batch before which others may be missing
_AFTER_GAP = 1
_MICRO = 1_000_000


@cache
def _lua(name: str) -> str:
    """The script in `redis_lua/NAME.lua`."""
    folder = resources.files("broker_app.journal.stores").joinpath("redis_lua")
    return folder.joinpath(f"{name}.lua").read_text("utf-8")


class RedisStore:
    """See `store.Store` for the promises.

    `url` is redis://, rediss://, valkey:// or valkeys://. Its parameter `durability` accepts a server that
    loses a second of confirmed messages when its machine fails (everysec), or one that does not permit to
    check its settings (unchecked). Raises ValueError for another value.
    """

    def __init__(self, url: str, journal: str) -> None:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        address, self._durability = _split(url)
        # Any: its answers are bytes here, and str or bytes to the type checker.
        self._client: Any
        self._short: Any
        self._client, self._short = (
            redis.Redis.from_url(
                address,
                socket_connect_timeout=connect_s,
                socket_timeout=command_s,
                socket_keepalive=True,
                socket_keepalive_options=_keepalive(min(SILENT_S, command_s)),
                retry=Retry(NoBackoff(), 0),
            )
            for connect_s, command_s in ((CONNECT_S, COMMAND_S), (SHORT_CONNECT_S, SHORT_COMMAND_S))
        )
        self._is_interrupted = False
        self._prefix = f"{{mom:journal:{journal}}}:"
        weaker = f", durability {self._durability}" if self._durability else ""
        self.description = f"Redis, keys {self._prefix}*{weaker}"
        self._scripts: dict[str, Script] = {}
        self._epoch = 0
        #: epoch and holder, as scripts compare them
        self._grant = ""
        self._counters = {"store_errors": 0}

    # ------------------------------------------------------------------------------ lease

    def acquire(self, holder: Holder, lease_s: float, *, force: bool = False) -> Grant:
        """See `store.Store.acquire`. Raises JournalFailed for a server that would lose what it confirms."""
        self._check_durability()
        tag = random.SystemRandom().getrandbits(TAG_BITS)
        arguments = [tag, time.time_ns() // 1000, FORMAT, holder.name, holder.address]
        found = self._run("acquire", ["lease"], [*arguments, round(lease_s * _MICRO), int(force)])
        if not found:
            state = self.lease()
            assert state is not None
            raise LeaseHeld(state)
        if len(found) == 1:
            raise JournalFailed(
                f"{self.description}: the journal has format {found[0].decode()}; this version of MOM needs "
                f"{FORMAT}: use the version that wrote it, or another name of the broker"
            )
        self._epoch = int(found[0])
        self._grant = f"{self._epoch} {holder.name}"
        return Grant(*map(int, found))

    def _check_durability(self) -> None:
        if self._durability == _UNCHECKED:
            return
        from redis.exceptions import NoPermissionError, ResponseError

        with self._answering():
            try:
                found = {name: self._client.config_get(name).get(name, "") for name in _NEEDED}
            except (NoPermissionError, ResponseError) as error:
                raise JournalFailed(
                    f"{self.description}: the settings cannot be checked ({error}); permit CONFIG GET, or "
                    "add ?durability=unchecked to the address if appendfsync is always there"
                ) from error
        accepted = {"always", "everysec"} if self._durability == _EVERYSEC else {"always"}
        wrong = [
            f"{name} {value}"
            for name, value in found.items()
            if (value not in accepted if name == "appendfsync" else value != _NEEDED[name])
        ]
        if wrong:
            raise JournalFailed(
                f"{self.description}: with {', '.join(wrong)} the server would lose confirmed messages; "
                "start it with --appendonly yes --appendfsync always --maxmemory-policy noeviction (or add "
                "?durability=everysec to the address, and lose up to a second when its machine fails)"
            )

    def adopt(self, origin: Grant) -> Grant:
        """See `store.Store.adopt`."""
        epoch = max(self._epoch, origin.epoch)
        grant = f"{epoch} {self._grant.partition(' ')[2]}"
        self._fenced_run("adopt", [], [grant, epoch, origin.tag, origin.created_us])
        self._epoch, self._grant = epoch, grant
        return origin._replace(epoch=epoch)

    def renew(self, lease_s: float) -> None:
        """See `store.Store.renew`."""
        self._fenced_run("renew", [], [round(lease_s * _MICRO)])

    def release(self) -> None:
        """See `store.Store.release`."""
        if self._epoch:
            with contextlib.suppress(Unreachable, JournalFailed):
                self._fenced_run("renew", [], [0])
        self._epoch = 0
        self._client.close()
        self._short.close()

    def erase(self) -> None:
        """See `store.ErasableStore.erase`."""
        self._fenced_run("erase", _KEYS, [self._key("segment:"), self._key("rows:")])
        self._epoch = 0
        self.release()

    def interrupt(self) -> None:
        """See `store.Store.interrupt`."""
        self._is_interrupted = True
        for client in (self._client, self._short):
            client.connection_pool.disconnect()

    def lease(self) -> LeaseState | None:
        """See `store.Store.lease`."""
        found = self._run("lease", ["lease"], [])
        if not found:
            return None
        holder, address, epoch, left_us = found
        state = LeaseState(Holder(holder.decode(), address.decode()), int(epoch), 0.0, is_released=True)
        return state if not left_us else state._replace(left_s=int(left_us) / _MICRO, is_released=False)

    def tag(self) -> int | None:
        """See `store.Store.tag`."""
        with self._answering():
            tag, epoch = self._short.hmget(self._key("lease"), "tag", "epoch")
        return int(tag) if epoch is not None and int(epoch) else None

    # ------------------------------------------------------------------------------- log

    def rows(self) -> Iterator[StoredRow]:
        """See `store.Store.rows`."""
        with self._answering():
            logs = {int(member) for member in self._client.zrange(self._key("segments"), 0, -1)}
            carries = {int(member) for member in self._client.smembers(self._key("carries"))}
        for segment in sorted(logs | carries):
            with self._answering():
                rows = self._client.lrange(self._key(f"rows:{segment}"), 0, -1)
            for row in rows:
                yield _carried_row(segment, row) if segment in carries else _row(segment, row)

    def frames(self, position: int) -> Iterator[bytes]:
        """See `store.Store.frames`."""
        while True:
            found = self._run("frames", ["segments"], [position, _RUN_BYTES, self._key("segment:")])
            if not found:
                return
            yield from found[2::3]
            position = int(found[-3]) + int(found[-2])

    def extent(self) -> LogExtent | None:
        """See `store.Store.extent`."""
        found = self._run("extent", ["lease", "segments", "snapshot"], [self._key("rows:"), FIRST_POSITION])
        return LogExtent(*map(int, found)) if found else None

    def batch_start(self, position: int) -> int | None:
        """See `store.Store.batch_start`."""
        found = self._run("batch_start", ["segments"], [position, self._key("segment:")])
        return int(found[0]) if found else None

    def append(self, segment: int, first_position: int, count: int, frame: bytes) -> None:
        """See `store.Store.append`."""
        arguments = [segment, first_position, count, frame]
        if self._fenced_run("append", _log_keys(segment), arguments) < 0:
            raise Lost(self.description, first_position)

    def append_all(self, segment: int, batches: Sequence[LogBatch]) -> None:
        """See `store.Store.append_all`."""
        keys = [self._key(key) for key in ("lease", *_log_keys(segment))]
        with self._answering():
            pipeline = self._client.pipeline(transaction=False)
            for batch in batches:
                self._script("append")(keys, [self._grant, segment, *batch, _AFTER_GAP], client=pipeline)
            answers = pipeline.execute()
        if not all(answers):
            raise self._fenced()

    def load(self, keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """See `store.Store.load`."""
        wanted = list(keys)
        with self._answering():
            pipeline = self._client.pipeline(transaction=False)
            for segment, position in wanted:
                pipeline.xrange(self._key(f"segment:{segment}"), f"{position}-0", f"{position}-0")
            found = pipeline.execute()
        return {key: entries[0][1][b"frame"] for key, entries in zip(wanted, found, strict=True) if entries}

    def carry(self, segment: int, carried: Sequence[Carried], sources: Sequence[int]) -> None:
        """See `store.Store.carry`."""
        begins = 1
        for run in _runs(carried):
            arguments = [part for one in run for part in (one.first_position, _packed(one), one.frame)]
            self._fenced_run("carry", [f"segment:{segment}", f"rows:{segment}"], [begins, *arguments])
            begins = 0
        self._replace(str(segment) if carried else "", sources)

    def delete(self, segments: Sequence[int]) -> None:
        """See `store.Store.delete`."""
        self._replace("", segments)

    def _replace(self, carry: str, segments: Sequence[int]) -> None:
        keys = [f"{kind}:{segment}" for segment in segments for kind in ("segment", "rows")]
        self._fenced_run("replace", ["segments", "carries", *keys], [carry, *segments])

    # -------------------------------------------------------------------------- snapshots

    def snapshot(self) -> tuple[int, bytes] | None:
        """See `store.Store.snapshot`."""
        while True:
            found = self._pointer()
            if found is None:
                return None
            position, parts = found
            with self._answering():
                content = self._client.lrange(self._key(f"snapshot:{parts}"), 0, -1)
            if content and self._pointer() == found:  # else it was replaced meanwhile
                return position, b"".join(content)

    def snapshot_position(self) -> int | None:
        """See `store.Store.snapshot_position`."""
        found = self._pointer()
        return None if found is None else found[0]

    def put_snapshot(self, position: int, parts: Sequence[bytes]) -> None:
        """See `store.Store.put_snapshot`."""
        found = self._pointer()
        new, old = ("b", "a") if found is not None and found[1] == "a" else ("a", "b")
        joined = b"".join(parts)
        for at in range(0, len(joined) or 1, _PART_BYTES):
            arguments = [int(at == 0), joined[at : at + _PART_BYTES]]
            self._fenced_run("snapshot_part", [f"snapshot:{new}"], arguments)
        keys = ["snapshot", f"snapshot:{new}", f"snapshot:{old}"]
        self._fenced_run("snapshot", keys, [position, new])

    def _pointer(self) -> tuple[int, str] | None:
        with self._answering():
            position, parts = self._client.hmget(self._key("snapshot"), "position", "parts")
        return None if position is None else (int(position), parts.decode())

    # ------------------------------------------------------------------------------ notes

    def put_note(self, key: str, content: bytes) -> None:
        """See `store.Store.put_note`."""
        self._run("put_note", ["notes", "notes:at"], [key, content])

    def put_holder_note(self, key: str, content: bytes) -> None:
        """See `store.Store.put_holder_note`."""
        self._fenced_run("put_holder_note", ["notes", "notes:at"], [key, content])

    def drop_note(self, key: str) -> None:
        """See `store.Store.drop_note`."""
        with self._answering():
            self._short.hdel(self._key("notes"), key)

    def notes(self, prefix: str) -> dict[str, Note]:
        """See `store.Store.notes`."""
        found = self._run("notes", ["notes", "notes:at"], [prefix])
        return {
            key.decode(): Note(content, int(age_us) / _MICRO)
            for key, content, age_us in zip(found[::3], found[1::3], found[2::3], strict=True)
        }

    def free_bytes(self) -> int | None:
        """See `store.Store.free_bytes`: without `maxmemory`, or the permission for INFO, nothing is known."""
        from redis.exceptions import NoPermissionError

        with self._answering():
            try:
                found = self._short.info("memory")
            except NoPermissionError:
                return None
        if not found.get("maxmemory"):
            return None
        used = found["used_memory"] - found.get("mem_not_counted_for_evict", 0)
        return max(0, int(found["maxmemory"]) - int(used))

    def statistics(self) -> dict[str, int]:
        """See `store.Store.statistics`."""
        return dict(self._counters)

    # ---------------------------------------------------------------------------- scripts

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _run(self, name: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """The answer of a script."""
        with self._answering():
            client = self._short if name in _SHORT else self._client
            return self._script(name)([self._key(key) for key in keys], arguments, client=client)

    def _script(self, name: str) -> Script:
        script = self._scripts.get(name)
        if script is None:
            script = self._scripts[name] = self._client.register_script(_lua(name))
        return script

    def _fenced_run(self, name: str, keys: Sequence[str], arguments: Sequence[Any]) -> int:
        """Run a script that checks the grant; returns its answer. Raises Fenced."""
        answer = self._run(name, ["lease", *keys], [self._grant, *arguments])
        if not answer:
            raise self._fenced()
        return int(answer)

    def _fenced(self) -> Fenced:
        """The error of a holder whose epoch has ended."""
        state = None
        with contextlib.suppress(Unreachable):
            state = self.lease()
        taker = "another broker" if state is None else f"{state.holder.name} at {state.holder.address}"
        return Fenced(
            f"{taker} has taken over the journal in {self.description}: epoch {self._epoch} has ended"
        )

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        """Raises Unreachable, StoreFull and JournalFailed for errors of the client."""
        if self._is_interrupted:
            raise Unreachable(f"{self.description}: the connections were closed")
        from redis import exceptions

        passing = (
            exceptions.ConnectionError,
            exceptions.TimeoutError,
            exceptions.BusyLoadingError,
            exceptions.ReadOnlyError,
            exceptions.ClusterError,
            OSError,
        )
        try:
            yield
        except exceptions.AuthenticationError as error:
            raise JournalFailed(f"{self.description}: {error}") from error
        except passing as error:
            self._counters["store_errors"] += 1
            raise Unreachable(f"{self.description}: {error}") from error
        except exceptions.RedisError as error:
            self._counters["store_errors"] += 1
            text = str(error)
            if "maxmemory" in text or ("MISCONF" in text and "space" in text.lower()):
                raise StoreFull(f"{self.description}: {text}") from error
            if any(code in text for code in ("READONLY", "MISCONF", "LOADING", "MASTERDOWN", "CLUSTERDOWN")):
                raise Unreachable(f"{self.description}: {text}") from error
            raise JournalFailed(f"{self.description}: {text}") from error
        except (ValueError, AttributeError) as error:
            if not self._is_interrupted:
                raise
            # The socket was closed while it was being used.
            raise Unreachable(f"{self.description}: the connections were closed") from error


def _keepalive(silent_s: int) -> dict[int, int]:
    """Options of TCP by which a server that acknowledges no packet is given up."""
    options = {
        "TCP_KEEPIDLE": PROBE_AFTER_S,
        "TCP_KEEPINTVL": PROBE_EVERY_S,
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": 1000 * silent_s,
    }
    return {getattr(socket, name): value for name, value in options.items()}


def _split(url: str) -> tuple[str, str]:
    """The address for the client, and the value of the parameter `durability`. Raises ValueError."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    durability = query.pop("durability", [""])[-1]
    if durability not in ("", *DURABILITIES):
        raise ValueError(f"durability={durability[:40]!r} must be one of {', '.join(DURABILITIES)}")
    scheme = parts.scheme.replace("valkey", "redis")
    return urlunsplit(parts._replace(scheme=scheme, query=urlencode(query, doseq=True))), durability


def _log_keys(segment: int) -> list[str]:
    return ["segments", f"segment:{segment}", f"rows:{segment}"]


def _row(segment: int, row: bytes) -> StoredRow:
    first_position, count, size = map(int, row.split())
    return StoredRow(segment, first_position, count, size, None)


def _carried_row(segment: int, row: bytes) -> StoredRow:
    first_position, size, positions = row.split()
    found = [int(position) for position in positions.split(b",")]
    return StoredRow(segment, int(first_position), len(found), int(size), found)


def _packed(carried: Carried) -> str:
    return ",".join(map(str, carried.positions))


def _runs(carried: Sequence[Carried]) -> Iterator[list[Carried]]:
    """Survivors in runs that are small enough for one script."""
    run: list[Carried] = []
    size = 0
    for one in carried:
        run.append(one)
        size += len(one.frame)
        if size >= _CARRY_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run
