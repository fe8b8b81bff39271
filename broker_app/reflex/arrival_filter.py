"""The filter of arrivals: messages of clients and bridges are held until their chains have decided.

A command that is held holds up the later ones of its connection, so that their order and its transactions
stay as they were. Their chains run meanwhile. Commands of a peer that is not `ordered`, as that of REST, are
independent of each other.

The first chains begin, and the first commands that are decided continue, at once. What is left has its turn
later, as other connections have.

| held | when it is refused |
|---|---|
| `Publish` | `Refuse` of each refused message |
| `Enlist` of a Publish | `MarkRollbackOnly`: the COMMIT is refused; `Refuse` if each frame is confirmed |
| `Forward` | `BreakFlow`: the messages behind it are refused, too, and sent again |
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused, internal
from broker_app.base.turns import StepsInTurns
from broker_app.core import commands as c
from broker_app.core.message import Envelope
from broker_app.core.model import Peer
from broker_app.engine import Engine
from broker_app.reflex.chain import Evaluation, Further, HeaderBlocks, Outcome
from broker_app.reflex.chains import NONE, MessageChains, Steps, type_of
from broker_app.reflex.further import FurtherMessages
from broker_app.reflex.subject import MessageSubject

#: bytes of one connection that are held before it is not read any more
MAX_OF_CONNECTION: Final = 1024 * 1024

#: short steps that are made at once, before others wait for a later turn
_AT_ONCE: Final = 16

_NO_ROOM: Final = "the messages that wait for reflexes have reached their limit; send it again later"

Messages = c.Publish | c.Enlist | c.Forward


class Held:
    """A command, and what is known about its messages: outcomes and subjects by index. With a `refusal`, all
    of them are refused. Each step of `chains_left` begins one of its chains; None when all have begun."""

    __slots__ = (
        "chains_left",
        "command",
        "entries",
        "line",
        "outcomes",
        "refusal",
        "size",
        "subjects",
        "undecided",
    )

    def __init__(self, command: c.Command, size: int, entries: Sequence[c.Entry] = ()) -> None:
        self.command = command
        self.size = size
        self.entries = entries
        self.outcomes: dict[int, Outcome] = {}
        self.subjects: dict[int, MessageSubject] = {}
        self.undecided = 0
        self.chains_left: Iterator[None] | None = None
        self.refusal: Refused | None = None
        self.line: HeldLine | None = None

    @property
    def is_decided(self) -> bool:
        """True if it is known what becomes of each message."""
        return self.chains_left is None and not self.undecided

    @property
    def passes(self) -> bool:
        """True if it continues as it is."""
        return self.refusal is None and all(
            one.accepted and not (one.changed or one.further) for one in self.outcomes.values()
        )

    def entry(self, index: int) -> c.Entry:
        """A message, with the headers that reflexes have changed."""
        outcome = self.outcomes.get(index)
        entry = self.entries[index]
        return (
            (self.subjects[index].envelope, entry[1], entry[2])
            if outcome is not None and outcome.changed
            else entry
        )

    def refused(self, index: int) -> Refused | None:
        """The refusal of a message, None if it is accepted."""
        outcome = self.outcomes.get(index)
        if self.refusal is not None or outcome is None or outcome.accepted:
            return self.refusal
        return _refusal(self.subjects[index], outcome)


class HeldLine:
    """The held commands of one connection, in order."""

    __slots__ = ("advances", "broken_flows", "bytes", "entries", "peer", "stopped", "throttled", "unbegun")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.entries: deque[Held] = deque()
        #: those of which chains are still to begin, in order
        self.unbegun: deque[Held] = deque()
        self.bytes = 0
        self.throttled = False
        #: whether its first commands, which are decided, are being carried out
        self.advances = False
        #: whether a refusal ends the connection: the broker ignores what follows
        self.stopped = False
        #: flows of a bridge that a refusal has broken, until they begin again
        self.broken_flows: set[str] = set()

    @property
    def is_needed(self) -> bool:
        """True while later commands must pass through it."""
        return bool(self.entries or self.stopped or self.broken_flows)


class ArrivalFilter:
    """Holds commands with messages that have a chain: a command interceptor of the engine.

    `receives` is called with each command that begins deliveries before it is decided, `drained` when
    nothing is held any more."""

    def __init__(
        self,
        engine: Engine,
        blocks: HeaderBlocks,
        further: FurtherMessages,
        max_bytes: int,
        receives: Callable[[c.Subscribe | c.DeliverChosen], None],
        drained: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._blocks = blocks
        self._further = further
        self._max_bytes = max_bytes
        self._receives = receives
        self._drained = drained
        self.chains: MessageChains
        self._lines: dict[Peer, HeldLine] = {}
        #: commands that are held, and their bytes
        self.held = self.held_bytes = 0
        self._idle: list[asyncio.Future[None]] = []
        #: what is left for later turns, step by step: of each connection its chains, and its commands
        self._left: deque[Iterator[None]] = deque()
        self._steps = StepsInTurns(self._left, self._step)

    # ------------------------------------------------------------------ commands come

    def takes(self, command: c.Command, size: int) -> bool:
        """Return whether the command is held, was refused, or continues changed."""
        if self._lines:
            line = self._lines.get(getattr(command, "peer", None))  # type: ignore[arg-type]  # None has none
            if line is not None:
                held = self._held_of(command, size) or Held(command, size)
                self._begin(held)
                self._append(line, held)
                self._advance(line)
                return True
        if isinstance(command, c.Publish):  # nearly always
            return self._concerns(command.entries) and self._takes_messages(command, size)
        if isinstance(command, c.Forward | c.Enlist):
            return self._takes_messages(command, size)
        if isinstance(command, c.Subscribe | c.DeliverChosen):
            self._receives(command)
        return False

    def _concerns(self, entries: Sequence[c.Entry]) -> bool:
        """Return whether any of the messages has a chain."""
        find = self.chains.find
        last: Envelope | None = None
        for envelope, _, _ in entries:
            if envelope is not last:
                last = envelope
                if find(envelope.address, envelope):
                    return True
        return False

    def _takes_messages(self, command: Messages, size: int) -> bool:
        held = self._held_of(command, size)
        if held is None:
            return False
        self._begin(held)
        if held.is_decided:
            if held.passes:
                return False
            self._carry_out(held)
        elif command.peer.ordered:
            line = self._lines[command.peer] = HeldLine(command.peer)
            self._append(line, held)
        else:
            self._count(held)
            if held.chains_left is not None:
                self._later(self._beginning(deque((held,))))
        return True

    def _count(self, held: Held) -> None:
        self.held += 1
        self.held_bytes += held.size

    def _append(self, line: HeldLine, held: Held) -> None:
        held.line = line
        line.entries.append(held)
        line.bytes += held.size
        self._count(held)
        if held.chains_left is not None:
            line.unbegun.append(held)
            if len(line.unbegun) == 1:
                self._later(self._beginning(line.unbegun))
        full = line.bytes > MAX_OF_CONNECTION or self.held_bytes > self._max_bytes
        if full and not line.throttled:
            line.throttled = True
            line.peer.receiver.hold(True)

    # ------------------------------------------------------------------ chains

    def _held_of(self, command: c.Command, size: int) -> Held | None:
        """The command with its chains, none of which has begun; None if it has no messages with a chain."""
        skipped: Collection[int] = ()
        if isinstance(command, c.Forward):
            publish: object = c.Publish(command.peer, list(command.entries))
            skipped = _stored_before(command)
        else:
            publish = command.command if isinstance(command, c.Enlist) else command
        if not isinstance(publish, c.Publish) or publish.peer.own:
            return None
        wanted = self._matching(publish.entries, skipped)
        first = next(wanted, None)
        if first is None:
            return None
        held = Held(command, size, publish.entries)
        if self.held_bytes + size > self._max_bytes and not publish.peer.connection:
            held.refusal = Refused("busy", _NO_ROOM)  # it cannot be throttled
            return held
        user = publish.user or publish.peer.user
        held.chains_left = self._chains(held, itertools.chain((first,), wanted), user)
        return held

    def _matching(self, entries: Sequence[c.Entry], skipped: Collection[int]) -> Iterator[tuple[int, Steps]]:
        """The indexes of messages that have a chain, each with its chain."""
        find = self.chains.find
        last: Envelope | None = None
        steps = NONE
        for index, (envelope, _, _) in enumerate(entries):
            if envelope is not last:
                last = envelope
                steps = find(envelope.address, envelope)
                if steps and self._engine.broker.publisher.is_repeat(envelope):
                    steps = NONE  # its first copy was accepted
            if steps and index not in skipped:
                yield index, steps

    def _chains(self, held: Held, wanted: Iterator[tuple[int, Steps]], user: str) -> Iterator[None]:
        """Begin the chains of a command, one at each step."""
        for index, steps in wanted:
            self._evaluate(held, index, steps, user)
            yield

    def _evaluate(self, held: Held, index: int, steps: Steps, user: str) -> None:
        envelope, body, _ = held.entries[index]
        subject = held.subjects[index] = MessageSubject(
            envelope.address, type_of(envelope.block), envelope, body, user
        )
        outcome = Evaluation(steps, subject, self._blocks, partial(self._decided, held, index)).run()
        if outcome is None:
            held.undecided += 1
        else:
            held.outcomes[index] = outcome

    def _begin(self, held: Held) -> None:
        """Begin the first chains of a command, unless others wait for a turn already."""
        if held.chains_left is not None and not self._left and self._is_made(held.chains_left):
            held.chains_left = None

    def _beginning(self, unbegun: deque[Held]) -> Iterator[None]:
        """Begin the chains that are left of commands, which come in between, too."""
        while unbegun:
            held = unbegun[0]
            assert held.chains_left is not None
            try:
                yield from held.chains_left
            except Exception as error:  # it is this command's failure, not that of the others
                internal_errors.note("the reflexes of a message", error)
                held.refusal = internal()
            held.chains_left = None
            unbegun.popleft()
            self._go_on(held)

    def _decided(self, held: Held, index: int, outcome: Outcome) -> None:
        held.outcomes[index] = outcome
        held.undecided -= 1
        self._go_on(held)

    def _go_on(self, held: Held) -> None:
        """Carry a command out, if it is decided and the first of its connection."""
        if not held.is_decided:
            return
        if held.line is not None:
            self._advance(held.line)
        else:
            self._end_hold(held)

    def _advance(self, line: HeldLine) -> None:
        """Carry out the first commands of a connection, up to one that is not decided."""
        if line.advances or not line.entries[0].is_decided:
            return
        line.advances = True
        steps = self._advancing(line)
        if self._left or not self._is_made(steps):
            self._later(steps)

    def _advancing(self, line: HeldLine) -> Iterator[None]:
        entries = line.entries
        while entries and entries[0].is_decided:
            held = entries.popleft()
            line.bytes -= held.size
            self._end_hold(held)
            yield
        line.advances = False
        if line.throttled and (
            not entries or (line.bytes < MAX_OF_CONNECTION // 2 and self.held_bytes < self._max_bytes)
        ):
            line.throttled = False
            line.peer.receiver.hold(False)
        if not line.is_needed:
            self._lines.pop(line.peer, None)

    def _end_hold(self, held: Held) -> None:
        """Carry out a command that was held. An error closes its connection, and no other."""
        try:
            self._carry_out(held)
        except Exception as error:
            internal_errors.note("a command that reflexes held", error)
            if held.line is not None and held.line.peer.connection:
                held.line.peer.receiver.close(internal())
        self._uncount(held)

    def _uncount(self, held: Held) -> None:
        self.held -= 1
        self.held_bytes -= held.size
        if not self.held:
            self._drained()
            idle, self._idle = self._idle, []
            for future in idle:
                if not future.done():
                    future.set_result(None)

    # ------------------------------------------------------------------ turns

    def _is_made(self, steps: Iterator[None]) -> bool:
        """Make the first steps at once; returns whether none is left."""
        return len(list(itertools.islice(steps, _AT_ONCE))) < _AT_ONCE

    def _later(self, steps: Iterator[None]) -> None:
        """Make steps in later turns, one after the other with those of others."""
        self._left.append(steps)
        self._steps.later()

    def _step(self) -> None:
        try:
            next(self._left[0])
            self._left.rotate(-1)
        except StopIteration:
            self._left.popleft()

    # ------------------------------------------------------------------ commands go

    def _carry_out(self, held: Held) -> None:
        command, line = held.command, held.line
        if line is not None:
            if isinstance(command, c.Disconnect):
                line.stopped = False
                line.broken_flows.clear()
            elif isinstance(command, c.BeginFlow):
                line.broken_flows.discard(command.id)
            elif line.stopped and isinstance(command, Messages):
                return
        if isinstance(command, c.Subscribe | c.DeliverChosen):
            self._receives(command)
        if held.passes:
            self._resume(command, held.size)
        elif isinstance(command, c.Publish):
            self._publish(held, command)
        elif isinstance(command, c.Enlist):
            self._enlist(held, command)
        elif isinstance(command, c.Forward):
            self._forward(held, command)

    def _resume(self, command: c.Command, size: int = 0) -> None:
        self._engine.resume(self, command, size)

    def _line_of(self, held: Held, peer: Peer) -> HeldLine:
        """The line of a peer, for it must be watched."""
        if held.line is None:
            held.line = self._lines[peer] = HeldLine(peer)
        return held.line

    def _publish(self, held: Held, command: c.Publish) -> None:
        peer = command.peer
        accepted: list[c.Entry] = []
        further: list[Further] = []
        for index, (_, _, receipt) in enumerate(held.entries):
            refusal = held.refused(index)
            if refusal is None:
                accepted.append(held.entry(index))
                further += _further(held, index)
                continue
            self._resume_publish(command, accepted, further)
            accepted, further = [], []
            self._resume(c.Refuse(peer, receipt, refusal))
            if peer.strict:
                self._line_of(held, peer).stopped = True
                return
        self._resume_publish(command, accepted, further)

    def _resume_publish(self, command: c.Publish, entries: list[c.Entry], further: Sequence[Further]) -> None:
        if entries:
            self._resume(replace(command, entries=entries), _size_of(entries))
            self._further.publish(further)

    def _enlist(self, held: Held, command: c.Enlist) -> None:
        peer, transaction = command.peer, command.transaction
        indexes = range(len(held.entries))
        refusal = next(filter(None, map(held.refused, indexes)), None)
        if refusal is not None:
            self._resume(c.MarkRollbackOnly(peer, transaction, refusal))
            if command.confirm and command.receipt is not None:
                self._resume(c.Refuse(peer, command.receipt, refusal))
            return
        assert isinstance(command.command, c.Publish)
        publish = replace(command.command, entries=[held.entry(index) for index in indexes])
        self._resume(replace(command, command=publish), held.size)
        further = [one for index in indexes for one in _further(held, index)]
        if further:
            inner = self._further.command(further)
            self._resume(c.Enlist(peer, transaction, inner), _size_of(inner.entries))

    def _forward(self, held: Held, command: c.Forward) -> None:
        """Continue a run of a flow, up to the first message that is refused."""
        entries: list[c.Entry] = []
        further: list[Further] = []
        refusal = None
        for index in range(len(held.entries)):
            refusal = held.refused(index)
            if refusal is not None:
                break
            entries.append(held.entry(index))
            further += _further(held, index)
        count = len(entries)
        self._resume_forward(command, entries, command.positions[:count])
        if held.line is None or command.flow not in held.line.broken_flows:
            self._further.publish(further)
        if refusal is not None:
            receipt = held.entries[count][2]
            self._resume(c.BreakFlow(command.peer, command.flow, refusal, receipt))
            self._line_of(held, command.peer).broken_flows.add(command.flow)
            self._resume_forward(command, held.entries[count + 1 :], command.positions[count + 1 :])

    def _resume_forward(
        self, command: c.Forward, entries: Sequence[c.Entry], positions: Sequence[int]
    ) -> None:
        if entries:
            self._resume(
                c.Forward(command.peer, command.flow, list(entries), list(positions)), _size_of(entries)
            )

    # ------------------------------------------------------------------ end

    def forget_connections(self) -> None:
        """Watch no connection any more, because there are no declarations and nothing is held."""
        self._lines.clear()

    async def wait_idle(self) -> None:
        """Wait until nothing is held."""
        while self.held:
            future = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future


def _stored_before(command: c.Forward) -> set[int]:
    """The indexes of messages up to the offset of their flow: they are stored already."""
    flow = command.peer.flows.get(command.flow)
    if flow is None:
        return set()
    reached = flow.offset.position
    return {index for index, position in enumerate(command.positions) if position <= reached}


def _further(held: Held, index: int) -> list[Further]:
    outcome = held.outcomes.get(index)
    return outcome.further if outcome is not None else []


def _refusal(subject: MessageSubject, outcome: Outcome) -> Refused:
    """The refusal that the sender of a message receives."""
    detail = f"the message to {subject.address} was refused by reflex {outcome.reflex}: {outcome.reason}"
    facts: dict[str, object] = {"reflex": outcome.reflex, "reason": outcome.reason, **outcome.facts}
    return Refused("filtered", detail, **facts)


def _size_of(entries: Sequence[c.Entry]) -> int:
    return sum(len(body) + envelope.overhead_bytes for envelope, body, _ in entries)
