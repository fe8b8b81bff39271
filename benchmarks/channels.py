"""Message channels: requests a second from a site to the handler at another, and what each process spends.

`python -m benchmarks.channels` links two brokers. An application at the first one sends requests to the
handler of an application at the second, with so many in flight; by turns with the broker's own
request/reply, over queues of the first broker, and with requests the other way, to a function in the
process of a library of the first broker. Each case is repeated, and its median shown.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import secrets
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import uvloop

import mom_client
from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import ServerFailed
from benchmarks.cluster import Broker
from benchmarks.servers import HOST, Mom
from benchmarks.sleeping import cpu_s
from mom_client.channels import ResponseChannel

CHANNEL, QUEUE = "channel, two sites", "queue, one broker"
FUNCTION: Final = "channel, two sites, function"
IN_FLIGHT: Final = (1, 32)
_ROUTES: Final = {"channel": CHANNEL, "queue": QUEUE, "function": FUNCTION}
#: the rate that is promised over a channel with 32 in flight, and the most that a call may take at one in
#: flight, next to the broker's own
_RATE, _SLOWER = 10_000, 1.5
#: of the brokers, which have ports that those of `benchmarks.cluster` leave free
_NUMBERS: Final = (6, 7)
_QUEUE_ADDRESS: Final = "/queue/requests"
_WARM_UP_S: Final = 1.0
#: seconds within which the process of a library must have started
_LIBRARY_S: Final = 20.0
_BODY: Final = b"x" * 100
_LIBRARY: Final = """
def echo(channel, parts, need_response):
    channel.send_msg(parts)
"""


@dataclass(frozen=True)
class Run:
    """One run: calls a second, microseconds of a call, and of processor time for a call by process."""

    route: str
    in_flight: int
    rate: float
    median_us: float
    cpu_us: dict[str, float]


# ---------------------------------------------------------------------- the applications


class Handling:
    """An application that has a handler at the second site, and serves the queue at the first one."""

    def __init__(self, first: str, second: str, login: dict[str, Any]) -> None:
        self._environment = mom_client.environment(second, **login)
        self._client = mom_client.connect(first, **login)

    async def run(self, parent: Connection) -> None:
        """Answer all requests; ends by being terminated."""
        await self._environment.repmgr_msg_dispatch(self._answer)
        await self._environment.repmgr_start()
        async with self._client, self._client.subscribe(_QUEUE_ADDRESS, ack="auto") as requests:
            parent.send(None)
            async for request in requests:
                assert request.reply_to is not None
                await self._client.send(
                    request.reply_to,
                    request.body,
                    confirm=False,
                    correlation_id=request.correlation_id,
                    persistent=False,
                )

    @staticmethod
    async def _answer(channel: ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        await channel.send_msg(parts)


class Asking:
    """An application at the first site that sends requests, and to the function there from the second."""

    def __init__(self, first: str, second: str, login: dict[str, Any]) -> None:
        self._environment = mom_client.environment(first, **login)
        self._other = mom_client.environment(second, **login)
        self._client = mom_client.connect(first, **login)

    async def run(self, parent: Connection) -> None:
        """Ask as the parent says; ends by being terminated."""
        await self._environment.repmgr_start()
        await self._other.repmgr_start()
        async with self._client:
            channel = await self._environment.repmgr_channel(f"b{_NUMBERS[1]}")
            to_function = await self._other.repmgr_channel(f"b{_NUMBERS[0]}")

            async def by_channel() -> None:
                await channel.send_request([_BODY])

            async def by_queue() -> None:
                await self._client.request(_QUEUE_ADDRESS, _BODY)

            async def by_function() -> None:
                await to_function.send_request([_BODY])

            routes = {CHANNEL: by_channel, QUEUE: by_queue, FUNCTION: by_function}
            parent.send(None)
            while True:
                route, in_flight, seconds = await asyncio.to_thread(parent.recv)
                parent.send(await self._ask(routes[route], in_flight, seconds))

    async def _ask(
        self, ask: Callable[[], Awaitable[None]], in_flight: int, seconds: float
    ) -> tuple[float, list[float]]:
        """The seconds that it took, and those of each call."""
        taken: list[float] = []
        began = time.perf_counter()

        async def one_after_the_other() -> None:
            at = began
            while at - began < seconds:
                await ask()
                before, at = at, time.perf_counter()
                taken.append(at - before)

        await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))
        return time.perf_counter() - began, taken


def _handle(parent: Connection, *arguments: Any) -> None:
    uvloop.run(Handling(*arguments).run(parent))


def _ask(parent: Connection, *arguments: Any) -> None:
    uvloop.run(Asking(*arguments).run(parent))


class Application:
    """A process with one of them."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()
        self.pipe.recv()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


# ---------------------------------------------------------------------- runs


class Bench:
    """Two linked brokers, their applications, and the process of the library."""

    def __init__(
        self, brokers: Sequence[Broker], asking: Application, handling: Application, library: int
    ) -> None:
        self.pids = {
            "asking": asking.pid,
            "broker": brokers[0].pid,
            "other broker": brokers[1].pid,
            "handling": handling.pid,
            "function": library,
        }
        self._asking = asking

    def measure(self, route: str, in_flight: int, seconds: float) -> Run:
        """Send requests for some seconds."""
        self._run(route, in_flight, _WARM_UP_S)
        before = self._cpu_s()
        took_s, calls_s = self._run(route, in_flight, seconds)
        used = {name: (after - before[name]) * 1e6 / len(calls_s) for name, after in self._cpu_s().items()}
        return Run(route, in_flight, len(calls_s) / took_s, statistics.median(calls_s) * 1e6, used)

    def _run(self, route: str, in_flight: int, seconds: float) -> tuple[float, list[float]]:
        self._asking.pipe.send((route, in_flight, seconds))
        found: tuple[float, list[float]] = self._asking.pipe.recv()
        return found

    def _cpu_s(self) -> dict[str, float]:
        return {name: cpu_s(pid) for name, pid in self.pids.items()}


@contextmanager
def _started(directory: Path) -> Iterator[Bench]:
    password = secrets.token_urlsafe(16)
    first, second = _NUMBERS
    brokers = [
        Broker(directory / f"b{one}", one, password, [other])
        for one, other in ((first, second), (second, first))
    ]
    libraries = directory / "libraries"
    libraries.mkdir()
    (libraries / "bench.py").write_text(_LIBRARY)
    brokers[0].options += ("--reflex-path", str(libraries))
    applications: list[Application] = []
    try:
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.wait_until_linked()
        library = _declare_function(brokers[0])
        urls = [f"stomp://{HOST}:{broker.stomp_port}" for broker in brokers]
        login = {"login": "admin", "passcode": password}
        applications.append(Application(_handle, *urls, login))
        applications.append(Application(_ask, *urls, login))
        handling, asking = applications
        bench = Bench(brokers, asking, handling, library)
        progress(f"processes: {bench.pids}")
        yield bench
    finally:
        for application in applications:
            application.stop()
        for broker in brokers:
            broker.stop()


def _declare_function(broker: Broker) -> int:
    """Have the function of the library as a handler. Returns the pid of its process."""
    before = _children(broker.pid)
    spec = {"kind": "channel", "library": "bench", "function": "echo"}
    broker.ask("PUT", "reflexes/echo", spec, **{"if-none-match": "*"})
    deadline = time.monotonic() + _LIBRARY_S
    while not (found := _children(broker.pid) - before):
        if time.monotonic() > deadline:
            raise ServerFailed(f"the process of the library did not start within {_LIBRARY_S:g} s")
        time.sleep(0.05)
    return min(found)


def _children(pid: int) -> set[int]:
    """The processes that a process has started."""
    return {
        int(child)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for child in path.read_text().split()
    }


# ---------------------------------------------------------------------- tables


def _of(runs: Sequence[Run], route: str, in_flight: int) -> list[Run]:
    return [run for run in runs if (run.route, run.in_flight) == (route, in_flight)]


def table(runs: Sequence[Run]) -> str:
    """The medians of all rounds."""
    names = list(runs[0].cpu_us)
    heads = f"calls/s | median of a call | CPU µs a call: {' | '.join(names)} | together"
    rows = [f"| route | in flight | {heads} |"]
    rows.append("|---" * (len(names) + 5) + "|")
    for route, in_flight in dict.fromkeys((run.route, run.in_flight) for run in runs):
        same = _of(runs, route, in_flight)
        cpu = [statistics.median(run.cpu_us[name] for run in same) for name in names]
        rate = statistics.median(run.rate for run in same)
        median = statistics.median(run.median_us for run in same)
        cells = " | ".join(f"{one:.0f}" for one in (*cpu, sum(cpu)))
        rows.append(f"| {route} | {in_flight} | {rate:,.0f} | {median:,.0f} µs | {cells} |")
    return "\n".join(rows)


def kept(runs: Sequence[Run]) -> tuple[bool, str]:
    """Return whether the promises are kept, and the figures in words."""
    rate = statistics.median(run.rate for run in _of(runs, CHANNEL, IN_FLIGHT[-1]))
    pairs = zip(_of(runs, CHANNEL, 1), _of(runs, QUEUE, 1), strict=True)
    slower = statistics.median(channel.median_us / queue.median_us for channel, queue in pairs)
    words = (
        f"{rate:,.0f} calls/s with {IN_FLIGHT[-1]} in flight (promised {_RATE:,}); one in flight takes "
        f"{slower:.2f}x the time of the broker's own (promised {_SLOWER:g}x)"
    )
    return rate >= _RATE and slower <= _SLOWER, words


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.channels", description=__doc__)
    add = parser.add_argument
    add("--runs", type=int, default=3, help="rounds (3)")
    add("--duration", type=float, default=5, help="measured seconds of a run (5)")
    add("--only", choices=list(_ROUTES), help="one route alone, with the most in flight: for a profiler")
    add_output_options(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    cases = [(in_flight, route) for in_flight in IN_FLIGHT for route in _ROUTES.values()]
    if arguments.only:
        cases = [(IN_FLIGHT[-1], _ROUTES[arguments.only])]
    runs: list[Run] = []
    with workplace(arguments.work) as directory:
        place = machine.describe(directory)
        load = os.getloadavg()[0]
        with _started(directory) as bench:
            for number in range(1, arguments.runs + 1):
                for in_flight, route in cases:
                    runs.append(bench.measure(route, in_flight, arguments.duration))
                    progress(f"{number}/{arguments.runs} {runs[-1]}")
    if arguments.only:
        print(table(runs))
        return 0
    is_kept, words = kept(runs)
    lines = [
        f"## Message channels, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}; load {load:.1f} before",
        f"- {Mom.name} {Mom.version()}; requests and answers of {len(_BODY)} bytes.",
        f"- {arguments.runs} rounds by turns, each run {arguments.duration:g} s after {_WARM_UP_S:g} s.",
        "",
        table(runs),
        "",
        f"{words}.",
    ]
    plain: dict[str, object] = {"machine": asdict(place), "runs": [asdict(run) for run in runs]}
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return int(not is_kept)


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
