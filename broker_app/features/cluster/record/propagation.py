"""The propagation of the change record: changes here entered at all brokers, and theirs here.

Without a keeper each broker gives its own changes the next version. With one, they are proposed to it. It
calls back and never waits: sending and saving are its owner's.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from broker_app.base.refused import Refused
from broker_app.features.cluster.record.change_record import (
    DESTINATION,
    MOST_AHEAD,
    MOST_BYTES,
    SUBSCRIPTION,
    Change,
    ChangeRecord,
    Entry,
    Room,
    Version,
    bytes_of,
    fault_of,
    full,
)
from broker_app.features.cluster.record.keeper import MASTER_UNAVAILABLE, Keeper, KeeperResult
from broker_app.features.cluster.record.record_messages import (
    Buckets,
    Entries,
    Propose,
    Proposed,
    RecordMessage,
    Summary,
    changes_in_parts,
    in_parts,
)

log = logging.getLogger(__name__)

#: called with None when a change is in the record, or with why it is not
Done = Callable[[Refused | None], None]
#: called when entries are on the disk, or with why they are not
Saved = Callable[[Refused | None], None]
_Key = tuple[str, str]
#: the kinds that other brokers may propose
_PROPOSED: Final = frozenset((DESTINATION, SUBSCRIPTION))
#: entries that are merged in one turn of the loop, and as how many of them the end of a change counts
_AT_ONCE: Final = 500
_END: Final = 10


class _Proposal(NamedTuple):
    keeper: str
    changes: list[Change]
    done: Done


class _PartialProposal:
    """The part of a proposal of another broker that has come: checked, and with a version, so that little is
    left to do when it is complete. `bytes` are those that all of its changes take in memory."""

    def __init__(self, record: ChangeRecord) -> None:
        self.room = Room(record)
        self.bytes = 0
        self.version: Version | None = None
        self.entries: list[Entry] = []


class _Connection:
    """Another broker that is connected, and what is under way to and from it."""

    def __init__(self, address: str) -> None:
        #: at which others connect to it
        self.address = address
        #: whether the records were equal, or all that it has was received, since it connected
        self.is_complete = False
        #: why entries of it were not taken, each of which is logged once
        self.doubts: set[str] = set()
        #: entries that are sent part by part: those of its question, and of the newest one since
        self.outgoing: deque[Iterator[list[Entry]]] = deque()
        #: its proposal of which more follows
        self.proposal: _PartialProposal | None = None
        #: the proposal that was refused last, of which more may follow
        self.refused = 0
        #: questions about its digest, by number; called with None when it leaves
        self.questions: dict[int, Callable[[int | None], None]] = {}


class Propagation:
    """Keeps a record equal to those of the other brokers.

    `send` sends a message to a connected broker. `save` writes entries to the disk and calls back, in order.
    `later` calls a function when the loop has done other work.
    """

    def __init__(
        self,
        name: str,
        record: ChangeRecord,
        keeper: Keeper,
        send: Callable[[str, RecordMessage], None],
        save: Callable[[Sequence[Entry], Saved], None],
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        self._name = name
        self._keeper = keeper
        self._send = send
        self._save = save
        self._later = later
        self.record = record
        #: called with the entries that are new in the record
        self.on_entries: list[Callable[[list[Entry]], None]] = []
        #: called when changes are possible from now on, or are not any more
        self.on_availability: list[Callable[[], None]] = []
        self._connections: dict[str, _Connection] = {}
        self._numbers = itertools.count(1)
        #: changes that the keeper has not answered, by the number of their proposal
        self._proposals: dict[int, _Proposal] = {}
        #: changes that were made here, and that the keeper has yet to receive
        self._unproposed: dict[_Key, Change] = {}
        #: why such changes were refused last
        self._last_fault = ""
        #: names whose newest value is being saved or proposed, and is not in the record yet
        self._under_way: Counter[_Key] = Counter()
        #: what is on the disk and is merged now, in order, and whether this turn has done its part
        self._merging: deque[Iterator[int]] = deque()
        self._has_merged = False
        #: True while another broker becomes the keeper: no version is given then
        self._hands_over = False
        self._was_available = self.refusal is None

    # ------------------------------------------------------------------ changes of this broker

    def change(self, changes: Iterable[Change], done: Done) -> None:
        """Enter changes, or have the keeper enter them; all or none."""
        wanted = self._differing(changes)
        refusal = self.refusal
        if refusal is not None or not wanted:
            done(refusal)
        elif self._keeper.is_elsewhere:
            self._propose(wanted, done)
        else:
            self._enter(wanted, self._name, done)

    def note(self, changes: Iterable[Change]) -> None:
        """Enter changes that were made here already. While the keeper is away, they wait for it."""
        wanted = {
            (change.kind, change.name): change for change in self._differing(changes) if _is_possible(change)
        }
        if self.refusal is not None:
            self._unproposed |= wanted
        elif wanted:
            self.change(wanted.values(), partial(self._noted, wanted))

    def forget_proposal(self, done: Done) -> None:
        """Wait no longer for the keeper to answer: `done` is called with that."""
        for number, proposal in list(self._proposals.items()):
            if proposal.done == done:
                self._end_proposal(number, self._keeper.lost())

    def is_under_way(self, kind: str, name: str) -> bool:
        """Return whether a change that was made here is not in the record yet."""
        return (kind, name) in self._under_way or (kind, name) in self._unproposed

    @property
    def has_unentered(self) -> bool:
        """True if any change that was made here is not in the record yet."""
        return bool(self._under_way or self._unproposed)

    @property
    def is_merging(self) -> bool:
        """True if the record lacks a part of what is on the disk."""
        return bool(self._merging)

    def _noted(self, changes: dict[_Key, Change], refusal: Refused | None) -> None:
        if refusal is not None:  # what was noted meanwhile is newer
            self._unproposed = changes | self._unproposed
            if refusal.code != MASTER_UNAVAILABLE and refusal.detail != self._last_fault:
                log.error("what was changed here is not in the change record yet: %s", refusal.detail)
        self._last_fault = refusal.detail if refusal is not None else ""

    def _differing(self, changes: Iterable[Change]) -> list[Change]:
        """The changes, without those whose value the record has; the last of each name."""
        last = {(change.kind, change.name): change for change in changes}
        return [
            change
            for key, change in last.items()
            if self.is_under_way(*key) or change.value != self.record.value(*key)
        ]

    def _propose(self, changes: list[Change], done: Done) -> None:
        number, keeper = next(self._numbers), self._keeper.name
        self._proposals[number] = _Proposal(keeper, changes, done)
        self._under_way.update((change.kind, change.name) for change in changes)
        *parts, last = changes_in_parts(changes)
        for part in parts:
            self._send(keeper, Propose(number, part, more=True))
        self._send(keeper, Propose(number, last))

    def _enter(self, changes: list[Change], origin: str, done: Done) -> None:
        """Give changes the next version. It is sent once it is on the disk: none may be given twice."""
        refusal = self.record.refusal(changes)
        if refusal is not None:
            done(refusal)
            return
        self._save_entries(_entries(changes, self.record.next_version(self._name), origin), done)

    def _save_entries(self, entries: list[Entry], done: Done) -> None:
        self._under_way.update(entry.key for entry in entries)
        self._save(entries, partial(self._saved, entries, done))

    def _saved(self, entries: list[Entry], done: Done, refusal: Refused | None) -> None:
        if refusal is not None:
            self._no_longer_under_way(entries)
            done(refusal)
            return
        self._merging.append(self._entered(entries, done))
        if not self._has_merged:
            self._merge()

    def _merge(self) -> None:
        """Merge what is on the disk, as much as there is time for in a turn of the loop: another broker may
        have proposed very much."""
        merged, self._has_merged = 0, True
        try:
            while self._merging and merged < _AT_ONCE:
                part = next(self._merging[0], 0)
                if not part:
                    self._merging.popleft()
                merged += part or _END
        finally:  # an error ends one change, and not what is merged behind it
            self._has_merged = bool(merged or self._merging)
            if self._has_merged:
                self._later(self._merge)

    def _entered(self, entries: list[Entry], done: Done) -> Iterator[int]:
        """Merge entries and send them, in parts: the number of entries of each."""
        is_full = False
        for begin in range(0, len(entries), _AT_ONCE):
            part = entries[begin : begin + _AT_ONCE]
            self._no_longer_under_way(part)
            newer = self.record.merge(part)
            for sent in in_parts(newer):
                for broker in self._connections:
                    self._send(broker, Entries(sent))
            self._announce(newer)
            is_full = is_full or any(map(self.record.lacks, part))  # others have filled it meanwhile
            yield len(part)
        done(full() if is_full else None)

    def _no_longer_under_way(self, ended: Iterable[Entry | Change]) -> None:
        for one in ended:
            key = one.kind, one.name
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]

    def _announce(self, newer: list[Entry]) -> None:
        if newer:
            for listener in self.on_entries:
                listener(newer)
            self._availability_changed()  # another broker may be the keeper now

    # ------------------------------------------------------------------ the keeper

    @property
    def keeper(self) -> str:
        """The name of the keeper's broker, or its address until that is known; empty without a keeper."""
        return self._keeper.name

    @property
    def is_keeper(self) -> bool:
        return self._keeper.is_here

    @property
    def refusal(self) -> Refused | None:
        """The reason why changes are refused now; None while they are accepted."""
        if self._hands_over:
            return self._keeper.changing()
        if not self._keeper.is_elsewhere:
            return None
        connection = self._connections.get(self._keeper.name)
        return None if connection is not None and connection.is_complete else self._keeper.away()

    @property
    def waiting(self) -> str:
        """The reason why this broker cannot serve clients yet: it has not reached the keeper since its start.
        Empty when it can."""
        if self._keeper.was_compared or not self._keeper.is_elsewhere:
            return ""
        return (
            f"waits for the master broker {self._keeper.name}, which keeps the change record of the cluster: "
            "start that, or check the connection to it"
        )

    def change_keeper(self, broker: str, done: Callable[[KeeperResult], None]) -> None:
        """Make another broker the keeper, which has to be connected and to have the whole record. `done` is
        called with OK once it has answered."""
        if not (self._keeper.address and broker):
            done(KeeperResult.BAD_REQUEST)
        elif not (self._keeper.may_change and self.is_keeper) or self._hands_over:
            done(KeeperResult.NOT_ALLOWED)
        elif broker == self._name:
            done(KeeperResult.OK)
        elif broker not in self._connections:
            done(KeeperResult.UNAVAILABLE)
        else:
            self._hands_over = True
            self._availability_changed()
            self._ask_digest(broker, partial(self._hand_over, broker, done))

    def _hand_over(self, broker: str, done: Callable[[KeeperResult], None], digest: int | None) -> None:
        if digest == self.record.digest and not self._under_way:
            # The last version that is given here: who has it has all others.
            self._enter([self._keeper.change(broker)], self._name, partial(self._handed_over, broker, done))
            return
        self._hands_over = False
        self._availability_changed()
        done(KeeperResult.UNAVAILABLE if digest is None else KeeperResult.PRECONDITION_FAILED)

    def _handed_over(
        self, broker: str, done: Callable[[KeeperResult], None], refusal: Refused | None
    ) -> None:
        self._hands_over = False
        self._availability_changed()
        if refusal is not None:
            done(KeeperResult.PRECONDITION_FAILED)
            return
        self._ask_digest(
            broker, lambda digest: done(KeeperResult.UNKNOWN if digest is None else KeeperResult.OK)
        )

    def _ask_digest(self, broker: str, then: Callable[[int | None], None]) -> None:
        """Call `then` with the digest of another broker when it has received all that was sent to it; with
        None if it leaves before."""
        connection = self._connections.get(broker)
        if connection is None:
            then(None)
            return
        number = next(self._numbers)
        connection.questions[number] = then
        self._send(broker, self._summary(question=number))

    def _availability_changed(self) -> None:
        is_available = self.refusal is None
        if is_available and self._unproposed:
            unproposed, self._unproposed = self._unproposed, {}
            self.note(unproposed.values())
        if is_available != self._was_available:
            self._was_available = is_available
            for listener in self.on_availability:
                listener()

    # ------------------------------------------------------------------ other brokers

    def connected(self, broker: str, address: str) -> None:
        """Compare the record with that of a broker that can be sent messages from now on. Others connect to
        it at `address`."""
        self.disconnected(broker)  # by another connection, which has given way to this one
        self._connections[broker] = _Connection(address)
        self._send(broker, self._summary())

    def disconnected(self, broker: str) -> None:
        """Send nothing more to a broker, and wait for nothing from it."""
        connection = self._connections.pop(broker, None)
        if connection is None:
            return
        for number, proposal in list(self._proposals.items()):
            if proposal.keeper == broker:
                self._end_proposal(number, self._keeper.lost())
        for then in connection.questions.values():
            then(None)
        self._availability_changed()

    def compare(self) -> None:
        """Send what connected brokers lack, now and then: of two that are not connected with each other, each
        gets what the other has by way of a third."""
        for broker in self._connections:
            self._send(broker, self._summary())

    def receive(self, broker: str, message: RecordMessage) -> None:
        """Take a message of a connected broker."""
        connection = self._connections.get(broker)
        if connection is None:
            return
        match message:
            case Summary():
                self._compare(broker, connection, message)
            case Buckets(digests):
                self._send_difference(broker, connection, digests)
            case Entries(entries, last):
                self._take(broker, connection, entries, last=last)
            case Propose():
                self._proposed(broker, connection, message)
            case Proposed(number, refusal):
                self._end_proposal(number, Refused(MASTER_UNAVAILABLE, refusal) if refusal else None)

    def _summary(self, *, question: int = 0, answer: int = 0) -> Summary:
        return Summary(self.record.digest, self.is_keeper, question, answer)

    def _compare(self, broker: str, connection: _Connection, theirs: Summary) -> None:
        if theirs.is_keeper:
            self._keeper.claimed_by(broker, connection.address, self._connections)
        if theirs.question:
            self._send(broker, self._summary(answer=theirs.question))
        elif (then := connection.questions.pop(theirs.answer, None)) is not None:
            then(theirs.digest)
        if theirs.digest == self.record.digest:
            self._compared(broker, connection)
        elif not theirs.answer and self._keeper.may_give(broker):
            self._send(broker, Buckets(self.record.bucket_digests()))
        self._availability_changed()

    def _compared(self, broker: str, connection: _Connection) -> None:
        """Note that this broker has what another one has."""
        connection.is_complete = True
        if self._keeper.is_here or broker == self._keeper.name:
            self._keeper.was_compared = True

    def _send_difference(self, broker: str, connection: _Connection, digests: bytes) -> None:
        """Send what a broker with these digests lacks, after what it is sent already."""
        if len(connection.outgoing) > 1:
            connection.outgoing.pop()  # of an older question, which has not begun
        connection.outgoing.append(in_parts(self.record.difference(digests)))
        if len(connection.outgoing) == 1:
            self._send_next(broker, connection)

    def _send_next(self, broker: str, connection: _Connection) -> None:
        """Send the next part of what a broker lacks."""
        if self._connections.get(broker) is not connection:
            return
        part = next(connection.outgoing[0], None)
        self._send(broker, Entries(part or [], last=part is None))
        if part is None:
            connection.outgoing.popleft()
        if connection.outgoing:
            self._later(partial(self._send_next, broker, connection))

    def _take(self, broker: str, connection: _Connection, entries: list[Entry], *, last: bool) -> None:
        keeper = self._keeper.name
        newer = self.record.merge(self._without_doubt(broker, connection, entries))
        if newer:
            for entry in newer:
                # It is newer than what was to be proposed.
                self._unproposed.pop(entry.key, None)
            self._save(newer, _log_failure)
        if last:
            self._compared(broker, connection)
        if keeper != self._keeper.name:
            self._ask_keeper()
        self._announce(newer)
        self._availability_changed()

    def _without_doubt(self, broker: str, connection: _Connection, entries: list[Entry]) -> list[Entry]:
        """The entries that are taken from a broker."""
        highest, taken = self.record.number + MOST_AHEAD, []
        for entry in entries:
            doubt = self._keeper.doubt(broker, entry, is_compared=connection.is_complete)
            if not doubt and entry.version.number > highest:
                doubt = "its version is far above all others"
            if not doubt:
                taken.append(entry)
            elif doubt not in connection.doubts and self.record.lacks(entry):
                connection.doubts.add(doubt)
                log.warning("%.200r of broker %s is not taken: %s", entry.name, broker, doubt)
        return taken

    def _ask_keeper(self) -> None:
        """Ask another broker that is the keeper now for what it has entered since."""
        connection = self._connections.get(self._keeper.name)
        if connection is not None:
            connection.is_complete = False
            self._send(self._keeper.name, Buckets(self.record.bucket_digests()))

    def _proposed(self, broker: str, connection: _Connection, proposal: Propose) -> None:
        """Enter what another broker proposes, if this one is the keeper."""
        if proposal.id == connection.refused:
            return
        present = connection.proposal = connection.proposal or _PartialProposal(self.record)
        wrong = self._wrong(present, proposal.changes)
        if not wrong:
            self._add(present, proposal.changes, broker)
            if proposal.more:
                return
        connection.proposal = None
        if wrong:
            connection.refused = proposal.id
            self._send(broker, Proposed(proposal.id, wrong))
        elif present.entries:
            self._save_entries(present.entries, partial(self._answer, broker, proposal.id))
        else:
            self._send(broker, Proposed(proposal.id))

    def _add(self, proposal: _PartialProposal, changes: list[Change], origin: str) -> None:
        """Add the changes that make a difference to a proposal."""
        if wanted := self._differing(changes):
            version = proposal.version = proposal.version or self.record.next_version(self._name)
            proposal.entries += _entries(wanted, version, origin)

    def _wrong(self, proposal: _PartialProposal, changes: list[Change]) -> str:
        """The reason why more changes of another broker are not entered; empty if they are."""
        if self._hands_over or not self.is_keeper:
            return (self._keeper.changing() if self._hands_over else self._keeper.moved()).detail
        if kinds := {change.kind for change in changes} - _PROPOSED:
            return f"a change of the kind {min(kinds)[:50]!r} is not proposed"
        proposal.bytes += bytes_of(changes)
        refusal = full() if proposal.bytes > MOST_BYTES else proposal.room.refusal(changes)
        return refusal.detail if refusal is not None else ""

    def _answer(self, broker: str, number: int, refusal: Refused | None) -> None:
        if broker in self._connections:
            self._send(broker, Proposed(number, "" if refusal is None else refusal.detail))

    def _end_proposal(self, number: int, refusal: Refused | None) -> None:
        proposal = self._proposals.pop(number, None)
        if proposal is not None:
            self._no_longer_under_way(proposal.changes)
            proposal.done(refusal)


def _entries(changes: Iterable[Change], version: Version, origin: str) -> list[Entry]:
    return [Entry(change.kind, change.name, version, change.value, origin) for change in changes]


def _is_possible(change: Change) -> bool:
    """Return whether a change that was made here can be entered; the others of its kind are not held up."""
    wrong = fault_of(change)
    if wrong:
        log.error("the change of %.200r is not entered in the change record: %s", change.name, wrong)
    return not wrong


def _log_failure(refusal: Refused | None) -> None:
    if refusal is not None:
        log.error("entries of other brokers are in memory only: %s", refusal.detail)
