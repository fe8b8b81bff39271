"""The files of stages, `data/bulk`: rows that wait for their commit.

<stage>.<number>.rows   one part, see `part`
<producer>.commit       a batch of several parts that is being published, see `CommitPlan`; synced
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.features.bulk.part import PartDamaged, PartHead, read_head

log = logging.getLogger(__name__)

#: a stage that was not touched for so long is removed, seconds
KEPT_S = 3600.0
#: parts of all stages, and of one
MAX_PARTS, MAX_PARTS_OF_STAGE = 20_000, 10_000
#: bytes of all stages
_MAX_BYTES = 4 * 1024**3
_ROWS, _COMMIT, _NEW = ".rows", ".commit", ".new"


class PartName(NamedTuple):
    """One part of a stage, and the number of its rows."""

    stage: str
    number: int
    rows: int

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.stage}.{self.number}{_ROWS}"


class WantedStage(msgspec.Struct, forbid_unknown_fields=True):
    """A stage as a commit names it: its id, and how many parts and rows it has."""

    id: str
    parts: int
    rows: int


class CommitPlan(msgspec.Struct, array_like=True, frozen=True):
    """A batch that is published part by part, in this order; `rerouted` are addresses whose rows become dead
    letters, with the reason."""

    producer: str
    owner: str
    batch: int
    parts: list[PartName]
    rerouted: dict[str, str]


class Owner(NamedTuple):
    """The login that stages rows: a user, and the token if it has not all rights of that user."""

    user: str
    token: str = ""

    def has(self, stage: Owner) -> bool:
        """Return True if what was staged by another login is this one's as well."""
        return self.user == stage.user and self.token in ("", stage.token)


class _Stage:
    """The parts of one stage that were written, by number: (rows, bytes). While `held` it is being
    committed."""

    __slots__ = ("held", "owner", "parts", "touched_s", "writing")

    def __init__(self, owner: Owner, touched_s: float) -> None:
        self.owner = owner
        self.touched_s = touched_s
        self.parts: dict[int, tuple[int, int]] = {}
        #: parts that are being written
        self.writing: set[int] = set()
        self.held = False


class StageStore:
    """Owns `directory`. `max_bytes` is the limit of all files; one user may have half of it.

    Methods that block for files say so, and may be called from any thread; the others belong to the event
    loop."""

    def __init__(
        self, directory: Path, max_bytes: int = _MAX_BYTES, clock: Callable[[], float] = time.time
    ) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._clock = clock
        self._stages: dict[str, _Stage] = {}
        self._bytes_of: Counter[str] = Counter()
        self._parts = Shares(
            lambda: MAX_PARTS,
            "parts of stages that wait for their commit",
            "commit or abort some, and send it again",
        )
        self._new_files = itertools.count()

    # ------------------------------------------------------------------ start

    def load(self) -> list[CommitPlan]:
        """Find the files of a former process; blocks. Returns the batches that it did not finish."""
        found: list[CommitPlan] = []
        for path in sorted(self._directory.glob("*")):
            if path.suffix == _COMMIT:
                found += _read_plan(path)
            elif path.suffix != _ROWS or not self._found(path):
                path.unlink(missing_ok=True)
        for stage in {part.stage for plan in found for part in plan.parts} & self._stages.keys():
            self._stages[stage].held = True
        return found

    def _found(self, path: Path) -> bool:
        """Enter a file, unless it is no whole part."""
        stage, _, number = path.name.removesuffix(_ROWS).rpartition(".")
        try:
            head, facts = read_head(path), path.stat()
            owner = Owner(head.user, head.token)
            self._enter(stage, int(number), owner, head.rows, facts.st_size, facts.st_mtime)
        except (PartDamaged, OSError, ValueError):
            return False
        return True

    # ------------------------------------------------------------------ stages

    def begin_part(self, stage: str, number: int, owner: Owner, size: int, *, admin: bool = False) -> None:
        """Note that a part of about `size` bytes is being written. Raises Refused if it cannot be."""
        known = self._stages.get(stage)
        if known is not None:
            self._check_own(stage, known, owner)
            if known.held or number in known.writing:
                raise Refused("busy", f"part {number} of stage {stage} is in use; send it again later")
        if known is None or number not in known.parts:
            self._parts.check(owner.user, admin=admin)
        total = self._bytes_of.total()
        if total + size > self._max_bytes or self._bytes_of[owner.user] + size > self._max_bytes // 2:
            raise Refused(
                "busy",
                f"rows of {self._max_bytes} bytes of all users, or half of that of one, are staged; "
                "commit some, and send it again",
            )
        self._stages.setdefault(stage, _Stage(owner, self._clock())).writing.add(number)

    def write_part(self, stage: str, number: int, pieces: Sequence[bytes | memoryview]) -> int:
        """Write a part, in place of a former one of that number; blocks. Returns its bytes. Raises
        Refused."""
        self._replace(self.path(PartName(stage, number, 0)), pieces)
        return sum(map(len, pieces))

    def end_part(self, stage: str, number: int, rows: int, size: int) -> None:
        """Note that a part was written; `rows` -1: that it was not."""
        known = self._stages[stage]
        known.writing.discard(number)
        if rows >= 0:
            self._enter(stage, number, known.owner, rows, size, self._clock())
        elif not known.parts and not known.writing:
            del self._stages[stage]

    def _enter(self, stage: str, number: int, owner: Owner, rows: int, size: int, touched_s: float) -> None:
        known = self._stages.setdefault(stage, _Stage(owner, touched_s))
        known.touched_s = max(known.touched_s, touched_s)
        former = known.parts.get(number)
        if former is None:
            self._parts.add(owner.user)
        self._bytes_of[owner.user] += size - (former[1] if former else 0)
        known.parts[number] = rows, size

    def hold(self, wanted: Sequence[WantedStage], owner: Owner) -> tuple[list[PartName], int]:
        """The parts of these stages in order, which are kept until `release` or `drop`, and their bytes.
        Raises Refused if one is not complete."""
        parts: list[PartName] = []
        size = 0
        for one in wanted:
            known = self._stages.get(one.id)
            if known is None:
                raise Refused(
                    "not-found",
                    f"there is no stage {one.id[:80]!r}; stages are removed when they were not committed for "
                    f"{KEPT_S / 60:.0f} minutes. Stage the rows again",
                )
            self._check_own(one.id, known, owner)
            if known.held or known.writing:
                raise Refused("busy", f"stage {one.id} is being written, or committed; send it again later")
            rows = sum(of_part[0] for of_part in known.parts.values())
            if sorted(known.parts) != list(range(one.parts)) or rows != one.rows:
                raise Refused(
                    "conflict",
                    f"stage {one.id} has {len(known.parts)} parts and {rows} rows here; the commit names "
                    f"{one.parts} and {one.rows}. Stage the rows again",
                    restage=True,
                )
            parts += [PartName(one.id, number, known.parts[number][0]) for number in range(one.parts)]
            size += sum(of_part[1] for of_part in known.parts.values())
        for one in wanted:
            self._stages[one.id].held = True
        return parts, size

    def release(self, stages: Iterable[str]) -> None:
        """Let stages be committed again, or removed when they are too old."""
        for stage in stages:
            if stage in self._stages:
                self._stages[stage].held = False
                self._stages[stage].touched_s = self._clock()

    def forget(self, stages: Iterable[str], owner: Owner | None = None) -> list[Path]:
        """Forget stages, of `owner` if there is one; the files that are to be removed. Those that are being
        written or committed stay, unless there is no `owner`."""
        paths: list[Path] = []
        for stage in stages:
            known = self._stages.get(stage)
            if known is None or (owner and (not owner.has(known.owner) or known.held or known.writing)):
                continue
            del self._stages[stage]
            self._parts.add(known.owner.user, -len(known.parts))
            self._bytes_of[known.owner.user] -= sum(size for _, size in known.parts.values())
            paths += [self.path(PartName(stage, number, 0)) for number in known.parts]
        self._bytes_of += Counter()  # drops what is zero
        return paths

    def expired(self) -> list[Path]:
        """Forget the stages that are too old; the files that are to be removed."""
        before_s = self._clock() - KEPT_S
        return self.forget(
            [
                name
                for name, known in self._stages.items()
                if known.touched_s < before_s and not (known.held or known.writing)
            ]
        )

    def _check_own(self, stage: str, known: _Stage, owner: Owner) -> None:
        if not owner.has(known.owner):
            detail = f"stage {stage} belongs to another user or token; take an id of your own"
            raise Refused("not-allowed", detail)

    # ------------------------------------------------------------------ files

    def path(self, part: PartName) -> Path:
        """The file of a part."""
        return self._directory / part.file

    def heads(self, parts: Iterable[PartName]) -> list[PartHead]:
        """The heads of parts; blocks. Raises PartDamaged."""
        return [read_head(self.path(part)) for part in parts]

    def save_plan(self, plan: CommitPlan) -> None:
        """Make a plan and its parts durable; blocks. Raises Refused."""
        for part in plan.parts:
            _sync(self.path(part))
        path = self._plan_path(plan.producer)
        self._replace(path, [msgspec.msgpack.encode(plan)], sync=True)
        _sync(self._directory)

    def remove_plan(self, producer: str) -> None:
        """Remove a plan durably; blocks."""
        self._plan_path(producer).unlink(missing_ok=True)
        _sync(self._directory)

    def _plan_path(self, producer: str) -> Path:
        return self._directory / f"{blake2b(producer.encode(), digest_size=16).hexdigest()}{_COMMIT}"

    def _replace(self, path: Path, pieces: Sequence[bytes | memoryview], *, sync: bool = False) -> None:
        """Write a file in place of a former one. Raises Refused."""
        new = path.with_name(f"{path.name}.{next(self._new_files)}{_NEW}")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0) as file:
                for piece in pieces:
                    _write_all(file.fileno(), memoryview(piece))
                if sync:
                    os.fsync(file.fileno())
            new.replace(path)
        except OSError as error:
            remove([new])
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            detail = f"rows cannot be staged: {error.strerror}"
            raise Refused("store-full" if full else "store-unavailable", detail) from error


def _read_plan(path: Path) -> list[CommitPlan]:
    """The plan in a file, which was written as a whole; none if it cannot be read."""
    try:
        return [msgspec.msgpack.decode(path.read_bytes(), type=CommitPlan)]
    except (OSError, msgspec.DecodeError) as error:
        log.error("the batch in %s cannot be completed: %s", path, error)
        return []


def remove(paths: Iterable[Path]) -> None:
    """Remove files; blocks."""
    for path in paths:
        with suppress(OSError):  # it is removed as too old, at the latest by the next start
            path.unlink(missing_ok=True)


def _write_all(descriptor: int, content: memoryview) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
