"""The members of an enhanced cluster with their states, by what is noted about their journals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from broker_app.base.states import MEMBER
from broker_app.features.cluster.report import MemberReport, MemberState
from broker_app.features.enhanced_cluster.failure_detection import Suspicion
from broker_app.features.enhanced_cluster.registry import JournalNote, Seen, SeenTakeover

#: a takeover whose taker has not noted it for so long has ended with the taker
STALE_S: Final = 15.0
_DOWN: Final = {
    "stopped": "it was shut down; another member serves its messages in a moment",
    "restarting": "it restarts",
    "kept": "it was shut down with no_failover: its messages wait for it",
}


class _Shown(NamedTuple):
    state: MemberState
    why: str
    taken_by: str = ""


def members_of(
    journals: Iterable[Seen], takeovers: Sequence[SeenTakeover], suspicions: Mapping[str, Suspicion]
) -> list[MemberReport]:
    """All members by name: each as its newest journal shows it."""
    newest: dict[str, Seen] = {}
    for seen in journals:
        found = newest.get(seen.note.member)
        if found is None or seen.note.generation > found.note.generation:
            newest[seen.note.member] = seen
    return [
        _member(newest[name], takeovers, suspicions.get(newest[name].note.journal)) for name in sorted(newest)
    ]


def _member(seen: Seen, takeovers: Sequence[SeenTakeover], suspicion: Suspicion | None) -> MemberReport:
    note = seen.note
    shown = _taken(note) or _being_taken(note, takeovers) or _own(note, suspicion)
    return MemberReport(
        broker=note.member,
        address=note.address if note.holder == note.member else "",
        state=shown.state,
        messages=note.messages,
        taken_by=shown.taken_by,
        seen_s=round(seen.age_s, 1),
        why=shown.why,
    )


def _taken(note: JournalNote) -> _Shown | None:
    if note.holder == note.member:
        return None
    if note.state == "drained":
        return _Shown("TAKEOVER_COMPLETE", f"{note.holder} has delivered all that it had stored", note.holder)
    return _Shown("TAKEOVER_COMPLETE", f"{note.holder} serves its messages", note.holder)


def _being_taken(note: JournalNote, takeovers: Sequence[SeenTakeover]) -> _Shown | None:
    """The state by the last takeover, if that has come to no good end; one from before the member has begun
    to serve again does not count."""
    last = next((seen for seen in takeovers if seen.takeover.journal == note.journal), None)
    if last is None or last.takeover.epoch <= note.epoch:
        return None
    takeover, age_s = last
    if takeover.result == "running" and age_s < STALE_S:
        return _Shown("TAKEOVER_STARTED", takeover.why, takeover.taker)
    if takeover.result == "running":
        return _Shown("TAKEOVER_FAILED", f"{takeover.taker} has ended while it took over", takeover.taker)
    if takeover.result == "failed":
        return _Shown("TAKEOVER_FAILED", takeover.error, takeover.taker)
    return None


def _own(note: JournalNote, suspicion: Suspicion | None) -> _Shown:
    if note.state in _DOWN:
        return _Shown("BROKER_DOWN", _DOWN[note.state])
    if suspicion is not None:
        return _Shown("UNKNOWN", f"suspect: no heart-beat, {suspicion.looks} looks since then")
    state = note.holder_state if note.holder_state in MEMBER else "OPERATING"
    return _Shown(cast(MemberState, state), "")
