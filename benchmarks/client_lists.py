"""Clients of a cluster: how soon they know a broker that has joined, and how soon they fill it.

`python -m benchmarks.client_lists` has idle clients, which only listen to the list of brokers, at a broker
that another one joins; and clients of the client library at two brokers that a third one joins.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import mom_client
from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import ServerFailed
from benchmarks.cluster import Broker
from benchmarks.idle import allow_open_files
from benchmarks.servers import HOST

#: what is promised
MOST_TOLD_S, MOST_CPU_S = 2.0, 0.5
MOST_SPREAD_S, LEAST_SHARE, MOST_SHARE = 30.0, 25, 35
_LISTS: Final = ("--update-cluster-clients", "true")
_AT_ONCE: Final = 200
#: seconds between two looks at the processor time of a broker
_SAMPLE_S: Final = 0.05
_IDLE_S: Final = 5.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_DEADLINE_S: Final = 60.0


@dataclass(frozen=True)
class Told:
    """Idle clients: seconds from the change of the list to the last (and the median) client's copy of it,
    and processor seconds of the broker meanwhile."""

    clients: int
    median_s: float
    last_s: float
    cpu_s: float

    @property
    def kept(self) -> bool:
        return self.last_s <= MOST_TOLD_S and self.cpu_s <= MOST_CPU_S


@dataclass(frozen=True)
class Spread:
    """Clients at each broker, seconds from its start until it had its share, and how often the clients that
    went there most often went."""

    clients: tuple[int, ...]
    took_s: float
    most_changes: int

    @property
    def kept(self) -> bool:
        shares = all(LEAST_SHARE <= clients <= MOST_SHARE for clients in self.clients)
        return shares and self.took_s <= MOST_SPREAD_S and self.most_changes <= 1


class Listener(asyncio.Protocol):
    """An idle client: it has logged in, and notes when a list comes."""

    def __init__(self, login: bytes) -> None:
        self._login = login
        self._kept = b""
        self.ready = asyncio.get_running_loop().create_future()
        self.told_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._login)

    def data_received(self, data: bytes) -> None:
        self._kept = (self._kept + data)[-4096:]
        if not self.ready.done():
            if b"RECEIPT\n" in self._kept:
                self._kept = b""
                self.ready.set_result(None)
        elif b"MESSAGE\n" in self._kept and self._kept.rstrip(b"\n").endswith(b"\0"):
            self.told_at = self.told_at or time.time()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(ServerFailed(f"a client was refused: {self._kept!r}"))


def cpu_s(pid: int) -> float:
    """Processor seconds of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def brokers(directory: Path, number: int, *options: str) -> list[Broker]:
    """Brokers of one cluster, which send lists."""
    password, all_of_them = secrets.token_urlsafe(16), range(1, number + 1)
    made = [
        Broker(directory / f"b{one}", one, password, [other for other in all_of_them if other != one])
        for one in all_of_them
    ]
    for broker in made:
        broker.options += (*_LISTS, *options)
    return made


async def idle_clients(first: Broker, count: int) -> list[Listener]:
    """Idle clients of a broker, which listen to its lists."""
    frames = (
        f"CONNECT\naccept-version:1.2\nhost:/\nlogin:admin\npasscode:{first.password}\nheart-beat:0,0\n\n\0"
        "SUBSCRIBE\nid:1\ndestination:/topic/$mom.failover\nack:auto\nreceipt:1\n\n\0"
    ).encode()
    loop = asyncio.get_running_loop()
    found: list[Listener] = []
    while len(found) < count:
        some = min(_AT_ONCE, count - len(found))
        opened = [
            loop.create_connection(lambda: Listener(frames), HOST, first.stomp_port) for _ in range(some)
        ]
        listeners = [listener for _, listener in await asyncio.gather(*opened)]
        await asyncio.gather(*(listener.ready for listener in listeners))
        found += listeners
    return found


async def tell(directory: Path, count: int) -> Told:
    """Have a broker with so many clients learn of another one."""
    first, second = brokers(directory, 2)
    try:
        first.start()
        clients = await idle_clients(first, count)
        started = asyncio.ensure_future(asyncio.to_thread(second.start))
        began, used = time.time(), [(time.time(), cpu_s(first.pid))]
        while not all(client.told_at for client in clients):
            if time.time() - began > _DEADLINE_S:
                missing = sum(not client.told_at for client in clients)
                raise ServerFailed(f"{missing} of {count} clients were told nothing")
            await asyncio.sleep(_SAMPLE_S)
            used.append((time.time(), cpu_s(first.pid)))
        await started
        since = datetime.fromisoformat(first.ask("GET", "cluster/lists")["versions"][0]["since"]).timestamp()
        before = max(cpu for at, cpu in used if at <= since)
        waits = sorted(client.told_at - since for client in clients)
        return Told(count, statistics.median(waits), waits[-1], used[-1][1] - before)
    finally:
        for broker in (first, second):
            broker.stop()


async def spread(directory: Path, count: int) -> Spread:
    """Have a third broker join two that have all clients."""
    all_of_them = brokers(directory, 3, "--rebalance-cluster-clients", "true")
    changes: Counter[int] = Counter()
    try:
        for broker in all_of_them[:2]:
            broker.start()
        async with AsyncExitStack() as stack:
            clients = []
            for at in range(count):
                broker = all_of_them[at % 2]

                def note(event: mom_client.ConnectionEvent, at: int = at) -> None:
                    changes[at] += event.kind == "reconnected"

                url = f"failover:(stomp://{HOST}:{broker.stomp_port})"
                client = mom_client.connect(url, login="admin", passcode=broker.password, listener=note)
                clients.append(await stack.enter_async_context(client))
            await asyncio.to_thread(all_of_them[2].start)
            began = time.monotonic()

            def shares() -> tuple[int, ...]:
                ports = [int((client.address or ":0").rpartition(":")[2]) for client in clients]
                return tuple(ports.count(broker.stomp_port) for broker in all_of_them)

            while not all(LEAST_SHARE <= share <= MOST_SHARE for share in shares()):
                if time.monotonic() - began > _DEADLINE_S:
                    break
                await asyncio.sleep(0.05)
            took = time.monotonic() - began
            await asyncio.sleep(_IDLE_S)  # what goes too far, or back, is seen as well
            return Spread(shares(), took, max(changes.values(), default=0))
    finally:
        for broker in all_of_them:
            broker.stop()


def _section(told: Sequence[Told], spreads: Sequence[Spread], place: machine.Machine) -> str:
    def verdict(kept: bool) -> str:
        return "kept" if kept else "**missed**"

    return "\n".join(
        [
            f"## Lists and rebalancing of a cluster's clients, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "",
            f"- Machine: {place.line()}; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}",
            f"- {Broker.name} {Broker.version()}",
            "- CPU is that of the broker from the change of its list until the last client has it.",
            "",
            "| idle clients of a broker | told, median | told, last | broker CPU | promised | |",
            "|---|---|---|---|---|---|",
            *(
                f"| {one.clients:,} | {one.median_s:.2f} s | {one.last_s:.2f} s | {one.cpu_s:.2f} s "
                f"| ≤ {MOST_TOLD_S:g} s, ≤ {MOST_CPU_S:g} s | {verdict(one.kept)} |"
                for one in told
            ),
            "",
            "| clients of two brokers that a third joins | at each | after | most moves | promised | |",
            "|---|---|---|---|---|---|",
            *(
                f"| {sum(one.clients)} | {' / '.join(map(str, one.clients))} | {one.took_s:.1f} s "
                f"| {one.most_changes} | {LEAST_SHARE}-{MOST_SHARE}, ≤ {MOST_SPREAD_S:g} s, 1 "
                f"| {verdict(one.kept)} |"
                for one in spreads
            ),
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.client_lists", description=__doc__)
    parser.add_argument("--idle", type=int, default=10_000, help="idle clients (10,000)")
    parser.add_argument("--clients", type=int, default=90, help="clients that are rebalanced (90)")
    parser.add_argument("--runs", type=int, default=3, help="how often (3)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    allow_open_files(arguments.idle + 1024)
    told: list[Told] = []
    spreads: list[Spread] = []
    with workplace(arguments.work) as directory:
        place = machine.describe(directory)
        for run in range(arguments.runs):
            progress(f"{arguments.idle:,} idle clients, run {run + 1}")
            told.append(asyncio.run(tell(directory / f"told{run}", arguments.idle)))
            progress(str(told[-1]))
            progress(f"{arguments.clients} clients of two brokers, run {run + 1}")
            spreads.append(asyncio.run(spread(directory / f"spread{run}", arguments.clients)))
            progress(str(spreads[-1]))
    plain: dict[str, object] = {"told": list(map(asdict, told)), "spread": list(map(asdict, spreads))}
    finish(_section(told, spreads, place), arguments.json, plain, arguments.append)
    kept = [one.kept for one in told] + [one.kept for one in spreads]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
