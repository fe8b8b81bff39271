"""A broker in memory with reflexes, whose libraries run in real processes."""

from __future__ import annotations

import asyncio
import itertools
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.destination import parse
from broker_app.core.message import Envelope
from broker_app.core.model import Peer
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.engine import Engine
from broker_app.journal.port import Batch, Done
from broker_app.net.stomp.changed_headers import ChangedHeaders
from broker_app.net.stomp.headers import envelope
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.reflexes import Reflexes, Settings
from broker_app.reflex.shipped.context import Context
from broker_app.telemetry.event_log import EventLog
from tests.support.listener import Listener
from tests.support.memory_journal import MemoryJournal

STOCK = "/queue/stock"
MIB = 1024 * 1024
#: seconds of a commit
COMMIT_S = 0.001

#: a library whose functions note what they got in a file
LIBRARY = """
import os, signal, sys, threading, time
from broker_app.reflex.api import NewMessage, Verdict, accept, hookimpl, refuse

NOTES = {notes!r}

def _note(name, message):
    with open(NOTES, "a") as file:
        file.write(f"{{name}} {{message.service}} {{message.body.decode(errors='replace')}}\\n")

def audit(message):
    _note("audit", message)

def drop_all(message):
    _note("drop_all", message)
    return 0

def never(message):
    _note("never", message)

def drop_odd(message):
    return int(message.body) % 2 == 0

def stamp(message, options):
    return accept(headers={{"seen-by": options["name"], "type": None}})

def copy(message):
    return accept(messages=[NewMessage("/queue/copies", message.body, {{"copy-of": message.service}})])

def small(message):
    return True if len(message.body) < 10 else refuse("at most 10 bytes", retry_s=2)

def slowly(message):
    time.sleep(0.02)

def allow_stock(registration):
    return registration.name == "stock"
"""


class SlowJournal(MemoryJournal):
    """Commits take a moment, as those of a disk: other things happen meanwhile."""

    def __init__(self, commit_s: float) -> None:
        super().__init__(hold=True)
        self._commit_s = commit_s

    def commit(self, batch: Batch, done: Done) -> None:
        super().commit(batch, done)
        asyncio.get_running_loop().call_later(self._commit_s, self.release)


class FilteringBroker:
    """An engine with reflexes. `libraries` are sources of modules by name."""

    def __init__(
        self,
        folder: Path,
        *,
        held_bytes: int = 64 * MIB,
        memory_bytes: int = 512 * MIB,
        commit_s: float = COMMIT_S,
    ) -> None:
        self.folder = folder
        self.notes_file = folder / "notes"
        self.policies = Policies(DestinationPolicy())
        self.engine = Engine(Broker(policies=self.policies), SlowJournal(commit_s))
        self.engine.recover()
        self.events = EventLog(lambda: 0.0)
        self.active: str | None = None
        self.library("lib", LIBRARY.format(notes=str(self.notes_file)))
        self._number = itertools.count(1)
        context = Context("b1", folder, self.events, lambda: self.active)
        self.reflexes = Reflexes(
            self.engine, context, ChangedHeaders(100, 65_536), Settings(str(folder), memory_bytes, held_bytes)
        )
        self.engine.listeners.add(self.reflexes.on_events)

    def library(self, name: str, source: str) -> None:
        """Write the module of a library."""
        (self.folder / f"{name}.py").write_text(textwrap.dedent(source))

    def declare(self, *declarations: Declaration) -> None:
        """Use these declarations."""
        self.reflexes.reload(declarations)

    @property
    def notes(self) -> list[str]:
        """The calls that functions of `lib` noted: name, service and body."""
        return self.notes_file.read_text().splitlines() if self.notes_file.exists() else []

    async def settled(self) -> None:
        """Wait until everything that was submitted is decided, by reflexes and by the broker."""
        await self.reflexes.finish(60)
        await self.engine.wait_idle()

    async def stop(self) -> None:
        """End the processes."""
        await self.reflexes.stop()
        await self.engine.stop(snapshot=False)

    def depth(self, name: str) -> int:
        """Messages that wait in a queue."""
        queue = self.engine.broker.destinations.queues.get(f"/queue/{name}")
        return queue.depth if queue is not None else 0


def reflex(kind: str, function: str, *, name: str = "", library: str = "lib", **facts: Any) -> Declaration:
    """A declaration, named like its function."""
    return Declaration(name or function, kind, library, function, **facts)


class Client(Listener):
    """A client with a connection, as one of STOMP."""

    def __init__(self, broker: FilteringBroker, *, strict: bool = False, user: str = "anna") -> None:
        super().__init__()
        self.engine = broker.engine
        self.peer = Peer(self, user=user)
        self.peer.connection, self.peer.strict = f"c-{id(self)}", strict
        self.headers: list[bytes] = []
        self._receipts = itertools.count(1)

    def flush(self, peer: Peer) -> None:
        self.headers += [message.envelope.block for _, _, message in peer.deliveries]
        super().flush(peer)

    def publish(self, *bodies: bytes | str, to: str = STOCK, **headers: str) -> None:
        """Publish messages by one command, each with its body as receipt."""
        made = envelope_to(to, headers)
        encoded = [body.encode() if isinstance(body, str) else body for body in bodies]
        entries = [(made, body, body) for body in encoded]
        self.engine.submit(c.Publish(self.peer, entries), 100 + sum(map(len, encoded)))

    def subscribe(self, address: str = STOCK, ack: str = c.INDIVIDUAL, **facts: Any) -> None:
        """Subscribe with the id 1."""
        id = facts.pop("id", "1")
        self.engine.submit(c.Subscribe(self.peer, id, address, ack, **facts))

    @property
    def refused(self) -> list[tuple[Any, str, str]]:
        """Receipt, code and reflex of refusals."""
        return [(receipt, one.code, str(one.facts.get("reflex", ""))) for receipt, one in self.refusals]


class RestClient(Listener):
    """The peer of REST: detailed, without a connection, and not ordered."""

    def __init__(self, broker: FilteringBroker) -> None:
        super().__init__()
        self.engine = broker.engine
        self.peer = Peer(self, user="rest", detailed=True, ordered=False)

    def post(self, body: bytes, to: str = STOCK, user: str = "anna") -> None:
        """Publish one message for a user."""
        self.engine.submit(c.Publish(self.peer, [(envelope_to(to, {}), body, body)], user), len(body) + 500)


def envelope_to(address: str, headers: Mapping[str, str]) -> Envelope:
    """The envelope of a SEND."""
    return envelope(headers, parse(address))


async def in_each_turn(count: Callable[[], int], last: int) -> list[int]:
    """By how much it has grown in each turn of the loop, until it is `last`."""
    grown, former = [count()], count()
    while former < last:
        await asyncio.sleep(0)
        grown.append(count() - former)
        former += grown[-1]
    return grown
