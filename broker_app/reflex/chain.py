"""Chains: the declarations that are asked about one message or registration, in their order.

The first that refuses ends the chain. A function that fails refuses as well, unless its declaration has
`on_failure: accept`. Headers that one changes are seen by those behind it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from broker_app.base.refused import Refused
from broker_app.core.message import Envelope
from broker_app.reflex.api import ACCEPT, NewMessage, Verdict, refuse
from broker_app.reflex.declaration import ARRIVAL, Declaration
from broker_app.reflex.declaration import REFUSE as REFUSE_ON_FAILURE
from broker_app.reflex.libraries import wire
from broker_app.reflex.libraries.library_client import CallFailure, LibraryClient, Request
from broker_app.reflex.statistics import DeclarationStatistics
from broker_app.reflex.subject import Called, MessageSubject, Subject

#: the reason that senders get for a function that failed; operators see more in the log
FAILED = "it failed; the log of the broker has the details"


class HeaderBlocks(Protocol):
    """Makes envelopes of headers. Raises Refused for headers that are not valid."""

    def make(self, destination: str, headers: Mapping[str, str]) -> Envelope:
        """The envelope of a message to `destination` with these headers."""

    def change(self, envelope: Envelope, changes: Mapping[str, str | None]) -> Envelope:
        """The envelope of the same message with changed headers."""


class Decision(NamedTuple):
    """The decision of one step: the verdict, whether it stands for a failure, and the time that it took."""

    verdict: Verdict
    failure: str = ""
    micros: int = 0


class StepDone(Protocol):
    """Takes the decision of a step."""

    def __call__(self, decision: Decision) -> None: ...


class ChainStep(ABC):
    """One declaration, ready to be asked."""

    def __init__(self, declaration: Declaration, statistics: DeclarationStatistics) -> None:
        self.declaration = declaration
        self.statistics = statistics

    @abstractmethod
    def ask(self, subject: Subject, done: StepDone, *, trial: bool) -> Decision | None:
        """Return the decision, or None: then `done` gets it later. A `trial` has no lasting effect in the
        broker."""

    def failed(self, reason: str, micros: int = 0) -> Decision:
        """The decision when the function failed."""
        refuses = self.declaration.on_failure == REFUSE_ON_FAILURE
        return Decision(refuse(FAILED) if refuses else ACCEPT, reason, micros)


#: a function that runs in the broker: returns at once, and has no lasting effect in a trial
InBroker = Callable[[Subject, bool], Verdict]


class InBrokerStep(ChainStep):
    """A function of MOM that computes little."""

    def __init__(
        self, declaration: Declaration, statistics: DeclarationStatistics, function: InBroker
    ) -> None:
        super().__init__(declaration, statistics)
        self._function = function

    def ask(self, subject: Subject, done: StepDone, *, trial: bool) -> Decision:
        began = time.perf_counter_ns()
        try:
            verdict = self._function(subject, trial)
        except (Refused, ValueError) as error:
            return self.failed(str(error))
        return Decision(verdict, micros=(time.perf_counter_ns() - began) // 1_000)


class InBrokerServiceStep(ChainStep):
    """A local service of MOM; its consumer does the work."""

    def ask(self, subject: Subject, done: StepDone, *, trial: bool) -> Decision:
        return Decision(ACCEPT)


class UnusableStep(ChainStep):
    """A declaration that cannot be carried out, for a `reason`."""

    def __init__(self, declaration: Declaration, statistics: DeclarationStatistics, reason: str) -> None:
        super().__init__(declaration, statistics)
        self.reason = reason

    def ask(self, subject: Subject, done: StepDone, *, trial: bool) -> Decision:
        return self.failed(self.reason)


class ProcessStep(ChainStep):
    """A function of a library, which runs in a process."""

    def __init__(
        self, declaration: Declaration, statistics: DeclarationStatistics, client: LibraryClient
    ) -> None:
        super().__init__(declaration, statistics)
        self.client = client
        self.number = client.add(declaration.kind, declaration.function, dict(declaration.options))

    def ask(self, subject: Subject, done: StepDone, *, trial: bool) -> Decision | None:
        failure = self.call(subject, lambda result: done(self._decision(result)))
        return self._decision(failure) if failure is not None else None

    def call(
        self, subject: Called, done: Callable[[wire.CallResult | CallFailure], None], *, once: bool = False
    ) -> CallFailure | None:
        """Call the function, perhaps again if its process ends, unless `once`; returns the failure if it is
        not called."""
        limit_s = self.declaration.time_limit_s
        return self.client.call(Request(self.number, subject, limit_s, done, once=once))

    def _decision(self, result: wire.CallResult | CallFailure) -> Decision:
        if isinstance(result, CallFailure):
            return self.failed(result.reason)
        if result.error:
            return self.failed(result.error, result.micros)
        return Decision(_verdict(result), micros=result.micros)


def _verdict(result: wire.CallResult) -> Verdict:
    messages = tuple(NewMessage(one.destination, one.body, one.headers) for one in result.messages)
    return Verdict(
        result.accepted,
        result.reason,
        result.headers,
        messages,
        frozenset(result.marks),
        result.retry_s,
        result.facts,
    )


class Further(NamedTuple):
    """A message to be published, and the step whose function asked for it."""

    step: ChainStep
    envelope: Envelope
    body: bytes


@dataclass(slots=True)
class Outcome:
    """The outcome of a chain; of a refusal, the `step`, its reason and further facts."""

    accepted: bool = True
    step: ChainStep | None = None
    reason: str = ""
    facts: dict[str, object] = field(default_factory=dict)
    further: list[Further] = field(default_factory=list)
    marks: frozenset[str] = frozenset()
    #: whether headers were changed: the subject has another envelope
    changed: bool = False

    @property
    def reflex(self) -> str:
        """The name of the reflex that refused."""
        return self.step.declaration.name if self.step is not None else ""


#: shows each step of a trial
Trace = Callable[[ChainStep, Decision], None]


class Evaluation:
    """The evaluation of one chain. `done` gets its outcome, unless `run` returns it."""

    __slots__ = ("_at", "_blocks", "_done", "_outcome", "_steps", "_subject", "_trace")

    def __init__(
        self,
        steps: Sequence[ChainStep],
        subject: Subject,
        blocks: HeaderBlocks,
        done: Callable[[Outcome], None],
        trace: Trace | None = None,
    ) -> None:
        self._steps = steps
        self._subject = subject
        self._blocks = blocks
        self._done = done
        self._trace = trace
        self._at = 0
        self._outcome = Outcome()

    def run(self) -> Outcome | None:
        """Ask until a step has to wait for its function; None: `done` will be called."""
        steps, count = self._steps, len(self._steps)
        while self._at < count:
            decision = steps[self._at].ask(self._subject, self._decided, trial=self._trace is not None)
            if decision is None:
                return None
            if not self._take(decision):
                break
        return self._outcome

    def _decided(self, decision: Decision) -> None:
        outcome = self._outcome if not self._take(decision) else self.run()
        if outcome is not None:
            self._done(outcome)

    def _take(self, decision: Decision) -> bool:
        """Apply a decision; returns whether the chain goes on."""
        step = self._steps[self._at]
        if decision.verdict.accepted and not decision.failure:
            decision = self._apply(step, decision)
        verdict, outcome = decision.verdict, self._outcome
        if self._trace is not None:
            self._trace(step, decision)
        elif decision.failure:
            step.statistics.failed(step.declaration, decision.failure)
        else:
            step.statistics.decided(decision.micros, accepted=verdict.accepted)
        self._at += 1
        if verdict.accepted:
            return True
        outcome.accepted, outcome.step, outcome.reason = False, step, verdict.reason
        outcome.facts = dict(verdict.facts)
        if self._trace is None:
            reason = decision.failure or verdict.reason
            step.statistics.refusal_events.note(
                step.declaration, self._subject, reason, failed=bool(decision.failure)
            )
        if verdict.retry_s:
            outcome.facts["retry_s"] = round(verdict.retry_s, 3)
        outcome.further = []
        return False

    def _apply(self, step: ChainStep, decision: Decision) -> Decision:
        """Apply headers, messages and marks; an invalid one is a failure of the function."""
        verdict, outcome, subject = decision.verdict, self._outcome, self._subject
        if not (verdict.headers or verdict.messages or verdict.marks):
            return decision
        try:
            further = [
                Further(step, self._blocks.make(one.destination, one.headers), one.body)
                for one in verdict.messages
            ]
            if verdict.headers:
                if not isinstance(subject, MessageSubject) or step.declaration.kind != ARRIVAL:
                    raise Refused("invalid", "only an arrival reflex can change headers")
                subject.replaced(self._blocks.change(subject.envelope, verdict.headers))
                outcome.changed = True
        except Refused as refusal:
            return step.failed(refusal.detail, decision.micros)
        outcome.further += further
        outcome.marks |= verdict.marks
        return decision
