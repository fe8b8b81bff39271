"""Who holds the journal, and the few numbers that belong to it as a whole."""

import fcntl
import json
import os
import random
from contextlib import suppress
from dataclasses import dataclass

from broker_app.journal.errors import JournalDamaged, JournalFailed, JournalInUse, NoSpace
from broker_app.journal.files import File, Files

LOCK, META = "lock", "meta.json"
FORMAT = 1
TAG_BITS = 26


@dataclass(frozen=True, slots=True)
class Meta:
    """`tag` and `created_us` stay for the life of the journal; `epoch` is that of the present holder."""

    epoch: int
    tag: int
    created_us: int


def lock(files: Files) -> File:
    """Take the directory for this process; closing the file gives it back. Raises JournalInUse."""
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
        with suppress(NoSpace):  # it only says who
            file.write((f"{os.getpid()}\n".encode(),), 0)
    except JournalFailed:
        file.close()
        raise
    return file


def read_meta(files: Files) -> Meta | None:
    """What `advance` stored, or None for a new journal. Raises JournalDamaged."""
    if META not in files.names():
        return None
    try:
        stored = json.loads(files.content(META))
        meta = Meta(int(stored["epoch"]), int(stored["tag"]), int(stored["created_us"]))
        version = int(stored["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise JournalDamaged(
            f"{files.directory / META}: damaged ({error}); delete it to have it made anew:"
            " only the journal's tag and time of creation are lost"
        ) from error
    if version != FORMAT:
        raise JournalDamaged(
            f"{files.directory / META}: format {version} is not known to this version of MOM"
        )
    return meta


def advance(files: Files, former: Meta | None, epoch_seen: int, now_us: int) -> Meta:
    """Store, durably, a larger epoch than any before."""
    if former is None:
        meta = Meta(epoch_seen + 1, random.SystemRandom().getrandbits(TAG_BITS), now_us)
    else:
        meta = Meta(max(former.epoch, epoch_seen) + 1, former.tag, former.created_us)
    stored = {"format": FORMAT, "epoch": meta.epoch, "tag": meta.tag, "created_us": meta.created_us}
    files.replace(META, json.dumps(stored).encode() + b"\n")
    files.sync_directory()
    return meta
