"""The files of an archive, and the two ways in which they change: a batch is committed, an hour is exchanged.

    <root>/event/v=1/broker=A/date=2026-11-21/hour=03/part-A-<first position>-<last position>.parquet
    <root>/message/v=1/…                          the same folders: bodies and headers
    <root>/_staging/<query>/<batch>/              files of a batch that is not committed
    <root>/_staging/compact/                      hours that are being compacted, and replaced ones
    <root>/_manifest/<query>/<batch>.json         the parts of a committed batch
    <root>/_manifest/<query>/<batch>.pending      those of a batch that is being committed
    <root>/_manifest/lock                         held while a batch is committed or an hour exchanged

Readers need no manifest: every file under event/ and message/ holds rows that are in no other file there.

A commit moves the staged files of a batch to their places. The steps, and the state after a kill behind each:

1. The staged files are on the disk.    Nothing is visible; the batch is staged again, and these are deleted.
2. <batch>.pending lists them,          The batch is decided. The next holder of the lock first finishes it;
   durably.                             staging the batch again changes nothing.
3. Each file is renamed to its place.   Some rows are visible, and the next holder of the lock renames the
                                        others. None is twice, because a file has one name at a time.
4. The folders are on the disk, and     The batch is committed. Spark may not know it and replay it;
   .pending is renamed to .json.        then the manifest is there, and the files staged again are deleted.
5. The staging folder is deleted.       It is deleted with the replay, or by `sweep` after a day.

A batch is finished forwards and never taken back: rows that a reader saw stay. That it is finished from the
first attempt, however a second one split its rows into files (another `minPartitions`), keeps it exact.

A replayed batch has the rows of the first attempt, as its offsets were stored before. If it has others (the
checkpoint was restored from a copy, or deleted while its name was kept), skipping it would lose rows and
writing it would double some: it is refused. So is a file with positions that an older file of its hour has,
as an archive that starts again from the beginning writes them, however it cuts its batches.

An exchange replaces the folder of an hour in one step (renameat2 with RENAME_EXCHANGE), with the lock held,
so no commit comes between. Killed before it, the prepared folder is deleted; behind it, the replaced one. In
any case that one stays for a while: a reader may be listing it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq

STAGING, MANIFEST = "_staging", "_manifest"
#: newest manifests of a query that are kept
KEPT_MANIFESTS = 1000
#: seconds after which staged files belong to no query that runs
STAGED_S = 86_400.0
#: seconds to wait for the lock; commits and exchanges only rename files
LOCK_TIMEOUT_S = 60.0

_KEY = ("position", "message_position")
_NAME = re.compile(r"[\w.-]{1,200}")
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class ArchiveError(Exception):
    """The archive cannot be changed so; the text says how to go on."""


class LockTaken(ArchiveError):
    """Another process holds the lock in the file `path`."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"another process holds {path}; wait until it ends, or end it (`fuser {path}` shows it)"
        )
        self.path = path


@dataclass(frozen=True)
class ArchivePart:
    """A file of a batch: its staged path and its folder, relative to the root, and the rows in it."""

    staged: str
    table: str
    folder: str
    broker: str
    first: int
    last: int
    rows: int

    @property
    def final(self) -> str:
        """The place of the committed file, relative to the root."""
        return f"{self.folder}/part-{self.broker}-{self.first}-{self.last}.parquet"


def hour_folder(table: str, broker: str, date: str, hour: int) -> str:
    """The folder of an hour, relative to the root."""
    return f"{table}/v=1/broker={broker}/date={date}/hour={hour:02}"


def staging_folder(query: str, batch: int) -> str:
    """The folder for the files of all attempts to write a batch, relative to the root."""
    return f"{STAGING}/{checked_name('query', query)}/{batch}"


def checked_name(kind: str, name: str) -> str:
    """`name`, which is a part of a path; ArchiveError when it may not be."""
    if not _NAME.fullmatch(name) or name in (".", "..", "compact"):
        raise ArchiveError(
            f"the {kind} {name!r} cannot be a part of a path; it may have letters, digits, '_', '.' and '-'"
        )
    return name


def bounds(file: Path) -> tuple[int, int]:
    """The first and last position of a file, which its name has."""
    first, last = file.stem.rsplit("-", 2)[1:]
    return int(first), int(last)


def sweep(root: Path) -> None:
    """Delete staged files that are older than a day: those of queries that were killed and never
    continued."""
    with locked(root):
        for folder in (root / STAGING).glob("*/*"):
            if folder.stat().st_mtime < time.time() - STAGED_S:
                shutil.rmtree(folder, ignore_errors=True)


def commit(root: Path, query: str, batch: int, parts: Iterable[ArchivePart]) -> bool:
    """Make the staged parts of a batch visible; False when the batch was committed before."""
    parts = sorted(parts, key=lambda part: part.final)
    with locked(root):
        folder = root / MANIFEST / query
        folder.mkdir(parents=True, exist_ok=True)
        fresh = _check_fresh(folder, query, batch, parts)
        if fresh:
            _check_staged(root, query, parts)
            _check_free(root, parts)
            pending = folder / f"{batch}.pending"
            content = {
                "version": 1,
                "query": query,
                "batch": batch,
                "parts": [asdict(part) for part in parts],
            }
            write_durably(pending, json.dumps(content, indent=1))
            _finish(root, pending)
            (folder / f"{batch - KEPT_MANIFESTS}.json").unlink(missing_ok=True)
        shutil.rmtree(root / staging_folder(query, batch), ignore_errors=True)
    return fresh


def exchange(root: Path, folder: str, replacement: Path, merged: Iterable[str]) -> None:
    """Replace the folder of an hour by `replacement`, which has the rows of its files `merged`. Its other
    files, which may have come since, are linked into the replacement. Afterwards `replacement` is the old
    folder, to be deleted."""
    hour = root / folder
    with locked(root):
        for name in sorted(set(os.listdir(hour)) - set(merged)):
            os.link(hour / name, replacement / name)
        sync_folder(replacement)
        sync_folder(replacement.parent)
        _exchange(hour, replacement)
        sync_folder(hour.parent)
        sync_folder(replacement.parent)


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock of an archive, with all batches finished whose commit was decided."""
    with held(root / MANIFEST / "lock", LOCK_TIMEOUT_S):
        for pending in sorted((root / MANIFEST).glob("*/*.pending")):
            _finish(root, pending)
        yield


@contextmanager
def only_one(root: Path, activity: str) -> Iterator[None]:
    """Refuse an activity that another process carries out in this archive."""
    with held(root / MANIFEST / f"{activity}.lock", 0.0):
        yield


@contextmanager
def held(lock: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock in a file; the system releases it when its holder is killed. Raises LockTaken."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _wait_for(file, lock, timeout_s)
        yield
    finally:
        os.close(file)


def write_durably(path: Path, text: str) -> None:
    """Write a file that is there completely or not at all, whenever the machine stops."""
    draft = path.with_name(f"{path.name}.draft")
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, path)
    sync_folder(path.parent)


def _wait_for(file: int, path: Path, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise LockTaken(path) from None
            time.sleep(0.01)
        else:
            return


def _finish(root: Path, pending: Path) -> None:
    """Finish a commit from its pending manifest."""
    parts = [ArchivePart(**part) for part in json.loads(pending.read_text(encoding="utf-8"))["parts"]]
    for part in parts:
        staged, final = root / part.staged, root / part.final
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(staged, final)
        except FileNotFoundError:
            if not final.exists():
                raise ArchiveError(
                    f"{pending} names {staged}, which was deleted, and its rows are not in {final}; restore "
                    f"it, or delete the files that {pending.name} names, and it: the batch is written again"
                ) from None
    for folder in {path for part in parts for path in _between(root, root / part.folder)}:
        sync_folder(folder)
    os.rename(pending, pending.with_suffix(".json"))
    sync_folder(pending.parent)


def _check_fresh(folder: Path, query: str, batch: int, parts: list[ArchivePart]) -> bool:
    """Return whether a batch is still to be written; ArchiveError when it was, with other rows."""
    manifest = folder / f"{batch}.json"
    if not manifest.exists():
        newest = max((int(path.stem) for path in folder.glob("*.json")), default=-1)
        if batch > newest:
            return True
        raise _older(f"the archive has batch {newest} of the query {query}, and now comes {batch}")
    before = [ArchivePart(**part) for part in json.loads(manifest.read_text(encoding="utf-8"))["parts"]]
    if _totals(before) != _totals(parts):
        raise _older(
            f"the archive has batch {batch} of the query {query} with other rows: {_totals(before)}, and now "
            f"come {_totals(parts)}"
        )
    return False


def _older(difference: str) -> ArchiveError:
    return ArchiveError(
        f"{difference}: its checkpoint is older than the archive. Start a new one at the end of the archive"
    )


def _totals(parts: Iterable[ArchivePart]) -> dict[str, tuple[int, int, int]]:
    """(first position, last position, rows) by table and broker: the same however rows are split into
    files."""
    totals: dict[str, tuple[int, int, int]] = {}
    for part in parts:
        key = f"{part.table} of {part.broker}"
        first, last, rows = totals.get(key, (part.first, part.last, 0))
        totals[key] = min(first, part.first), max(last, part.last), rows + part.rows
    return totals


def _check_free(root: Path, parts: list[ArchivePart]) -> None:
    """Refuse parts with rows of positions that the archive has. Files of runs that archive other destinations
    may lie between each other."""
    names = [part.final for part in parts]
    if len(set(names)) < len(names):
        raise ArchiveError(f"two tasks of the batch have the same positions: {sorted(names)[:4]}")
    for folder in {part.folder for part in parts}:
        stored = [(path, *bounds(path)) for path in (root / folder).glob("part-*.parquet")]
        for part in (part for part in parts if part.folder == folder):
            for path, first, last in stored:
                if first <= part.last and part.first <= last and _share_rows(root / part.staged, path):
                    raise ArchiveError(
                        f"the archive has {folder}/{path.name} already, so these positions were archived "
                        "before: start at the position behind them, or use another directory"
                    )


def _share_rows(one: Path, other: Path) -> bool:
    """Return whether two files have the same row, which its record and its message identify."""
    first, second = (pq.read_table(path, columns=list(_KEY), partitioning=None) for path in (one, other))
    return bool(first.join(second, list(_KEY), join_type="left semi").num_rows)


def _check_staged(root: Path, query: str, parts: list[ArchivePart]) -> None:
    """Refuse parts whose files a later run of the query deleted; those that are there are made durable with
    their folders."""
    for part in parts:
        if not (root / part.staged).exists():
            raise ArchiveError(
                f"another run of the query {query} began while this one wrote {part.staged}; only one may run"
            )
    for folder in {path for part in parts for path in _between(root, (root / part.staged).parent)}:
        sync_folder(folder)


def _between(root: Path, folder: Path) -> list[Path]:
    """The folders from the root to `folder`."""
    return [root, *(root / parent for parent in reversed(folder.relative_to(root).parents)), folder]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _exchange(one: Path, other: Path) -> None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        number = errno.ENOSYS
    elif call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return
    else:
        number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):
        raise ArchiveError(
            f"the file system of {one} cannot exchange two folders in one step, so readers would see rows "
            "twice or not at all; compact on a local Linux file system (ext4, xfs, btrfs)"
        )
    raise OSError(number, os.strerror(number), str(one))
