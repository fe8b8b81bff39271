"""Tests of reflexes without a broker and without processes.

    from broker_app.reflex.testing import Harness
    import my_filters

    def test_large_orders_are_refused() -> None:
        chain = Harness("F orders my_filters * only_small", libraries={"my_filters": my_filters})
        result = chain.arrive("orders", b"x" * 2_000)
        assert not result.accepted
        assert result.reason == "at most 1,000 bytes"

Functions run in the process of the test, and time limits are not kept. The hook `mom_started` of a library is
called when a harness is made that needs it, `mom_stopping` by `close`, or at the end of
`with Harness(…) as chain`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final, Self

from broker_app.core import header_block
from broker_app.core.destination import of_name, parse
from broker_app.core.message import Envelope
from broker_app.reflex import cnf
from broker_app.reflex.api import ACCEPT, Answer, NewMessage, Verdict
from broker_app.reflex.chain import (
    ChainStep,
    Decision,
    Evaluation,
    InBrokerStep,
    Outcome,
    StepDone,
    UnusableStep,
)
from broker_app.reflex.chains import MessageChains, RegistrationChains
from broker_app.reflex.channel_call import ChannelCall, Handled, ResponseChannel
from broker_app.reflex.declaration import (
    ARRIVAL,
    CHANNEL,
    DELIVERY,
    DEREGISTRATION,
    REGISTRATION,
    SERVICE,
    Declaration,
)
from broker_app.reflex.functions import Bound, Library
from broker_app.reflex.libraries import library_loader
from broker_app.reflex.registration import Registration
from broker_app.reflex.shipped import table
from broker_app.reflex.shipped.context import Context
from broker_app.reflex.statistics import DeclarationStatistics
from broker_app.reflex.subject import MessageSubject, RegistrationSubject, Subject
from broker_app.telemetry.event_log import EventLog
from mom_client.stomp.encode import encode_headers

#: the failure of a local service of MOM
_NEEDS_BROKER: Final = "{} works on the queues of a broker, so it can be tested with a broker only"


@dataclass(frozen=True, slots=True)
class Asked:
    """One reflex that was asked, and what it decided; `failure` is the reason when its function failed."""

    name: str
    accepted: bool
    reason: str = ""
    failure: str = ""


@dataclass(slots=True)
class Result:
    """The outcome of a chain: `reflex` refused for a `reason`; `headers` are those of the message at the end.

    `asked` are the reflexes in the order in which they were asked."""

    accepted: bool
    reflex: str = ""
    reason: str = ""
    facts: dict[str, object] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    messages: list[NewMessage] = field(default_factory=list)
    marks: frozenset[str] = frozenset()
    asked: list[Asked] = field(default_factory=list)
    answer: bytes | None = None
    answer_headers: dict[str, str] = field(default_factory=dict)


class Harness:
    """Runs chains. Declarations are lines of a file, or objects; libraries are modules by name, or are loaded
    from `directory` and from entry points.

    `events` is the event log that reflexes write to; `main_active` the address of another active broker.
    Raises what the hook `mom_started` of a library raises."""

    def __init__(
        self,
        declarations: str | Sequence[Declaration],
        *,
        libraries: Mapping[str, ModuleType | object] | None = None,
        directory: str = "",
        data: Path = Path("."),
        main_active: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        found = cnf.parse(declarations, "test.cnf") if isinstance(declarations, str) else declarations
        self.declarations = list(found)
        self.events = EventLog(time.time)
        self._context = Context("test", data, self.events, lambda: main_active, clock)
        self._directory = directory
        self._given = {name: Library(name, module) for name, module in (libraries or {}).items()}
        #: those that were started
        self._libraries: dict[str, Library] = {}
        self._steps = steps = [self._step(one) for one in self.declarations if one.enabled]
        self._chains = {kind: MessageChains(kind, steps) for kind in (ARRIVAL, DELIVERY, SERVICE)}
        self._registrations = {
            kind: RegistrationChains(kind, steps) for kind in (REGISTRATION, DEREGISTRATION)
        }

    def _step(self, declaration: Declaration) -> ChainStep:
        statistics = DeclarationStatistics(self.events, self._context.clock)
        fault = table.fault(declaration.kind, declaration.library, declaration.function, declaration.options)
        if fault is not None:
            return UnusableStep(declaration, statistics, f"{fault[0]}: {fault[1]}")
        shipped = table.find(declaration.library, declaration.function)
        if shipped is not None:
            if shipped.make is None:
                return UnusableStep(declaration, statistics, _NEEDS_BROKER.format(declaration.function))
            return InBrokerStep(declaration, statistics, shipped.make(declaration, self._context))
        library = self._library(library_loader.canonical(declaration.library))
        if isinstance(library, str):
            return UnusableStep(declaration, statistics, library)
        try:
            return _DirectStep(declaration, statistics, library.bind(declaration.kind, declaration.function))
        except (LookupError, TypeError) as error:
            return UnusableStep(declaration, statistics, str(error))

    def _library(self, name: str) -> Library | str:
        """A library, which is started when it is needed first; the error if there is none of this name."""
        if name not in self._libraries:
            try:
                library = self._given.get(name) or library_loader.load(name, self._directory)
            except LookupError as error:
                return str(error)
            library.started()
            self._libraries[name] = library
        return self._libraries[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Call the hook `mom_stopping` of the libraries, as their processes do in the end."""
        libraries, self._libraries = self._libraries, {}
        for library in libraries.values():
            library.stopping()

    # ------------------------------------------------------------------ what happens

    def arrive(
        self, service: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *, user: str = ""
    ) -> Result:
        """A message arrives for a queue, or for an address such as `/topic/t`."""
        return self._message(ARRIVAL, service, body, headers or {}, user)

    def deliver(
        self, service: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *, user: str = ""
    ) -> Result:
        """A message is to be delivered to `user`."""
        return self._message(DELIVERY, service, body, headers or {}, user)

    def register(self, registration: Registration) -> Result:
        """A service registers."""
        steps = self._registrations[REGISTRATION].find(registration.name)
        return self._run(steps, RegistrationSubject(registration))

    def deregister(self, registration: Registration) -> None:
        """A registration has ended."""
        for step in self._registrations[DEREGISTRATION].find(registration.name):
            self._run((step,), RegistrationSubject(registration))

    def serve(self, service: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Result:
        """A local service gets a message; its first function for this event is called."""
        return self._message(SERVICE, service, body, headers or {}, "", most=1)

    def handle(self, *parts: bytes, site: str = "test", multiple: bool = False) -> Handled:
        """The first handler of message channels gets a request. Returns its channel, with the answer."""
        step = next(one for one in self._steps if one.declaration.kind == CHANNEL)
        assert isinstance(step, _DirectStep), "this handler cannot be called"
        channel = ResponseChannel(site, need_response=True, multiple=multiple)
        handled = step.function(ChannelCall(channel, list(parts), True), step.declaration.options)
        assert isinstance(handled, Handled)
        return handled

    # ------------------------------------------------------------------ how it is decided

    def _message(
        self, kind: str, service: str, body: bytes, headers: Mapping[str, str], user: str, most: int = 1_000
    ) -> Result:
        address = of_name(service).address
        envelope = _Blocks().make(address, headers)
        subject = MessageSubject(address, headers.get("type", ""), envelope, body, user)
        return self._run(self._chains[kind].find(address, envelope)[:most], subject)

    @staticmethod
    def _run(steps: Sequence[ChainStep], subject: Subject) -> Result:
        asked: list[Asked] = []

        def note(step: ChainStep, decision: Decision) -> None:
            verdict = decision.verdict
            asked.append(Asked(step.declaration.name, verdict.accepted, verdict.reason, decision.failure))

        noted = tuple(_NotedStep(step, note) for step in steps)
        outcome = Evaluation(noted, subject, _Blocks(), lambda outcome: None).run()
        assert outcome is not None, "functions are called in this process"
        answer = next((one.answer for one in steps if isinstance(one, _DirectStep)), None)
        return _result(outcome, subject, asked, answer)


def _result(outcome: Outcome, subject: Subject, asked: list[Asked], answer: Answer | None) -> Result:
    return Result(
        outcome.accepted,
        outcome.reflex,
        outcome.reason,
        outcome.facts,
        dict(subject.headers) if isinstance(subject, MessageSubject) else {},
        [
            NewMessage(one.envelope.address, one.body, header_block.headers(one.envelope.block))
            for one in outcome.further
        ],
        outcome.marks,
        asked,
        answer.body if answer is not None else None,
        answer.headers if answer is not None else {},
    )


class _DirectStep(ChainStep):
    """A function that is called in this process; `answer` is what it answered last, as a local service."""

    def __init__(self, declaration: Declaration, statistics: DeclarationStatistics, function: Bound) -> None:
        super().__init__(declaration, statistics)
        self.function = function
        self.answer: Answer | None = None

    def ask(self, subject: Subject, done: StepDone, *, trial: bool) -> Decision:
        self.answer = None
        given = subject.message() if isinstance(subject, MessageSubject) else subject.registration
        try:
            returned = self.function(given, self.declaration.options)
        except Exception as error:  # as in a process, whatever it is
            return self.failed(f"{type(error).__name__}: {error}")
        if isinstance(returned, Answer):
            self.answer = returned
            return Decision(ACCEPT)
        assert isinstance(returned, Verdict), "handlers of channels are in no chain"
        return Decision(returned)


class _NotedStep(ChainStep):
    """A step whose decision is noted."""

    def __init__(self, step: ChainStep, note: Callable[[ChainStep, Decision], None]) -> None:
        super().__init__(step.declaration, step.statistics)
        self._step = step
        self._note = note

    def ask(self, subject: Subject, done: StepDone, *, trial: bool) -> Decision | None:
        decision = self._step.ask(subject, done, trial=trial)
        if decision is not None:
            self._note(self._step, decision)
        return decision


class _Blocks:
    """Makes envelopes; headers are not checked against the limits of a broker."""

    def make(self, destination: str, headers: Mapping[str, str]) -> Envelope:
        """The envelope of a message to `destination`."""
        return Envelope(parse(destination).address, encode_headers(list(headers.items())))

    def change(self, envelope: Envelope, changes: Mapping[str, str | None]) -> Envelope:
        """The envelope with changed headers."""
        headers = {**header_block.headers(envelope.block), **changes}
        return self.make(
            envelope.address, {name: value for name, value in headers.items() if value is not None}
        )
