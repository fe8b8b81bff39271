"""A simulation of clusters without sockets: what brokers that know each other's consumers cost.

`python -m benchmarks.cluster_scale` links one broker, with the real core, engine and links, to all others of
a cluster by wires in memory. Each destination has a consumer at one broker, by chance. All brokers of a
cluster are alike, so what the links of this one cost is what those of each cost; what both ends of them cost
together is what a change at one broker costs the cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import socket
import sys
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Self

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.model import InnerReceiver, Peer
from broker_app.core.outcome import Event, InterestChanged
from broker_app.engine import Engine
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.link import Link
from tests.support.memory_journal import MemoryJournal

SIZES: Final = (3, 10, 30, 100)
DESTINATIONS: Final = 10_000
#: repetitions of a change whose mean is given
_CHANGES: Final = 50


class Wire(asyncio.Transport):
    """One end of a connection in memory; `frames` and `size` count what all wires have carried."""

    frames = size = 0

    def __init__(self, link: Link, options: socket.socket) -> None:
        super().__init__({"socket": options})
        self._loop = asyncio.get_running_loop()
        self.link = link
        self.other: Wire

    def write(self, data: Any) -> None:
        Wire.frames += _frames_in(data)
        Wire.size += len(data)
        self._loop.call_soon(self.other.link.data_received, data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: all that is written leaves at once."""

    def get_write_buffer_size(self) -> int:
        """Nothing waits to be sent."""
        return 0

    def is_closing(self) -> bool:
        """It is open until both ends are thrown away."""
        return False

    def pause_reading(self) -> None:
        """Do nothing: what is written is small."""

    resume_reading = pause_reading

    def close(self) -> None:
        self._loop.call_soon(self.other.link.connection_lost, None)

    abort = close


def _frames_in(data: bytes | bytearray) -> int:
    """The number of frames in what was written."""
    number = start = 0
    while start < len(data):
        start += 4 + int.from_bytes(data[start : start + 4], "big")
        number += 1
    return number


class Member:
    """A broker with its links, as `Cluster` has them, without the dialling."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.engine = Engine(Broker(), MemoryJournal())
        self.engine.recover()
        self.engine.broker.interest.watched = True
        self.engine.listeners.add(self._on_events)
        self.links: dict[str, Link] = {}
        self._consumers = Peer(InnerReceiver())
        self._next = 0

    def identity(self) -> f.Identity:
        return f.Identity(self.name, "1", "simulation", f"{self.name}:7676", [], "", {}, [])

    def connected(self, link: Link) -> None:
        """Do nothing: there are no strangers here."""

    def admit(self, link: Link) -> None:
        assert link.broker is not None
        self.links[link.broker.name] = link

    def ended(self, link: Link, reason: Refused) -> None:
        if link.broker is not None:
            self.links.pop(link.broker.name, None)

    def receive_record(self, link: Link, message: bytes) -> None:
        raise AssertionError("no change record is simulated")

    def receive_use(self, link: Link, frame: f.SharedUse) -> None:
        raise AssertionError("no limits are shared here")

    def receive_unused(self, link: Link, frame: f.AskUnused | f.Unused) -> None:
        raise AssertionError("no queue is without use here")

    def receive_reload(self, link: Link, frame: f.Reload | f.Reloaded) -> None:
        raise AssertionError("there is no central file here")

    def receive_page(self, link: Link, frame: f.AskPage | f.Page) -> None:
        raise AssertionError("nobody browses here")

    def receive_channel(self, link: Link, frame: f.ChannelFrame) -> None:
        raise AssertionError("there are no channels here")

    def availability(self, link: Link, frame: f.Availability) -> None:
        raise AssertionError("no broker is quiesced here")

    def subscribe(self, address: str, credit: int = 256) -> str:
        """Begin a consumer; returns its id."""
        self._next += 1
        id = str(self._next)
        self.engine.submit(c.Subscribe(self._consumers, id, address, c.INDIVIDUAL, credit))
        return id

    def unsubscribe(self, id: str) -> None:
        """End a consumer."""
        self.engine.submit(c.Unsubscribe(self._consumers, id))

    def send_small_changes(self) -> None:
        """Send what `Cluster` sends a few times a second."""
        for link in self.links.values():
            link.queues.send_small_changes()

    def _on_events(self, events: Sequence[Event]) -> None:
        wants = dict.fromkeys(event.want for event in events if isinstance(event, InterestChanged))
        for link in self.links.values():
            if link.is_up:
                link.queues.refresh(wants)


class Simulation:
    """A broker, `here`, and all others of a cluster."""

    def __init__(self, brokers: int) -> None:
        self.here = Member("b0")
        self.others = [Member(f"b{number}") for number in range(1, brokers)]
        self._options = socket.socket()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._options.close()
        for member in (self.here, *self.others):
            await member.engine.stop()

    async def link(self) -> None:
        """Link the broker to all others, and wait until all is said."""
        for other in self.others:
            dialled, accepted = (
                Wire(Link(one.engine, one, "a secret", 1_000_000, dials=one is self.here), self._options)
                for one in (self.here, other)
            )
            dialled.other, accepted.other = accepted, dialled
            accepted.link.connection_made(accepted)
            dialled.link.connection_made(dialled)
        await self.settle()
        assert len(self.here.links) == len(self.others)

    async def unlink(self) -> None:
        """End all links, as when the broker is killed."""
        for link in list(self.here.links.values()):
            link.connection_lost(None)
        for other in self.others:
            for link in list(other.links.values()):
                link.connection_lost(None)
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        carried = -1
        while carried != Wire.frames:
            carried = Wire.frames
            for member in (self.here, *self.others):
                await member.engine.wait_idle()
            await asyncio.sleep(0)
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Cost:
    """What something has cost all brokers together."""

    frames: float
    size: float
    cpu_ms: float


class Meter:
    """Measures what the wires carry, and processor time, from its start on."""

    def __init__(self) -> None:
        self._frames, self._size, self._began = Wire.frames, Wire.size, time.process_time()

    def cost(self, times: int = 1) -> Cost:
        """The cost so far, of one of so many times."""
        used = time.process_time() - self._began
        return Cost(
            (Wire.frames - self._frames) / times, (Wire.size - self._size) / times, 1000 * used / times
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One size of a cluster."""

    brokers: int
    memory_mib: float
    begin: Cost
    credit: Cost
    end: Cost
    restart: Cost
    heart_beats_ms: float
    report_ms: float


async def simulate(brokers: int, destinations: int, *, everywhere: bool = False, memory: bool) -> Row:
    """Build the cluster and measure. Each destination has a consumer at one broker, or `everywhere` at all.
    With `memory` that alone is measured: it makes all else slow."""
    random = Random(brokers)
    async with Simulation(brokers) as simulation:
        here, members = simulation.here, (simulation.here, *simulation.others)
        own = []
        for address in (f"/queue/orders.{number}" for number in range(destinations)):
            chosen = members if everywhere else (random.choice(members),)
            for member in chosen:
                member.subscribe(address)
            if here in chosen:
                own.append(address)
        await simulation.settle()
        gc.collect()
        if memory:
            tracemalloc.start()
        await simulation.link()
        gc.collect()
        # Both ends of the links are in this process, and hold the same.
        used = tracemalloc.get_traced_memory()[0] / 2**21 if memory else 0.0
        tracemalloc.stop()
        nothing = Cost(0, 0, 0)
        if memory:
            return Row(brokers, used, nothing, nothing, nothing, nothing, 0, 0)

        async def each(change: Any) -> Cost:
            meter = Meter()
            for number in range(_CHANGES):
                change(number)
                await simulation.settle()
            return meter.cost(_CHANGES)

        added: list[str] = []
        begin = await each(lambda number: added.append(here.subscribe(f"/queue/new.{number}")))
        credit = await each(lambda number: here.subscribe(own[number % len(own)]))
        end = await each(lambda number: here.unsubscribe(added[number]))
        meter = Meter()
        for _ in range(10):
            for member in members:
                for link in member.links.values():
                    link.each_second(0.0)  # a time at which none has been silent for long
            await simulation.settle()
        beats = meter.cost(10).cpu_ms / 2  # one of both ends
        began = time.process_time()
        shown = sum(len(link.consumers.interest()) for link in here.links.values())
        report_ms = (time.process_time() - began) * 1000
        assert shown >= destinations - len(own), "the interest of all others is known"
        meter = Meter()
        await simulation.unlink()
        await simulation.link()
        return Row(brokers, used, begin, credit, end, meter.cost(), beats, report_ms)


_HEADS = (
    "brokers",
    "links, of each and all",
    "MiB for the others' interest",
    "first consumer: frames, bytes, ms",
    "second consumer: frames, bytes, ms",
    "last one leaves: frames, bytes, ms",
    "restart: frames, MiB, s",
    "heart-beats: ms a second",
)


def line(row: Row, memory_mib: float) -> str:
    """A line of the table."""

    def cost(found: Cost) -> str:
        return f"{found.frames:,.0f}, {found.size:,.0f}, {found.cpu_ms:.2f}"

    links = row.brokers - 1
    restart = row.restart
    cells = [
        f"{row.brokers}",
        f"{links}, {links * row.brokers // 2:,}",
        f"{memory_mib:.1f}",
        *map(cost, (row.begin, row.credit, row.end)),
        f"{restart.frames:,.0f}, {restart.size / 2**20:.2f}, {restart.cpu_ms / 1000:.2f}",
        f"{row.heart_beats_ms:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.cluster_scale", description=__doc__)
    parser.add_argument("--brokers", default=",".join(map(str, SIZES)), help="sizes of clusters")
    parser.add_argument("--destinations", type=int, default=DESTINATIONS, help="that have consumers (10000)")
    parser.add_argument("--everywhere", action="store_true", help="a consumer at each broker, not at one")
    arguments = parser.parse_args(argv)
    print(f"| {' | '.join(_HEADS)} |")
    print("|---" * len(_HEADS) + "|")
    for brokers in map(int, arguments.brokers.split(",")):
        held, row = (
            asyncio.run(
                simulate(brokers, arguments.destinations, everywhere=arguments.everywhere, memory=memory)
            )
            for memory in (True, False)
        )
        print(line(row, held.memory_mib), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
