"""Trials of reflexes with the newest stored messages of a destination, which are only looked at."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import Any, Final

import msgspec

from broker_app.base.audit_actions import read_of
from broker_app.base.refused import Refused
from broker_app.core.destination import QUEUE, Destination, of_name
from broker_app.core.durability.record_reader import Reader
from broker_app.core.message import Message
from broker_app.engine.client import EngineClient
from broker_app.features.jobs import message_reader
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers
from broker_app.net.policy.access import Client
from broker_app.net.rest.features.bridges import no_such
from broker_app.net.rest.messages.browse import Search
from broker_app.net.rest.rest_parts import RestParts
from broker_app.reflex import declaration
from broker_app.reflex.declaration import ARRIVAL, DEFAULT_LIMIT_S, DELIVERY, Declaration
from broker_app.reflex.reflexes import Reflexes
from broker_app.reflex.stored_trials import DEFAULT_MESSAGES, MOST_BYTES, MOST_MESSAGES, StoredTrial
from broker_app.rules.event import READ

#: kinds that decide about messages which are stored
KINDS: Final = (ARRIVAL, DELIVERY)
_DRAFT: Final = "draft"


class Draft(msgspec.Struct, forbid_unknown_fields=True):
    """A declaration that need not be saved."""

    library: str
    function: str
    kind: str = ARRIVAL
    service: str = "*"
    event: str = "*"
    options: dict[str, Any] = {}
    time_limit_s: float = DEFAULT_LIMIT_S
    on_failure: str = declaration.REFUSE

    def declared(self) -> Declaration:
        """The declaration. Raises Refused."""
        members = msgspec.structs.asdict(self)
        for name, fault in declaration.faults(members).items():
            raise invalid(f"/declaration/{name}", fault)
        return Declaration(_DRAFT, **members)


class StoredTrialRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A trial of one reflex, of a declaration, or of all reflexes of a kind."""

    destination: str
    reflex: str | None = None
    declaration: Draft | None = None
    kind: str = ARRIVAL
    limit: int = DEFAULT_MESSAGES


class ReflexTrials:
    """Trials for administrators, with messages that they may read."""

    def __init__(self, reflexes: Reflexes, rest: RestParts, read: JournalRead) -> None:
        self._reflexes = reflexes
        self._rest = rest
        self._read = read

    def handlers(self) -> Handlers:
        """The endpoint by operation."""
        return {"test_reflexes_with_stored": self.test}

    async def test(self, request: Request) -> Reply:
        """POST reflex-test/messages"""
        request.require_administrator("reflexes are")
        request.query()
        asked = await request.json(StoredTrialRequest)
        found = await self.of(request.client, asked)
        address = of_name(asked.destination)
        request.audit_read(read_of(address.kind), address.address, found["messages"])
        return json_reply(found)

    async def of(self, client: Client, asked: StoredTrialRequest) -> StoredTrial:
        """The trial that a client asks for. Raises Refused, also without the right to read the messages."""
        if not 1 <= asked.limit <= MOST_MESSAGES:
            raise invalid("/limit", f"must be from 1 to {MOST_MESSAGES}", asked.limit)
        destination = of_name(asked.destination)
        self._rest.access.check(client, READ, destination)
        declarations = self._chosen(asked)
        messages, whole = await self._newest(destination, asked.limit)
        user = client.identity.user
        found = await self._reflexes.trial_of_stored(declarations, destination.address, messages, user)
        if not whole and found["stopped"] is None:
            found["stopped"] = "bytes"
        return found

    def _chosen(self, asked: StoredTrialRequest) -> list[Declaration]:
        if asked.declaration is not None:
            if asked.reflex is not None:
                raise invalid("/declaration", "cannot be given together with reflex")
            chosen = [asked.declaration.declared()]
        elif asked.reflex is not None:
            known = {one.name: one for one in self._reflexes.declarations}
            if asked.reflex not in known:
                raise no_such("reflex", asked.reflex, known)
            chosen = [known[asked.reflex]]
        else:
            chosen = [one for one in self._reflexes.declarations if one.kind == asked.kind and one.enabled]
        kind = chosen[0].kind if chosen else asked.kind
        if kind not in KINDS:
            raise invalid(
                "/kind", f"must be {' or '.join(KINDS)}: others decide about no stored messages", kind
            )
        if not chosen:
            raise Refused("conflict", f"no {kind} reflex is enabled: there is nothing to test")
        return chosen

    async def _newest(self, destination: Destination, limit: int) -> tuple[list[tuple[Message, bytes]], bool]:
        """The newest messages of a queue, or of the history of a topic, with their ids; and whether no limit
        of bytes left any out."""
        browser = self._rest.browser
        if destination.kind == QUEUE:
            search = Search(destination.address, limit, backwards=True, most_bytes=MOST_BYTES)
            page, _stopped = await browser.search(
                search, None, lambda row: (row.message, browser.ids.of(row.message))
            )
            rows = _within(page.rows)
            return rows, len(rows) == limit or (len(rows) == len(page.rows) and page.next is None)
        return await _newest_of_history(self._rest.engine_client, self._read, destination.address, limit)


def _within(rows: list[tuple[Message, bytes]]) -> list[tuple[Message, bytes]]:
    """The first messages, up to the one whose body reaches the limit of bytes."""
    sizes = accumulate(len(message.body) for message, _id in rows)
    return [row for row, size in zip(rows, (0, *sizes), strict=False) if size < MOST_BYTES]


async def _newest_of_history(
    client: EngineClient, read: JournalRead, address: str, limit: int
) -> tuple[list[tuple[Message, bytes]], bool]:
    broker = client.engine.broker
    if address not in broker.histories.histories:
        raise Refused("not-found", f"no messages of {address} are retained; set the retention of the topic")
    snapshot = await client.inspect(partial(message_reader.snapshot_history, broker, address))
    reader, of = Reader(address), broker.turn.ids.of
    found: list[tuple[Message, bytes]] = []
    size = 0
    for position in reversed(snapshot.positions()[-limit:]):
        if size >= MOST_BYTES:
            return found, False
        async with read.turn((position,)):
            record = await read.repeat(partial(message_reader.record_of, read, position))
            if record is not None:
                message = reader.message(record, position)
                found.append((message, of(message)))
                size += len(message.body)
    return found, True
