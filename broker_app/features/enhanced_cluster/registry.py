"""The journals of an enhanced cluster, as its brokers note them in the store that they share."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from broker_app.journal.store import Store

#: serving: its own broker, or one that has taken it over, serves it. stopped: its holder has stopped in good
#: order, and another may take it over. restarting: its holder comes back. kept: none is to take it over.
#: drained: it was taken over, and nothing is left in it.
JournalState = Literal["serving", "stopped", "restarting", "kept", "drained"]

_JOURNALS: Final = "journal/"
_GENERATIONS: Final = "generation/"


class JournalNote(msgspec.Struct, frozen=True, kw_only=True):
    """One journal: that of `member`, its `generation`-th, served by `holder` whose cluster port is at
    `address`. `epoch` is that of the holder, `took_s` how many seconds its takeover has taken."""

    journal: str
    member: str
    generation: int
    holder: str
    address: str
    state: JournalState
    epoch: int = 0
    took_s: float | None = None


class Seen(NamedTuple):
    """A note, and how long ago it was written, by the clock of the store."""

    note: JournalNote
    age_s: float


class Registry:
    """Notes about journals, in a store of their own. All methods block, and raise JournalError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, note: JournalNote) -> None:
        """Write the note about a journal, or replace it."""
        self._store.put_note(_JOURNALS + note.journal, msgspec.json.encode(note))

    def journals(self) -> list[Seen]:
        """All journals. A note of another version of MOM is left out."""
        found = []
        for content, age_s in self._store.notes(_JOURNALS).values():
            try:
                found.append(Seen(msgspec.json.decode(content, type=JournalNote), age_s))
            except msgspec.MsgspecError:
                continue
        return found

    def generation(self, member: str) -> int:
        """The generation of the journal that a member is to use."""
        found = self._store.notes(_GENERATIONS + member).get(_GENERATIONS + member)
        return int(found.content) if found is not None and found.content.isdigit() else 0

    def set_generation(self, member: str, generation: int) -> None:
        """Have a member use another journal from its next start on."""
        self._store.put_note(_GENERATIONS + member, str(generation).encode())

    def close(self) -> None:
        """Close the connections to the store."""
        self._store.release()


def registry_name(cluster_id: str) -> str:
    """The name of the store of the registry: no broker can have it."""
    return f"{cluster_id}.~members"
