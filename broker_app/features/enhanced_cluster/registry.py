"""The journals of an enhanced cluster, as its brokers note them in the store that they share.

A broker that was paused beyond its lease writes its notes once more before it notices. So what only ever
grows is in the key of a note, and the largest is valid: the epoch of the holder, and the generation of a
journal.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from broker_app.features.cluster.report import TakeoverReport
from broker_app.journal.store import Note, Store

#: serving: its own broker, or one that has taken it over, serves it. stopped: its holder has stopped in good
#: order, and another may take it over. restarting: its holder comes back. kept: none is to take it over.
#: drained: it was taken over, and nothing is left in it.
JournalState = Literal["serving", "stopped", "restarting", "kept", "drained"]

_JOURNALS: Final = "journal/"
_GENERATIONS: Final = "generation/"
_TAKEOVERS: Final = "takeover/"
#: takeovers that are kept
_MOST: Final = 100


class JournalNote(msgspec.Struct, frozen=True, kw_only=True):
    """One journal: that of `member`, its `generation`-th, served by `holder` whose cluster port is at
    `address`. `epoch` is that of the holder, `took_s` how many seconds its takeover has taken, `holder_state`
    the state of the holder towards clients, and `messages` are stored in it. The holder `suspects` those of
    the journals with these names."""

    journal: str
    member: str
    generation: int
    holder: str
    address: str
    state: JournalState
    epoch: int = 0
    took_s: float | None = None
    holder_state: str = ""
    messages: int = 0
    suspects: list[str] = []


class Seen(NamedTuple):
    """A note, and how long ago it was written, by the clock of the store."""

    note: JournalNote
    age_s: float


class SeenTakeover(NamedTuple):
    """A takeover, and how long ago it was noted, by the clock of the store."""

    takeover: TakeoverReport
    age_s: float


class RegistryContent(NamedTuple):
    """All journals, and the takeovers that are kept, the newest first."""

    journals: list[Seen]
    takeovers: list[SeenTakeover]


class Registry:
    """Notes about journals, in a store of their own. All methods block, and raise JournalError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, note: JournalNote) -> None:
        """Write the note about a journal by its holder, or replace it."""
        self._store.put_note(_journal_key(note), msgspec.json.encode(note))

    def read(self) -> RegistryContent:
        """All that is noted. A note of a former holder of a journal is deleted, and one of another version of
        MOM left out."""
        journals: dict[str, Seen] = {}
        takeovers: list[SeenTakeover] = []
        for key, note in self._store.notes("").items():
            try:
                if key.startswith(_JOURNALS):
                    self._keep_newest(journals, Seen(_journal(note), note.age_s))
                elif key.startswith(_TAKEOVERS):
                    takeovers.append(SeenTakeover(_takeover(note), note.age_s))
            except msgspec.MsgspecError:
                continue
        takeovers.sort(key=lambda seen: seen.takeover.began, reverse=True)
        return RegistryContent(list(journals.values()), takeovers)

    def _keep_newest(self, journals: dict[str, Seen], seen: Seen) -> None:
        """Keep one of two notes about a journal, and delete that of the former holder."""
        journal = seen.note.journal
        before = journals.get(journal, seen)
        newer, older = (seen, before) if seen.note.epoch > before.note.epoch else (before, seen)
        journals[journal] = newer
        if older is not newer:
            self._store.drop_note(_journal_key(older.note))

    def forget(self, journal: str) -> None:
        """Delete the notes about a journal."""
        for key in self._store.notes(f"{_JOURNALS}{journal}/"):
            self._store.drop_note(key)

    def journals(self) -> list[Seen]:
        """All journals."""
        return self.read().journals

    def write_takeover(self, takeover: TakeoverReport) -> None:
        """Write the note about a takeover, or replace it, and delete the oldest beyond the limit."""
        self._store.put_note(_key(takeover), msgspec.json.encode(takeover))
        for seen in self.read().takeovers[_MOST:]:
            self._store.drop_note(_key(seen.takeover))

    def generation(self, member: str) -> int:
        """The generation of the journal that a member is to use."""
        return max(self._generations(member), default=0)

    def set_generation(self, member: str, generation: int) -> None:
        """Have a member use this generation of its journal from its next start on, or a later one."""
        self._store.put_note(_generation_key(member, generation), b"")
        for former in sorted(self._generations(member))[:-1]:
            self._store.drop_note(_generation_key(member, former))

    def _generations(self, member: str) -> list[int]:
        prefix = _generation_key(member, "")
        return [int(key.removeprefix(prefix)) for key in self._store.notes(prefix)]

    def close(self) -> None:
        """Close the connections to the store."""
        self._store.release()


def _journal(note: Note) -> JournalNote:
    return msgspec.json.decode(note.content, type=JournalNote)


def _takeover(note: Note) -> TakeoverReport:
    return msgspec.json.decode(note.content, type=TakeoverReport)


def _journal_key(note: JournalNote) -> str:
    return f"{_JOURNALS}{note.journal}/{note.epoch}"


def _generation_key(member: str, generation: int | str) -> str:
    return f"{_GENERATIONS}{member}/{generation}"


def _key(takeover: TakeoverReport) -> str:
    return f"{_TAKEOVERS}{takeover.journal}/{takeover.epoch}"


def registry_name(cluster_id: str) -> str:
    """The name of the store of the registry: no broker can have it."""
    return f"{cluster_id}.~members"
