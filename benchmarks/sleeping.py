"""Many bridges that sleep: what 200 of them with 1,000 flows take of a core, of memory and of connections.

Two real brokers: the bridges of one, from a file, lead to the other. Each queue has had a message, which was
forwarded; then most sleep. Measured is the process at home, with its CPU time as the kernel counts it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import mom_client
from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import ServerFailed
from benchmarks.servers import HOST, Mom
from mom_client.storeandforward import Forwarded

#: share of a core that is promised
PROMISED = 0.02
#: seconds without a message after which a flow sleeps here; usually it is a minute
IDLE_S = 2.0
PATIENCE_S = 120.0


class Target(Mom):
    """The broker that the bridges lead to."""


class Home(Mom):
    """The broker with the bridges."""

    ports = (8131, 61714)

    def __init__(self, directory: Path, target: Target, bridges: int) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True)
        said = {
            "hostname": HOST,
            "port": target.ports[1],
            "idle_s": IDLE_S,
            "bridgeCredentials": {"user": "admin", "password": target.password},
        }
        lines = [f"/config/connection/messaging/b{n} = {json.dumps(said)}\n" for n in range(bridges)]
        file = directory / "zero.config"
        file.write_text("".join(lines))
        self.options = ("--config-file", str(file))


@dataclass(frozen=True, slots=True)
class Looked:
    """A process for `seconds`: share of a core, memory at the end, and its connections to the target."""

    what: str
    seconds: float
    share: float
    rss_kib: int
    connections: int

    def row(self) -> str:
        return f"| {self.what} | {self.share:.2%} | {self.rss_kib / 1024:,.1f} | {self.connections} |"


def cpu_s(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise OSError("the system does not report the resident memory")


def connections(pid: int, port: int) -> int:
    """Open connections of a process to a port of this machine."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(descriptor))
        except FileNotFoundError:
            continue  # it was closed meanwhile
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    open_to = [row for row in rows if row[3] == "01" and int(row[2].partition(":")[2], 16) == port]
    return sum(f"socket:[{row[9]}]" in inodes for row in open_to)


def client(server: Mom) -> mom_client.Client:
    address = f"stomp://{HOST}:{server.ports[1]}"
    return mom_client.connect(address, login="admin", passcode=server.password)


async def look(what: str, home: Mom, target: Mom, seconds: float) -> Looked:
    """Let a broker be for a while, and see what it took."""
    began, before = time.monotonic(), cpu_s(home.pid)
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    found = Looked(
        what,
        took,
        (cpu_s(home.pid) - before) / took,
        resident_kib(home.pid),
        connections(home.pid, target.ports[1]),
    )
    progress(found.row())
    return found


async def forwarded(home: Home, target: Target, sources: Sequence[Forwarded]) -> None:
    """Send a message to each queue, and wait until all are away and no connection is left."""
    async with client(home) as mom:
        for source in sources:
            await mom.send(source.address, b"x" * 100)
    deadline = time.monotonic() + PATIENCE_S
    async with client(target) as there:
        for queue, count in Counter(source.queue for source in sources).items():
            async with there.subscribe(f"/queue/{queue}") as messages:
                for _ in range(count):
                    await (await messages.get(timeout_s=PATIENCE_S)).ack()
    while connections(home.pid, target.ports[1]):
        if time.monotonic() > deadline:
            raise ServerFailed(f"bridges still had connections after {PATIENCE_S:g} s")
        await asyncio.sleep(0.2)


async def used(home: Mom, count: int) -> None:
    """Send a message to each of so many plain queues, and take it."""
    async with client(home) as mom:
        for number in range(count):
            await mom.send(f"/queue/plain{number}", b"x" * 100)
            async with mom.subscribe(f"/queue/plain{number}") as messages:
                await (await messages.get(timeout_s=10)).ack()


async def trickle(home: Home, sources: Sequence[Forwarded]) -> None:
    """A message a second for each of these."""
    async with client(home) as mom:
        while True:
            await asyncio.gather(*(mom.send(source.address, b"x" * 100) for source in sources))
            await asyncio.sleep(1)


async def measure(directory: Path, bridges: int, flows: int, awake: int, seconds: float) -> list[Looked]:
    """Without bridges, with bridges nothing was sent to, with all idle, and with some active."""
    target = Target(directory / "target")
    target.start()
    found: list[Looked] = []
    try:
        without = Home(directory / "without", target, 0)
        without.start()
        try:
            found.append(await look("no bridges", without, target, seconds / 3))
            await used(without, flows)
            found.append(await look(f"{flows:,} plain queues, used and empty", without, target, seconds / 3))
        finally:
            without.stop()
        home = Home(directory / "home", target, bridges)
        home.start()
        try:
            found.append(await look(f"{bridges} bridges without queues", home, target, seconds / 3))
            sources = [Forwarded(f"b{n % bridges}", f"arrived{n // bridges}") for n in range(flows)]
            await forwarded(home, target, sources)
            found.append(await look(f"{bridges} bridges, {flows:,} flows idle", home, target, seconds))
            feeding = asyncio.create_task(trickle(home, sources[:awake]))
            await asyncio.sleep(2)
            what = f"the same, {awake} of them with a message each second"
            found.append(await look(what, home, target, seconds))
            feeding.cancel()
        finally:
            home.stop()
    finally:
        target.stop()
    return found


def kib_of_a_flow(found: Sequence[Looked], flows: int) -> float:
    """The memory of a flow beyond its queue, from the growth with and without bridges."""
    none, plain, bridges, asleep, *_ = (looked.rss_kib for looked in found)
    return ((asleep - bridges) - (plain - none)) / flows


def section(found: Sequence[Looked], flows: int, place: machine.Machine) -> str:
    asleep, awake = found[3], found[4]
    kept = asleep.share < PROMISED and awake.share < PROMISED and asleep.connections == 0
    settings = f"A flow sleeps after {IDLE_S:g} s without a message; everything else is as by default."
    promised = f"Promised: below {PROMISED:.0%} of a core, and no connection of who sleeps"
    memory = f"A flow takes {kib_of_a_flow(found, flows):.1f} KiB beyond its queue."
    return "\n".join(
        [
            f"## Bridges that sleep, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "",
            f"- Machine: {place.line()}",
            f"- {Mom.name} {Mom.version()}",
            f"- {settings} Watched for {asleep.seconds:.0f} s.",
            "",
            "| the process at home, with | of a core | RSS MiB | connections to the remote broker |",
            "|---|---|---|---|",
            *(looked.row() for looked in found),
            "",
            f"{promised}: {'pass' if kept else '**miss**'}. {memory}",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.sleeping", description=__doc__)
    parser.add_argument("--bridges", type=int, default=200, help="bridges (200)")
    parser.add_argument("--flows", type=int, default=1000, help="flows of all of them (1000)")
    parser.add_argument("--awake", type=int, default=10, help="flows with a message each second (10)")
    parser.add_argument("--seconds", type=float, default=45, help="to watch for (45)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    with workplace(arguments.work) as directory:
        place = machine.describe(directory)
        found = asyncio.run(
            measure(directory, arguments.bridges, arguments.flows, arguments.awake, arguments.seconds)
        )
    text = section(found, arguments.flows, place)
    finish(text, arguments.json, {looked.what: asdict(looked) for looked in found}, arguments.append)
    return int("**miss**" in text)


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
