"""Home-made mirroring: copies of messages for another broker, and their deletion when the originals end.

    F stock mom * copy_to_broker      publishes a copy into the store-and-forward queue of a bridge
    G stock mom * delete_copy         reports to the other broker which copies are not needed any more

Both messages have the header `mom-copy-id`. A copy is published in the same run as its original. A crash may
leave a copy behind, and never loses a message.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core import header_block
from broker_app.core.destination import DEAD_SUFFIX
from broker_app.core.durability import records
from broker_app.core.durability.record_reader import Reader
from broker_app.core.message import Message
from broker_app.core.outcome import Event, MessagesEnded
from broker_app.engine import Engine
from broker_app.engine.read_budget import READ_POSITIONS
from broker_app.journal.errors import JournalError
from broker_app.reflex.api import ACCEPT, NewMessage, Verdict, accept, service_of
from broker_app.reflex.chain import ChainStep, Further, HeaderBlocks, InBroker
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.further import FurtherMessages
from broker_app.reflex.patterns import ServicePattern
from broker_app.reflex.shipped.context import Context
from broker_app.reflex.shipped.options import Option, text
from broker_app.reflex.subject import MessageSubject, Subject
from mom_client import storeandforward

log = logging.getLogger(__name__)

COPY_ID: Final = "mom-copy-id"
#: of a request to delete copies: the queue that they are in
COPY_QUEUE: Final = "mom-copy-queue"
#: the service of the other broker that deletes copies
DELETE_COPY: Final = "RE_deleteCopy"
#: ids of one request
MAX_IDS: Final = 500
#: what ends a message for good. Copies expire by themselves; dead letters and moved messages are still there
_FINAL: Final = frozenset(
    records.CAUSES[cause] for cause in (records.ACKNOWLEDGED, records.DISCARDED, records.PURGED)
)
#: headers that a copy does not have
_NOT_COPIED: Final = frozenset(("dedup-id", "_AMQ_DUPL_ID", "message-deduplication-id"))

COPY_OPTIONS: Final = (
    Option("broker", "the name of the bridge to the other broker", text, required=True),
    Option("queue", "the queue there; else the one of the same name", text),
)
DELETE_OPTIONS: Final = (
    Option("broker", "the name of the bridge to the other broker", text, required=True),
    Option("queue", "the queue there that the copies are in; else the one of the same name", text),
)


def copy_to_broker(declaration: Declaration, context: Context) -> InBroker:
    """Publish a copy of each persistent message that is no copy itself."""
    options = declaration.options
    number = 0
    prefix = f"{context.name}-{secrets.token_hex(6)}"

    def decide(subject: Subject, trial: bool) -> Verdict:
        nonlocal number
        assert isinstance(subject, MessageSubject)
        envelope, headers = subject.envelope, subject.headers
        if not envelope.persistent or COPY_ID in headers:
            return ACCEPT
        number += 1
        copy_id = f"{prefix}-{number:x}"
        queue = str(options.get("queue") or service_of(subject.address))
        target = storeandforward.forwarded(str(options["broker"]), queue).address
        copied = {name: value for name, value in headers.items() if name not in _NOT_COPIED}
        copied[COPY_ID] = copy_id
        if envelope.options is not None and envelope.options.is_delayed:
            copied["deliver-at"] = str(envelope.options.due_at(round(1000 * context.time())))
        return accept(headers={COPY_ID: copy_id}, messages=(NewMessage(target, subject.body, copied),))

    return decide


def delete_copy(declaration: Declaration, context: Context) -> InBroker:
    """Accept; `CopyDeletion` hears of the end of messages."""
    return lambda subject, trial: ACCEPT


class _Watched:
    """A `delete_copy` declaration."""

    def __init__(self, step: ChainStep) -> None:
        self.step = step
        self.pattern = ServicePattern(step.declaration.service)


class CopyDeletion:
    """Requests the deletion of copies when their originals have ended."""

    def __init__(
        self, engine: Engine, blocks: HeaderBlocks, further: FurtherMessages, time: Callable[[], float]
    ) -> None:
        self._engine = engine
        self._blocks = blocks
        self._further = further
        self._time = time
        self._watched: list[_Watched] = []
        self._reading: set[asyncio.Task[None]] = set()

    def use(self, steps: Iterable[ChainStep]) -> None:
        """Watch the queues of these declarations."""
        self._watched = [_Watched(step) for step in steps]
        self._engine.broker.store.watches_ends = self._watches if self._watched else None

    def _watches(self, address: str) -> bool:
        return self._find(address) is not None

    def _find(self, address: str) -> _Watched | None:
        alive = address.removesuffix(DEAD_SUFFIX)
        return next((one for one in self._watched if one.pattern.matches(alive)), None)

    def on_events(self, events: Sequence[Event]) -> None:
        """Events of a batch of the core, after its commit."""
        ended: dict[str, list[str]] = defaultdict(list)
        for event in events:
            if isinstance(event, MessagesEnded) and event.cause in _FINAL:
                ended[event.address] += self._copies_of(event.messages)
                if event.positions:
                    self._read_later(event.address, list(event.positions))
        for address, copy_ids in ended.items():
            self._request(address, copy_ids)

    def _request(self, address: str, copy_ids: Sequence[str]) -> None:
        watched = self._find(address)
        if watched is None:
            return
        step, options = watched.step, watched.step.declaration.options
        queue = str(options.get("queue") or service_of(address.removesuffix(DEAD_SUFFIX)))
        for start in range(0, len(copy_ids), MAX_IDS):
            body = "\n".join(copy_ids[start : start + MAX_IDS]).encode()
            try:
                target = storeandforward.forwarded(str(options["broker"]), DELETE_COPY).address
                envelope = self._blocks.make(target, {COPY_QUEUE: queue})
            except (Refused, ValueError) as error:
                step.statistics.note(step.declaration, f"copies are not deleted: {error}")
                return
            self._further.publish([Further(step, envelope, body)])

    def _read_later(self, address: str, positions: list[int]) -> None:
        task = asyncio.create_task(self._read(address, positions), name=f"ended messages of {address}")
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(self, address: str, positions: list[int]) -> None:
        """Request the deletion of the copies of messages that were not in memory."""
        read, done = self._engine.records, 0
        while done < len(positions):
            async with read.turn(positions[done : done + READ_POSITIONS]) as some:
                done += len(some)
                try:
                    messages = await read.repeat(partial(self._heads, address, some))
                except (JournalError, LookupError, Refused) as error:
                    log.warning("copies of %d messages of %s are not deleted: %s", len(some), address, error)
                    continue
            self._request(address, self._copies_of(messages))

    def _heads(self, address: str, positions: Sequence[int]) -> list[Message]:
        reader, found = Reader(address), self._engine.records(positions)
        return [reader.head(record, position) for record, position in zip(found, positions, strict=True)]

    def _copies_of(self, messages: Iterable[Message]) -> list[str]:
        """The ids of the copies of messages, without those that have expired by now."""
        now_ms = 1000 * self._time()
        alive = (one for one in messages if not 0 < one.expires_ms <= now_ms)
        return list(filter(None, map(_copy_id, alive)))

    async def stop(self) -> None:
        """End what is being read."""
        for task in list(self._reading):
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)


def _copy_id(message: Message) -> str:
    block = message.envelope.block
    return header_block.headers(block).get(COPY_ID, "") if COPY_ID.encode() in block else ""
