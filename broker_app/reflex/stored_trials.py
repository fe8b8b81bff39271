"""Trials with stored messages: what reflexes would have decided about each. The messages stay as they are.

A library has a process of its own for the trial, so that one that fails, or is slow, delays no message that
arrives meanwhile, and does not count as a failure of the library.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Final, Literal, TypedDict

from broker_app.base.reply_types import Count, Time, about
from broker_app.base.times import of_ms
from broker_app.core.message import Message
from broker_app.reflex.chain import ChainStep, Decision, Evaluation, HeaderBlocks, Outcome, ProcessStep
from broker_app.reflex.chains import MessageChains, type_of
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.libraries.library_client import LibraryClient
from broker_app.reflex.subject import MessageSubject

#: messages of one trial, unless it asks for another number, and at most; and the bytes of their bodies
DEFAULT_MESSAGES: Final = 100
MOST_MESSAGES: Final = 1_000
MOST_BYTES: Final = 16 * 1024 * 1024
#: seconds that a trial may take
WITHIN_S: Final = 10.0
#: messages of each result that are named
NAMED: Final = 5


class TriedMessage(TypedDict):
    """A stored message, and the result that it would have had."""

    id: str
    time: Time
    reflex: Annotated[str | None, about("the one that would have refused it")]
    reason: str | None
    failure: Annotated[str | None, about("why a function failed; only operators see it")]
    headers: Annotated[dict[str, str | None], about("headers that would be set; null: removed")]


class TriedMessages(TypedDict):
    """The first messages of each result."""

    refused: list[TriedMessage]
    changed: list[TriedMessage]
    kept: list[TriedMessage]


class StoredTrial(TypedDict):
    """The results of a trial with stored messages. The four counts behind `messages` add up to it."""

    messages: Annotated[Count, about("that were tried, the newest of the destination first")]
    refused: Count
    changed: Annotated[Count, about("accepted with other headers")]
    kept: Annotated[Count, about("accepted as they are")]
    not_asked: Annotated[Count, about("whose address or type no reflex of the trial is for")]
    failures: Annotated[
        Count, about("messages for which a function failed; they are refused, or not, as well")
    ]
    further: Annotated[Count, about("further messages that would be published")]
    stopped: Annotated[
        Literal["time", "bytes", "failures"] | None,
        about("the limit at which it ended; failures: the library failed three times in a row"),
    ]
    first: TriedMessages


#: makes the step of a declaration, with a client for its library
MakeStep = Callable[[Declaration, Callable[[str], LibraryClient]], ChainStep]
MakeClient = Callable[[str], LibraryClient]


@asynccontextmanager
async def steps_on_trial(
    declarations: Sequence[Declaration], make: MakeStep, make_client: MakeClient
) -> AsyncIterator[list[ChainStep]]:
    """The steps of declarations, with processes of their own, which end with the trial."""
    clients: dict[str, LibraryClient] = {}

    def client_of(library: str) -> LibraryClient:
        if library not in clients:
            clients[library] = make_client(library)
        return clients[library]

    steps = [make(declaration, client_of) for declaration in declarations]
    try:
        for client in clients.values():
            client.keep(
                step.number for step in steps if isinstance(step, ProcessStep) and step.client is client
            )
        yield steps
    finally:
        await asyncio.gather(*(client.stop() for client in clients.values()))


class _Trial:
    """The results so far."""

    def __init__(self, chains: MessageChains, blocks: HeaderBlocks, user: str) -> None:
        self._chains = chains
        self._blocks = blocks
        self._user = user
        self.found: StoredTrial = {
            "messages": 0, "refused": 0, "changed": 0, "kept": 0, "not_asked": 0, "failures": 0,
            "further": 0, "stopped": None, "first": {"refused": [], "changed": [], "kept": []},
        }  # fmt: skip

    async def ask(self, address: str, message: Message, message_id: bytes) -> bool:
        """Ask about one message, and count its result. False if a library is not called any more."""
        found, envelope = self.found, message.envelope
        steps = self._chains.find(address, envelope)
        if not steps:
            found["messages"] += 1
            found["not_asked"] += 1
            return True
        subject = MessageSubject(
            *(address, type_of(envelope.block), envelope, message.body, self._user),
            *(message_id, message.attempts + 1),
        )
        before, failures = subject.headers, list[str]()

        def trace(step: ChainStep, decision: Decision) -> None:
            if decision.failure:
                failures.append(decision.failure)

        decided: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        outcome = Evaluation(steps, subject, self._blocks, decided.set_result, trace).run()
        outcome = outcome if outcome is not None else await decided
        self._count(outcome, _row(message, message_id, outcome, failures, before, subject.headers))
        return not any(isinstance(step, ProcessStep) and step.client.breaker.is_open for step in steps)

    def _count(self, outcome: Outcome, row: TriedMessage) -> None:
        found = self.found
        found["messages"] += 1
        found["failures"] += row["failure"] is not None
        found["further"] += len(outcome.further)
        if not outcome.accepted:
            found["refused"] += 1
            rows = found["first"]["refused"]
        elif row["headers"]:
            found["changed"] += 1
            rows = found["first"]["changed"]
        else:
            found["kept"] += 1
            rows = found["first"]["kept"]
        if len(rows) < NAMED:
            rows.append(row)


def _row(
    message: Message,
    message_id: bytes,
    outcome: Outcome,
    failures: list[str],
    before: dict[str, str],
    after: dict[str, str],
) -> TriedMessage:
    names = dict.fromkeys((*before, *after))
    changes = {name: after.get(name) for name in names if after.get(name) != before.get(name)}
    return {
        "id": message_id.decode(),
        "time": of_ms(message.time_ms) or "",
        "reflex": outcome.reflex or None,
        "reason": outcome.reason or None,
        "failure": failures[0] if failures else None,
        "headers": changes if outcome.accepted else {},
    }


async def try_stored(
    chains: MessageChains,
    blocks: HeaderBlocks,
    address: str,
    messages: Sequence[tuple[Message, bytes]],
    user: str,
    within_s: float = WITHIN_S,
) -> StoredTrial:
    """Ask a chain about messages of a destination, each with its id, one after the other; within a time."""
    trial = _Trial(chains, blocks, user)
    try:
        async with asyncio.timeout(within_s):
            for message, message_id in messages:
                if not await trial.ask(address, message, message_id):
                    trial.found["stopped"] = "failures"
                    break
                await asyncio.sleep(0)  # functions within the broker return at once: others have their turn
    except TimeoutError:
        trial.found["stopped"] = "time"
    return trial.found
