"""The members of an enhanced cluster with their states, by what is noted about their journals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from broker_app.base.states import MEMBER
from broker_app.features.cluster.report import MemberReport, MemberState, SuspicionReport
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
    own: str,
    journals: Sequence[Seen],
    takeovers: Sequence[SeenTakeover],
    suspicions: Mapping[str, Suspicion],
) -> list[MemberReport]:
    """All members by name: each as its newest journal shows it, with the `suspicions` of the member `own` by
    journal."""
    found = _suspicions_of(own, journals, suspicions)
    newest: dict[str, Seen] = {}
    for seen in journals:
        before = newest.get(seen.note.member)
        if before is None or seen.note.generation > before.note.generation:
            newest[seen.note.member] = seen
    return [_member(newest[name], takeovers, found.get(newest[name].note.journal)) for name in sorted(newest)]


def _suspicions_of(
    own: str, journals: Iterable[Seen], suspicions: Mapping[str, Suspicion]
) -> dict[str, SuspicionReport]:
    """The suspicions of the member `own` by journal, each with the names of all members that share it. What
    a member has noted that is suspect itself is too old to count."""
    others: dict[str, set[str]] = {}
    for seen in journals:
        if seen.note.state == "serving" and seen.note.journal not in suspicions:
            for journal in seen.note.suspects:
                others.setdefault(journal, set()).add(seen.note.holder)
    return {
        journal: SuspicionReport(
            since=one.since, looks=one.looks, by=sorted({own} | others.get(journal, set()))
        )
        for journal, one in suspicions.items()
    }


def _member(seen: Seen, takeovers: Sequence[SeenTakeover], suspicion: SuspicionReport | None) -> MemberReport:
    note = seen.note
    shown = _taken(note) or _being_taken(note, takeovers) or _own(seen, suspicion)
    return MemberReport(
        broker=note.member,
        address=note.address if note.holder == note.member else "",
        state=shown.state,
        messages=note.messages,
        taken_by=shown.taken_by,
        seen_s=round(seen.age_s, 1),
        why=shown.why,
        suspicion=suspicion if note.holder == note.member else None,
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


def _own(seen: Seen, suspicion: SuspicionReport | None) -> _Shown:
    note, age_s = seen
    if note.state in _DOWN:
        return _Shown("BROKER_DOWN", _DOWN[note.state])
    if suspicion is not None:
        why = f"no heart-beat for {age_s:.1f} s; looks at it that found none: {suspicion.looks}"
        return _Shown("UNKNOWN", why)
    state = note.holder_state if note.holder_state in MEMBER else "OPERATING"
    return _Shown(cast(MemberState, state), "")
