"""The reflexes of a node: the declarations of files and of the configuration, carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from broker_app.base.events import LIBRARY_FAILED, LIBRARY_RECOVERED
from broker_app.base.turns import in_turns
from broker_app.core.message import Envelope, Message
from broker_app.engine import Engine
from broker_app.reflex import report
from broker_app.reflex.arrival_filter import ArrivalFilter
from broker_app.reflex.chain import (
    ChainStep,
    Decision,
    Evaluation,
    HeaderBlocks,
    InBrokerServiceStep,
    Outcome,
    ProcessStep,
)
from broker_app.reflex.chains import NONE, MessageChains, RegistrationChains, Steps, type_of
from broker_app.reflex.declaration import (
    ARRIVAL,
    CHANNEL,
    DELIVERY,
    DEREGISTRATION,
    REGISTRATION,
    SERVICE,
    Declaration,
)
from broker_app.reflex.delivery_filter import DeliveryFilter
from broker_app.reflex.further import FurtherMessages
from broker_app.reflex.libraries.library_client import LibraryClient
from broker_app.reflex.local_services import LocalService, QueueConsumer
from broker_app.reflex.patterns import ServicePattern
from broker_app.reflex.registration import Registration, RegistrationVerdict
from broker_app.reflex.report import ReflexLibrary, ReflexStatus, ReflexStep, ReflexTrial
from broker_app.reflex.shipped.context import Context
from broker_app.reflex.shipped.copies import CopyDeletion, delete_copy
from broker_app.reflex.shipped.copy_deletion import CopyDeletionService
from broker_app.reflex.steps import StepRegistry
from broker_app.reflex.stored_trials import StoredTrial, try_stored
from broker_app.reflex.subject import MessageSubject, RegistrationSubject, Subject

#: messages of a bulk request whose chains run at a time
_AT_ONCE: Final = 500


class Settings(NamedTuple):
    """`directory` has the modules of libraries, empty for none; a process may use `memory_bytes`; the
    messages that wait for reflexes may have `held_bytes` together."""

    directory: str
    memory_bytes: int
    held_bytes: int


class Reflexes:
    """Carries out declarations: those `from_files` first, then those of `reload`."""

    def __init__(
        self,
        engine: Engine,
        context: Context,
        blocks: HeaderBlocks,
        settings: Settings,
        from_files: Sequence[Declaration] = (),
    ) -> None:
        self._engine = engine
        self._events = context.events
        self._blocks = blocks
        self._from_files = tuple(from_files)
        self._declarations: list[Declaration] = []
        self._registry = StepRegistry(
            context, settings.directory, settings.memory_bytes, self._library_changed
        )
        further = FurtherMessages(engine)
        self._deliveries = DeliveryFilter(engine, blocks, further, self._install)
        self._arrivals = ArrivalFilter(
            engine, blocks, further, settings.held_bytes, self._deliveries.receives, self._install
        )
        self._copies = CopyDeletion(engine, blocks, further, context.time)
        self._services: dict[str, tuple[list[ChainStep], QueueConsumer]] = {}
        self._chains: dict[str, MessageChains]
        self._registrations: dict[str, RegistrationChains]
        self._failed_libraries: set[str] = set()
        #: called with the functions that are handlers of message channels, when they have changed
        self.use_handlers: Callable[[Sequence[ProcessStep]], None] = lambda steps: None
        self._use([])

    # ------------------------------------------------------------------ configuration

    @property
    def declarations(self) -> list[Declaration]:
        """All, in their order."""
        return self._declarations

    def reload(self, declarations: Sequence[Declaration]) -> None:
        """Use these declarations, behind those of files. What has begun is ended as it began."""
        wanted = [*self._from_files, *declarations]
        if wanted != self._declarations:
            self._use(wanted)
        else:
            self._deliveries.use(self._chains[DELIVERY])  # queues of dead letters may have changed

    def _use(self, declarations: list[Declaration]) -> None:
        self._declarations = declarations
        self._registry.use(declarations)
        steps = list(self._registry.steps.values())
        self._chains = {kind: MessageChains(kind, steps) for kind in (ARRIVAL, DELIVERY, SERVICE)}
        self._registrations = {
            kind: RegistrationChains(kind, steps) for kind in (REGISTRATION, DEREGISTRATION)
        }
        self._arrivals.chains = self._chains[ARRIVAL]
        self._deliveries.use(self._chains[DELIVERY])
        self._install()
        self._copies.use(
            step
            for step in steps
            if step.declaration.kind == DELIVERY and step.declaration.function == delete_copy.__name__
        )
        self._use_services([step for step in steps if step.declaration.kind == SERVICE])
        self.use_handlers(
            [step for step in steps if step.declaration.kind == CHANNEL and isinstance(step, ProcessStep)]
        )

    def _install(self) -> None:
        """Be asked by the engine while there is something to ask, or to continue."""
        engine, arrivals, deliveries = self._engine, self._arrivals, self._deliveries
        wants_deliveries = deliveries.is_needed
        wants_commands = any((self._chains[ARRIVAL], self._chains[DELIVERY], arrivals.held))
        commands = tuple(one for one in engine.command_interceptors if one is not arrivals)
        others = tuple(one for one in engine.delivery_interceptors if one is not deliveries)
        if not wants_commands:
            arrivals.forget_connections()
        engine.intercept(
            (arrivals, *commands) if wants_commands else commands,
            # Behind others, which may replace a message by another one, whose chain is to be asked.
            (*others, deliveries) if wants_deliveries else others,
        )

    def _use_services(self, steps: Sequence[ChainStep]) -> None:
        wanted: dict[str, list[ChainStep]] = {}
        for step in steps:
            address = ServicePattern(step.declaration.service).address
            assert address is not None, "the name of a service has no wildcards"
            wanted.setdefault(address, []).append(step)
        for address, (of, consumer) in list(self._services.items()):
            if wanted.get(address) != of:
                consumer.stop()
                del self._services[address]
        for address, of in wanted.items():
            if address not in self._services:
                consumer = self._consumer(address, of)
                self._services[address] = of, consumer
                consumer.start()

    def _consumer(self, address: str, steps: list[ChainStep]) -> QueueConsumer:
        if isinstance(steps[0], InBrokerServiceStep):
            return CopyDeletionService(self._engine, address, steps[0])
        usable = [step for step in steps if isinstance(step, ProcessStep)]
        return LocalService(self._engine, self._blocks, address, usable)

    def restart(self, library: str) -> bool:
        """Start another process of a library, which loads its code again; False if it has none."""
        client = self._registry.clients.get(library)
        if client is not None:
            client.restart()
        return client is not None

    def recheck(self) -> None:
        """Filter subscriptions that were requested before the last `reload`; they exist by now."""
        self._deliveries.check_subscriptions()

    def _library_changed(self, client: LibraryClient) -> None:
        """Note in the event log that a library is not called any more, or is called again."""
        name, failed = client.name, client.breaker.is_open
        if failed and name not in self._failed_libraries:
            self._failed_libraries.add(name)
            self._events.report(LIBRARY_FAILED, name, detail=client.breaker.reason)
        elif not client.breaker.failures and name in self._failed_libraries:
            self._failed_libraries.discard(name)
            self._events.report(LIBRARY_RECOVERED, name)

    # ------------------------------------------------------------------ registrations

    def begin_registration(
        self, registration: Registration, done: Callable[[RegistrationVerdict], None]
    ) -> RegistrationVerdict | None:
        """The verdict about a registration; None if `done` gets it later."""
        steps = self._registrations[REGISTRATION].find(registration.name)
        if not steps:
            return RegistrationVerdict(True, registration)
        subject = RegistrationSubject(registration)
        outcome = Evaluation(
            steps, subject, self._blocks, lambda outcome: done(_verdict(registration, outcome))
        ).run()
        return None if outcome is None else _verdict(registration, outcome)

    async def register(self, registration: Registration) -> RegistrationVerdict:
        """The verdict about a registration. One whose caller is cancelled has ended when it is accepted."""
        decided: asyncio.Future[RegistrationVerdict] = asyncio.get_running_loop().create_future()

        def done(verdict: RegistrationVerdict) -> None:
            if not decided.done():
                decided.set_result(verdict)
            elif verdict.accepted:
                self.deregistered(verdict.registration)

        verdict = self.begin_registration(registration, done)
        return verdict if verdict is not None else await decided

    def deregistered(self, registration: Registration) -> None:
        """A registration has ended: call all functions that want to know."""
        for step in self._registrations[DEREGISTRATION].find(registration.name):
            Evaluation((step,), RegistrationSubject(registration), self._blocks, lambda outcome: None).run()

    # ------------------------------------------------------------------ bulk publishing

    def filters(self, address: str) -> bool:
        """Return whether messages that arrive for an address have a chain."""
        return bool(self._chains[ARRIVAL]) and self._chains[ARRIVAL].may_match(address)

    async def filter(
        self, rows: Sequence[tuple[Envelope, bytes]], user: str
    ) -> dict[int, tuple[Outcome, Envelope]]:
        """The outcomes of messages that have a chain, by index, each with the envelope that it has now."""
        found: dict[int, tuple[Outcome, Envelope]] = {}
        for start in range(0, len(rows), _AT_ONCE):
            outcomes = [
                self._outcome_of(envelope, body, user)
                async for envelope, body in in_turns(rows[start : start + _AT_ONCE])
            ]
            for index, waiting in enumerate(outcomes, start):
                if waiting is not None:
                    found[index] = await waiting
        return found

    def _outcome_of(
        self, envelope: Envelope, body: bytes, user: str
    ) -> asyncio.Future[tuple[Outcome, Envelope]] | None:
        steps = self._chains[ARRIVAL].find(envelope.address, envelope)
        if not steps:
            return None
        subject = MessageSubject(envelope.address, type_of(envelope.block), envelope, body, user)
        decided: asyncio.Future[tuple[Outcome, Envelope]] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if not decided.done():
                decided.set_result((outcome, subject.envelope))

        outcome = Evaluation(steps, subject, self._blocks, done).run()
        if outcome is not None:
            done(outcome)
        return decided

    # ------------------------------------------------------------------ reports

    def report(self) -> list[ReflexStatus]:
        """All declarations in their order, with state and statistics."""
        return [
            report.of_declaration(
                one, self._registry.steps.get(one.name), self._registry.statistics[one.name]
            )
            for one in self._declarations
        ]

    def libraries(self) -> list[ReflexLibrary]:
        """The libraries that run in processes."""
        return [report.of_library(client) for client in self._registry.clients.values()]

    def of_address(self, address: str) -> list[ReflexStatus]:
        """The reflexes that are asked about messages to an address, or deliver them, in their order."""
        found = {
            step.declaration.name
            for kind, chains in self._chains.items()
            if kind != DELIVERY or self._deliveries.is_filtered(address)
            for step in chains.all_of(address)
        }
        return [row for row in self.report() if row["name"] in found]

    async def trial(
        self, kind: str, address: str, headers: Mapping[str, str], body: bytes, user: str
    ) -> ReflexTrial:
        """The steps and the outcome of the chain of a message, which is not published. Raises Refused."""
        envelope = self._blocks.make(address, headers)
        subject = MessageSubject(envelope.address, type_of(envelope.block), envelope, body, user)
        steps = self._chains[kind].find(envelope.address, envelope)
        return await self._try(steps, subject)

    async def trial_of_stored(
        self,
        declarations: Sequence[Declaration],
        address: str,
        messages: Sequence[tuple[Message, bytes]],
        user: str,
    ) -> StoredTrial:
        """The decisions of declarations of one kind, which need not be used, about messages of a destination,
        each with its id."""
        async with self._registry.on_trial(declarations) as steps:
            chains = MessageChains(declarations[0].kind, steps)
            return await try_stored(chains, self._blocks, address, messages, user)

    async def trial_of_registration(self, registration: Registration) -> ReflexTrial:
        """The steps and the outcome of the chain of a registration."""
        steps = self._registrations[REGISTRATION].find(registration.name)
        return await self._try(steps, RegistrationSubject(registration))

    async def _try(self, steps: Steps, subject: Subject) -> ReflexTrial:
        asked: list[ReflexStep] = []

        def trace(step: ChainStep, decision: Decision) -> None:
            asked.append(report.of_step(step, decision))

        decided: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        outcome = Evaluation(steps or NONE, subject, self._blocks, decided.set_result, trace).run()
        outcome = outcome if outcome is not None else await decided
        not_asked = [report.not_asked(step) for step in steps[len(asked) :]]
        return report.of_trial(outcome, subject, [*asked, *not_asked])

    # ------------------------------------------------------------------ end

    async def finish(self, within_s: float) -> None:
        """Wait until what arrived is decided, or so long. What is not decided then was not acknowledged."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._arrivals.wait_idle()

    async def stop(self) -> None:
        """End services and processes. What is held is not delivered; it is still in its queue."""
        for _, consumer in self._services.values():
            consumer.stop()
        self._services.clear()
        self.use_handlers(())
        await self._copies.stop()
        await self._registry.stop()

    def on_events(self, events: Sequence[Any]) -> None:
        """Events of a batch of the core."""
        self._copies.on_events(events)


def _verdict(registration: Registration, outcome: Outcome) -> RegistrationVerdict:
    if outcome.accepted:
        return RegistrationVerdict(True, registration.with_marks(outcome.marks))
    facts = {"reflex": outcome.reflex, "reason": outcome.reason, **outcome.facts}
    return RegistrationVerdict(False, registration, outcome.reflex, outcome.reason, facts)
