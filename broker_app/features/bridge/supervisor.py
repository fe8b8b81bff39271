"""The supervisor of bridges: starts and stops pipes and flows as the configuration and the queues require.

It changes only those that differ.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Iterable, Mapping

from broker_app.base.internal_errors import EventListeners
from broker_app.base.process.task_supervisor import supervised
from broker_app.core import outcome
from broker_app.engine import Engine
from broker_app.features.bridge import report
from broker_app.features.bridge.pipe import Pipe
from broker_app.features.bridge.pipe_reports import (
    EventReport,
    MarkReport,
    Orphan,
    PipeReport,
)
from broker_app.features.bridge.remote import Remote
from broker_app.features.bridge.timeline import Timeline, TimelineEvent
from mom_client import storeandforward
from mom_client.storeandforward import Forwarded

_QUEUE = "/queue/"
_FORWARDED = _QUEUE + storeandforward.PREFIX
#: how long, in seconds, a queue may wait at most for a scan to find it
LONGEST_SCAN_S = 60.0
#: flows of a bridge whose figures are kept although their queues, which were empty, are forgotten
REMEMBERED = 1_000


class Supervisor:
    """`sender` is what this broker calls itself at others. `start` it once the engine has recovered,
    `stop` it before the engine stops."""

    def __init__(self, engine: Engine, sender: str) -> None:
        self._engine = engine
        self._sender = sender
        self._pipes: dict[str, Pipe] = {}
        self._scanning: asyncio.Task[None] | None = None
        #: pipes that end; they are kept until they have
        self._ending: set[asyncio.Task[None]] = set()
        #: hear of what happens: the bridge's name, and the event
        self.listeners: EventListeners[[str, TimelineEvent]] = EventListeners("the bridges' listeners")

    def start(self, remotes: Mapping[str, Remote]) -> None:
        self.reload(remotes)
        self._scanning = asyncio.create_task(supervised("bridges", self._keep_scanning), name="bridges")

    def reload(self, remotes: Mapping[str, Remote]) -> None:
        """Apply a changed configuration. Unchanged bridges are not touched."""
        for name in [name for name in self._pipes if name not in remotes]:
            self._end(self._pipes.pop(name))
        differing = [remote for name, remote in remotes.items() if self._remote(name) != remote]
        for remote in differing:
            pipe = self._pipes.get(remote.name)
            if pipe is None:
                self._begin(remote)
            else:
                pipe.configure(remote)
        if differing:
            self.scan()

    def on_events(self, batch: Iterable[outcome.Event]) -> None:
        """Events of one batch of the core."""
        for event in batch:
            if isinstance(event, outcome.Arrived):
                self._arrived(event.address)

    def scan(self) -> None:
        """Find what was missed: queues without a flow, messages without an event, deleted queues."""
        for address, queue in list(self._engine.broker.destinations.queues.items()):
            if address.startswith(_FORWARDED):
                self._see(address, arrived=queue.depth > 0)
        for pipe in self._pipes.values():
            gone = [source for source, flow in pipe.flows.items() if not flow.consumer.exists]
            for source in gone:
                pipe.flows[source].stop()
            for source in gone[:-REMEMBERED]:
                pipe.drop(source)

    def retry(self, name: str, queue: str | None = None) -> bool:
        """Try again now what waits for its next attempt; False when there is no such bridge."""
        pipe = self._pipes.get(name)
        if pipe is not None:
            pipe.retry(queue)
        return pipe is not None

    def restart_all(self, why: str) -> None:
        """Restart all bridges, whether their configuration changed or not."""
        for pipe in self._pipes.values():
            pipe.begin_anew(why)

    async def stop(self) -> None:
        """End all connections in good order."""
        if self._scanning is not None:
            self._scanning.cancel()
        for pipe in self._pipes.values():
            self._end(pipe)
        self._pipes.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    # ------------------------------------------------------------------ how it stands

    def report_of(self, name: str) -> PipeReport | None:
        """The status of a bridge; None if it does not exist."""
        pipe = self._pipes.get(name)
        return None if pipe is None else report.of_pipe(pipe)

    def reports(self) -> list[PipeReport]:
        """The status of all bridges, by name."""
        return [report.of_pipe(self._pipes[name]) for name in sorted(self._pipes)]

    def events_of(self, name: str) -> list[EventReport] | None:
        """The events of a bridge, the newest last; None if it does not exist."""
        pipe = self._pipes.get(name)
        return None if pipe is None else [report.of_event(event) for event in pipe.timeline.events()]

    def orphans(self) -> list[Orphan]:
        """Store-and-forward queues that no bridge empties, because none of that name is configured."""
        found = []
        for address, queue in self._engine.broker.destinations.queues.items():
            forwarded = _forwarded(address)
            if forwarded is not None and forwarded.broker not in self._pipes:
                found.append(report.of_orphan(forwarded, queue.depth + queue.unsettled))
        return found

    def incoming(self, most: int) -> list[MarkReport]:
        """The replication offsets of brokers that forward to this one, the newest first."""
        marks = heapq.nlargest(
            most, self._engine.broker.forwarding.offsets.values(), key=lambda mark: mark.time_ms
        )
        return [report.of_mark(mark) for mark in marks]

    # ------------------------------------------------------------------ within

    def _arrived(self, address: str) -> None:
        if address.startswith(_FORWARDED):
            self._see(address, arrived=True)

    def _see(self, address: str, *, arrived: bool) -> None:
        """There is this queue, and messages came to it."""
        forwarded = _forwarded(address)
        pipe = self._pipes.get(forwarded.broker) if forwarded is not None else None
        if forwarded is None or pipe is None:
            return
        flow = pipe.flow(address, forwarded.queue)
        if arrived:
            flow.resume()

    async def _keep_scanning(self) -> None:
        while True:
            pauses = [pipe.remote.scan_s for pipe in self._pipes.values()]
            await asyncio.sleep(min(pauses, default=LONGEST_SCAN_S))
            self.scan()

    def _remote(self, name: str) -> Remote | None:
        pipe = self._pipes.get(name)
        return None if pipe is None else pipe.remote

    def _begin(self, remote: Remote) -> None:
        timeline = Timeline(_now_ms, self._reporter(remote.name))
        pipe = self._pipes[remote.name] = Pipe(remote, self._sender, self._engine, timeline)
        pipe.start()

    def _end(self, pipe: Pipe) -> None:
        ending = asyncio.create_task(pipe.stop())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _reporter(self, name: str) -> Callable[[TimelineEvent], None]:
        def report(event: TimelineEvent) -> None:
            self.listeners(name, event)

        return report


def _forwarded(address: str) -> Forwarded | None:
    if not address.startswith(_FORWARDED):
        return None
    try:
        return storeandforward.parse(address.removeprefix(_QUEUE))
    except ValueError:
        return None  # a name of former times


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
