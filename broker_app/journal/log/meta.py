"""The lock of the journal, and the numbers that belong to it as a whole."""

import fcntl
import json
import os
import random
from contextlib import suppress
from dataclasses import asdict, dataclass

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalFailed, JournalInUse, NoSpace
from broker_app.journal.files import File, Files

LOCK, META = "lock", "meta.json"
FORMAT = 1
TAG_BITS = 26
_WITHOUT_CHECKSUM = {"epoch", "tag", "created_us"}  # what was stored before there was one


@dataclass(frozen=True, slots=True)
class Meta:
    """`tag` and `created_us` stay for the life of the journal; `epoch` and `segment_bytes` are those of the
    present holder, the latter 0 where it was not noted."""

    epoch: int
    tag: int
    created_us: int
    segment_bytes: int = 0


def lock(files: Files) -> File:
    """Lock the directory for this process; closing the file releases it. Raises JournalInUse."""
    file = files.open(LOCK, create=True)
    try:
        fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = file.read(64, 0).decode(errors="replace").strip() or "unknown"
        file.close()
        raise JournalInUse(
            f"{files.directory}: the journal is in use by process {holder};"
            " stop that broker first, or give this one another data directory"
        ) from None
    try:
        file.truncate(0)
        with suppress(NoSpace):  # it only names the process
            file.write((f"{os.getpid()}\n".encode(),), 0)
    except JournalFailed:
        file.close()
        raise
    return file


def read_meta(files: Files) -> Meta | None:
    """The content that `advance` stored, or None for a new journal. Raises JournalDamaged."""
    if META not in files.names():
        return None
    try:
        stored = json.loads(files.content(META))
        version = int(stored.pop("format"))
        if "checksum" in stored or set(stored) != _WITHOUT_CHECKSUM:
            _check(stored, version)
        meta = Meta(**{name: int(number) for name, number in stored.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JournalDamaged(
            f"{files.directory / META}: damaged ({error});"
            f" `mom journal repair {files.directory}` creates it again. No message is lost, only the time of"
            " creation and the tag, by which target brokers of bridges recognize this broker: messages in"
            " flight to them may arrive twice"
        ) from error
    if version != FORMAT:
        raise JournalDamaged(
            f"{files.directory / META}: format {version} is not known to this version of MOM"
        )
    return meta


def _check(stored: dict[str, int], version: int) -> None:
    """Remove the checksum. Raises ValueError if it is wrong, KeyError if there is none."""
    if stored.pop("checksum") != _checksum({"format": version, **stored}):
        raise ValueError("its checksum is wrong")


def _checksum(numbers: dict[str, int]) -> int:
    return codec.checksum(json.dumps(numbers, sort_keys=True).encode())


def advance(
    files: Files, former: Meta | None, epoch_seen: int, now_us: int, *, segment_bytes: int = 0
) -> Meta:
    """Store, durably, a larger epoch than any before."""
    if former is None:
        tag = random.SystemRandom().getrandbits(TAG_BITS)
        meta = Meta(epoch_seen + 1, tag, now_us, segment_bytes)
    else:
        meta = Meta(max(former.epoch, epoch_seen) + 1, former.tag, former.created_us, segment_bytes)
    numbers = {"format": FORMAT, **asdict(meta)}
    files.replace(META, json.dumps({**numbers, "checksum": _checksum(numbers)}).encode() + b"\n")
    files.sync_directory()
    return meta
