"""A probe of the owners of journals while members fail: it asks the members, the leases and the registry.

An answer is true at some time between its question and its arrival. So a member is certain to serve a journal
that is another's when it is asked after an answer with a later epoch of the journal has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import httpx

from broker_app.features.enhanced_cluster.registry import Registry, RegistryContent
from broker_app.journal.errors import JournalError
from broker_app.journal.store import LeaseState, Store
from tests.enhanced_cluster.members import MemberProcess
from tests.support.mirrors import accepts
from tests.support.patience import patient

#: seconds between two questions, and for the answer to one: a member that is paused is asked again
_PAUSE_S: Final = 0.2
_ANSWER_S: Final = 1.0


class Sighting(NamedTuple):
    """The owner of a journal in an epoch, and when that was asked and answered."""

    journal: str
    epoch: int
    member: str
    asked_at: float
    answered_at: float


class Process(NamedTuple):
    """One run of a member."""

    member: str
    pid: int


class Login(NamedTuple):
    """A login that a member accepted, by which it serves its own journal, and when."""

    process: Process
    asked_at: float
    answered_at: float


class OwnersProbe:
    """Asks again and again. `make_store` makes the store of a journal."""

    def __init__(
        self, brokers: Sequence[MemberProcess], registry: Registry, make_store: Callable[[str], Store]
    ) -> None:
        self._brokers = brokers
        self._registry = registry
        self._make_store = make_store
        self._stores: dict[str, Store] = {}
        self._logins: list[Login] = []
        #: the own journal of each run with its epoch
        self._own: dict[Process, tuple[str, int]] = {}
        #: by members and leases; by the notes of the registry, which come after the leases
        self.served: list[Sighting] = []
        self.noted: list[Sighting] = []
        #: those that took a journal over in an epoch
        self.takers: defaultdict[tuple[str, int], set[str]] = defaultdict(set)

    async def run(self) -> None:
        """Probe until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(_again_and_again(self._look_at_store))
            for broker in self._brokers:
                group.create_task(self._ask(broker))

    def started(self, broker: MemberProcess) -> None:
        """Note which journal a member serves that has just been started. Blocks."""
        notes = [seen.note for seen in self._registry.read().journals if seen.note.member == broker.data.name]
        note = max(notes, key=lambda note: note.generation)
        if note.holder == note.member:  # or it is taken over already
            self._own[process_of(broker)] = note.journal, note.epoch

    def close(self) -> None:
        """Close the connections to the stores."""
        for store in self._stores.values():
            store.release()

    # ------------------------------------------------------------------ questions

    async def _ask(self, broker: MemberProcess) -> None:
        async with broker.rest() as http, asyncio.TaskGroup() as group:
            group.create_task(_again_and_again(lambda: self._log_in(broker)))
            group.create_task(_again_and_again(lambda: self._ask_for_adopted(broker, http)))

    async def _log_in(self, broker: MemberProcess) -> None:
        process, asked_at = process_of(broker), time.monotonic()
        if await accepts(broker, patient(_ANSWER_S)) and process_of(broker) == process:
            self._logins.append(Login(process, asked_at, time.monotonic()))

    async def _ask_for_adopted(self, broker: MemberProcess, http: httpx.AsyncClient) -> None:
        asked_at = time.monotonic()
        with contextlib.suppress(httpx.HTTPError):
            reply = await http.get("/cluster", timeout=patient(_ANSWER_S))
            if reply.is_success:
                answered_at = time.monotonic()
                self.served += [
                    Sighting(one["journal"], one["epoch"], broker.data.name, asked_at, answered_at)
                    for one in reply.json()["adopted"]
                ]

    async def _look_at_store(self) -> None:
        with contextlib.suppress(JournalError):
            asked_at = time.monotonic()
            content = await asyncio.to_thread(self._registry.read)
            self._note(content, asked_at, time.monotonic())
            journals = {seen.note.journal for seen in content.journals if seen.note.state != "drained"}
            # Each has connections, of which a store has a limited number.
            for former in self._stores.keys() - journals:
                self._stores.pop(former).release()
            for journal in journals:
                asked_at = time.monotonic()
                lease = await asyncio.to_thread(self._lease, journal)
                if lease is not None and lease.left_s > 0:
                    holder = self._member_at(lease.holder.address)
                    self.served.append(Sighting(journal, lease.epoch, holder, asked_at, time.monotonic()))

    def _lease(self, journal: str) -> LeaseState | None:
        if journal not in self._stores:
            self._stores[journal] = self._make_store(journal)
        return self._stores[journal].lease()

    def _note(self, content: RegistryContent, asked_at: float, answered_at: float) -> None:
        self.noted += [
            Sighting(seen.note.journal, seen.note.epoch, seen.note.holder, asked_at, answered_at)
            for seen in content.journals
        ]
        for takeover, _ in content.takeovers:
            if takeover.result == "complete":
                self.takers[takeover.journal, takeover.epoch].add(takeover.taker)

    def _member_at(self, addresses: str) -> str:
        """The member whose clients connect to an address."""
        ports = {address.rpartition(":")[2].partition("/")[0] for address in addresses.split(",")}
        (name,) = {one.data.name for one in self._brokers if ports & {str(one.stomp_port), str(one.port)}}
        return name

    # ------------------------------------------------------------------ findings

    def faults(self) -> list[str]:
        """The journals that two members have had at once, in words."""
        served = [*self.served, *self._by_logins()]
        return [
            *shared_epochs(served, self.noted, self.takers),
            *late_owners(served),
            *late_owners(self.noted),
        ]

    def _by_logins(self) -> Iterator[Sighting]:
        for process, asked_at, answered_at in self._logins:
            if process in self._own:
                yield Sighting(*self._own[process], process.member, asked_at, answered_at)


def process_of(broker: MemberProcess) -> Process:
    """The present run of a member."""
    return Process(broker.data.name, broker.pid)


def shared_epochs(
    served: Iterable[Sighting], noted: Iterable[Sighting], takers: dict[tuple[str, int], set[str]]
) -> Iterator[str]:
    """The epochs of journals that more than one member had."""
    owners: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for one in (*served, *noted):
        owners[one.journal, one.epoch].add(one.member)
    for key, found in takers.items():
        owners[key] |= found
    for (journal, epoch), members in owners.items():
        if len(members) > 1:
            yield f"{' and '.join(sorted(members))} had {journal} in epoch {epoch}"


def late_owners(sightings: Sequence[Sighting]) -> Iterator[str]:
    """Those that were asked after a later epoch of the same journal was known."""
    answered = sorted(sightings, key=lambda one: one.answered_at)
    newest: dict[str, Sighting] = {}
    at = 0
    for one in sorted(sightings, key=lambda one: one.asked_at):
        while answered[at].answered_at < one.asked_at:
            known = answered[at]
            if known.journal not in newest or newest[known.journal].epoch < known.epoch:
                newest[known.journal] = known
            at += 1
        before = newest.get(one.journal, one)
        if before.epoch > one.epoch:
            later_s = one.asked_at - before.answered_at
            yield (
                f"{one.member} had {one.journal} in epoch {one.epoch}, {later_s:.3f} s after "
                f"{before.member} had it in epoch {before.epoch}"
            )


async def _again_and_again(ask: Callable[[], Awaitable[None]]) -> None:
    while True:
        await ask()
        await asyncio.sleep(_PAUSE_S)
