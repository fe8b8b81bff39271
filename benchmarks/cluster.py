"""Brokers of a cluster: what a link costs next to one broker alone, and a RabbitMQ cluster of two.

`python -m benchmarks.cluster` starts a broker without a cluster, one that is alone in its cluster, and three
that are linked. A case does the same work on several routes by turns; which is first changes each round, and
ratios are taken within each round.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine, workloads
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import Child
from benchmarks.failover import RabbitNode
from benchmarks.generator import Generator, GeneratorFailed, faults
from benchmarks.measurement import Measurement
from benchmarks.report import summarise
from benchmarks.servers import HOST, PREFETCH, Mom, RabbitMQ, Server
from benchmarks.workloads import MEASURES, MeasureName

GROUPS = ("link", "latency", "preference", "fan-out", "alone", "peers")
SHOWN: tuple[MeasureName, ...] = ("rate", "latency_p50", "confirm_p50", "confirm_p99", "cpu")
_CONFIRMED = ("--persistent", "1", "--receipts", "--ack", "client-individual")
_SUBSCRIBERS = 300
#: the first ports of these brokers: web, STOMP, cluster
_WEB, _STOMP, _CLUSTER = 8170, 61770, 7690
_LINKED_S = 30.0
#: seconds between SUBSCRIBE and the first SEND, in which the interest of a broker reaches the others
_SETTLING_S = "0.5"


class Broker(Mom):
    """A broker that is linked to the `others` of its cluster, or that has no cluster."""

    def __init__(self, directory: Path, number: int, password: str, others: Sequence[int] | None) -> None:
        super().__init__(directory)
        self.password = password
        self.ports = (_WEB + number, _STOMP + number)
        self._others = len(others or ())
        if others is not None:
            addresses = ",".join(f"{HOST}:{_CLUSTER + one}" for one in (number, *others))
            self.options = ("--name", f"b{number}", "--cluster-port", f"{_CLUSTER + number}")
            self.options += ("--cluster", addresses)

    def _child(self, command: list[str], env: dict[str, str]) -> Child:
        return super()._child(command, {**env, "MOM_CLUSTER_SECRET": self.password})

    def wait_until_linked(self) -> None:
        """Wait for the links to all others. Raises `ServerFailed`."""
        self._main.wait_until(lambda: len(self.sent()) == self._others, _LINKED_S)

    def sent(self) -> dict[str, int]:
        """The messages that have crossed to each broker that is linked."""
        links = self.ask("GET", "cluster")["links"]
        return {link["broker"]: link["sent"] for link in links if link["state"] == "up"}


def _plain(queue: str) -> str:
    return f"/queue/{queue}"


@dataclass(frozen=True)
class Route:
    """Where clients connect: producers to one server, consumers to others by turns. `prepare` makes a queue
    of this name ready, and returns its address. `further` options go behind those of the case."""

    name: str
    producers: Server
    consumers: tuple[Server, ...]
    prepare: Callable[[str], str] = _plain
    further: tuple[str, ...] = ()

    def options(self) -> list[str]:
        """mombench's options for addresses, login and the processes that are measured."""
        first, login = _address(self.producers)
        found = ["--url", first, *login]
        for server in self.consumers:
            found += ["--sub-url", _address(server)[0]]
        pids = dict.fromkeys(str(server.pid) for server in (self.producers, *self.consumers))
        return [*found, "--server-pid", ",".join(pids), "--server-tree"]


def _address(server: Server) -> tuple[str, list[str]]:
    """Where a server accepts STOMP over TCP, and the further options for it."""
    url, address, *others = server.stomp("tcp")
    assert url == "--url"
    return address, others[: others.index("--server-pid")]


@dataclass(frozen=True)
class Promise:
    """What the first route of a case must reach next to the better of the others: a ratio of rates, or at
    most so many ms more at the median."""

    least_ratio: float = 0
    most_added_ms: float = 0

    def words(self) -> str:
        return f"≥ {self.least_ratio:g}x" if self.least_ratio else f"< {self.most_added_ms:g} ms added"


@dataclass(frozen=True)
class Case:
    """The same work on several routes, the promise is about the first. What it is compared with are the
    others, but for the `explaining` ones, which are measured and shown."""

    name: str
    title: str
    compared: tuple[Route, ...]
    options: tuple[str, ...]
    promise: Promise
    explaining: tuple[Route, ...] = ()
    #: the mode of mombench
    mode: str = "pair"
    topic: bool = False

    @property
    def routes(self) -> tuple[Route, ...]:
        """All that are measured."""
        return (*self.compared, *self.explaining)


class Cases:
    """The cases of each group, on servers that run."""

    def __init__(self, plain: Broker, single: Broker, linked: Sequence[Broker]) -> None:
        self._plain, self._single, self._linked = plain, single, linked
        b1, b2, _ = linked
        self._local = Route("one broker", b1, (b1,))
        self._across = Route("across a link", b1, (b2,))

    def link(self) -> Iterator[Case]:
        """A queue with its consumer at another broker, and one with the consumer at the same."""
        for size in (100, 1024):
            for window in (1, 32, 256):
                yield Case(
                    f"link-{window}-{size}",
                    f"W1, window {window}, {_size(size)}",
                    (self._across, self._local),
                    (*_pairs(1, 1), "--size", str(size), "--window", str(window), *_CONFIRMED),
                    Promise(least_ratio=0.6),
                )

    def latency(self) -> Iterator[Case]:
        """The same at a moderate rate."""
        for rate in (200, 2_000):
            yield Case(
                f"latency-{rate}",
                f"{rate:,} messages/s, 100 B",
                (self._across, self._local),
                (*_pairs(1, 1), "--size", "100", "--window", "256", "--rate", str(rate), *_CONFIRMED),
                Promise(most_added_ms=2),
            )

    def preference(self) -> Iterator[Case]:
        """Consumers at two brokers that prefer local ones, and as many at one broker without a cluster; and,
        since only one of them is local, that one alone without a cluster."""
        b1, b2, _ = self._linked

        def prefer_local(queue: str) -> str:
            b1.ask("PUT", f"queues/{queue}", {"prefer_local": True})  # the others learn it from this one
            return _plain(queue)

        for size in (100, 1024):
            for window in (32, 256):  # with the larger one, a local consumer may use up its credit
                yield Case(
                    f"preference-{window}-{size}",
                    f"prefer_local, consumers at both brokers, window {window}, {_size(size)}",
                    (
                        Route("cluster of two", b1, (b1, b2), prefer_local),
                        Route("no cluster", self._plain, (self._plain,)),
                    ),
                    (*_pairs(1, 2), "--size", str(size), "--window", str(window), *_CONFIRMED),
                    Promise(least_ratio=0.95),
                    (Route("no cluster, one consumer", self._plain, (self._plain,), further=("-c", "1")),),
                )

    def fan_out(self) -> Iterator[Case]:
        """Subscribers spread over three brokers, and as many at one."""
        for lag in (30, 300):  # the more are in flight, the more each turn of a broker has for a subscriber
            yield Case(
                f"fan-out-{lag}",
                f"1→{_SUBSCRIBERS}, at most {lag} in flight, 100 B",
                (
                    Route("three brokers", self._linked[0], tuple(self._linked)),
                    Route("no cluster", self._plain, (self._plain,)),
                ),
                (*_pairs(1, _SUBSCRIBERS), "--size", "100", "--max-lag", f"{lag}", "--persistent", "0"),
                Promise(least_ratio=1),
                mode="fanout",
                topic=True,
            )

    def alone(self) -> Iterator[Case]:
        """A broker whose cluster has no other one yet, and one without a cluster."""
        routes = (
            Route("cluster of one", self._single, (self._single,)),
            Route("no cluster", self._plain, (self._plain,)),
        )
        promise = Promise(least_ratio=0.97)
        size_window = ("--size", "100", "--window", "256")
        yield Case(
            "alone-w1", "W1, window 256, 100 B", routes, (*_pairs(1, 1), *size_window, *_CONFIRMED), promise
        )
        reply = (*_pairs(1, 1), "--size", "100", "--reply-to", "/temp-queue/r%d", "--reply-subscribe")
        yield Case("alone-w8", "W8, request/reply, 100 B", routes, reply, promise, mode="reqrep")

    def peers(self, nodes: Sequence[RabbitNode]) -> Iterator[Case]:
        """A queue at the first broker, its producer there and its consumer at the second."""
        first, second = nodes

        def declare(kind: str) -> Callable[[str], str]:
            def prepare(queue: str) -> str:
                _declare(first, queue, kind)
                return f"/amq/queue/{queue}"

            return prepare

        routes = (
            Route("MOM", self._linked[0], (self._linked[1],)),
            Route("RabbitMQ, classic", first, (second,), declare("classic")),
            Route("RabbitMQ, quorum", first, (second,), declare("quorum")),
        )
        for size in (100, 1024):
            for window in (1, 256):
                yield Case(
                    f"peers-{window}-{size}",
                    f"window {window}, {_size(size)}",
                    routes,
                    (*_pairs(1, 1), "--size", str(size), "--window", str(window), *_CONFIRMED),
                    Promise(least_ratio=3),
                )


def _pairs(producers: int, consumers: int) -> tuple[str, ...]:
    return "-p", str(producers), "-c", str(consumers)


def _size(size: int) -> str:
    return "1 KiB" if size == 1024 else f"{size} B"


def _declare(node: RabbitNode, queue: str, kind: str) -> None:
    """Declare a queue whose leader is that node."""
    body = {"durable": True, "node": node.node, "arguments": {"x-queue-type": kind}}
    request = urllib.request.Request(
        f"http://{HOST}:{node.ports[2]}/api/queues/%2f/{queue}",
        json.dumps(body).encode(),
        {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=30).close()


# ---------------------------------------------------------------------- runs


class Runs:
    """Runs cases, and collects what was measured."""

    def __init__(self, generator: Generator, rounds: int, seconds: float) -> None:
        self._generator = generator
        self._rounds = rounds
        self._seconds = seconds
        self.done: list[Measurement] = []

    def measure(self, case: Case) -> None:
        """Run all routes of a case by turns, in each round another one first."""
        for number in range(1, self._rounds + 1):
            first = number % len(case.routes)
            for route in (*case.routes[first:], *case.routes[:first]):
                run = self._run(case, route, number)
                self.done.append(run)
                figures = ", ".join(f"{name} {value:,.2f}" for name, value in run.figures.items())
                progress(f"{number}/{self._rounds} {case.name}, {route.name}: {figures} {run.faults or ''}")

    def _run(self, case: Case, route: Route, number: int) -> Measurement:
        name = f"{case.name}-{number}-{case.routes.index(route)}"
        destination = f"/topic/{name}" if case.topic else route.prepare(name)
        before = _sent(route)
        options = [*route.options(), "--mode", case.mode, "--dest", destination, *case.options]
        options += [
            *route.further,
            "--settle",
            _SETTLING_S,
            "--warmup",
            "1",
            "--duration",
            str(self._seconds),
        ]
        try:
            raw = self._generator.run(options, 120 + 4 * self._seconds)
        except GeneratorFailed as failure:
            for server in (route.producers, *route.consumers):
                server.check()
            return Measurement(case.name, route.name, number, {}, [f"could not run: {failure}"], {})
        found = faults(raw)
        raw["crossed"] = crossed = {name: sent - before[name] for name, sent in _sent(route).items()}
        if case.topic:
            found += [f"{count} crossed to {name}" for name, count in crossed.items() if count != raw["sent"]]
        return Measurement(case.name, route.name, number, workloads.measured(raw), found, raw)


def _sent(route: Route) -> dict[str, int]:
    """The messages that have crossed each link of the broker of the producers."""
    broker = route.producers
    return broker.sent() if isinstance(broker, Broker) and len(set(route.consumers)) > 1 else {}


# ---------------------------------------------------------------------- tables


def reached(case: Case, done: Sequence[Measurement]) -> tuple[float, str, bool]:
    """What the first route has reached next to the better of the others: the median over the rounds, in
    words, and whether that keeps the promise."""
    measure: MeasureName = "rate" if case.promise.least_ratio else "latency_p50"
    rounds: dict[int, dict[str, float]] = {}
    compared = {route.name for route in case.compared}
    for run in done:
        if run.workload == case.name and run.server in compared and measure in run.figures:
            rounds.setdefault(run.round, {})[run.server] = run.figures[measure]
    first = case.compared[0].name
    complete = [figures for figures in rounds.values() if len(figures) == len(compared)]
    clean = not any(run.faults for run in done if run.workload == case.name and run.server == first)
    if not complete:
        return 0.0, "—", False
    best = max if MEASURES[measure].more_is_better else min
    pairs = [
        (figures[first], best(value for name, value in figures.items() if name != first))
        for figures in complete
    ]
    if case.promise.least_ratio:
        all_ratios = [ours / theirs for ours, theirs in pairs]
        ratio = statistics.median(all_ratios)
        words = f"{ratio:.2f} ({min(all_ratios):.2f}-{max(all_ratios):.2f})"
        return ratio, words, clean and ratio >= case.promise.least_ratio
    added = statistics.median(ours - theirs for ours, theirs in pairs)
    return added, f"{added:+.2f} ms", clean and added < case.promise.most_added_ms


def table(cases: Sequence[Case], done: Sequence[Measurement]) -> str:
    """All medians, with the promise of each case."""
    summaries = summarise(done)
    titles = " | ".join(MEASURES[name].title for name in SHOWN)
    rows = [f"| case | route | {titles} | ratio (min-max of rounds) | promised | checked |"]
    rows.append("|---" * (len(SHOWN) + 5) + "|")
    for case in cases:
        _, words, kept = reached(case, done)
        verdict = f"{case.promise.words()}: {'kept' if kept else '**missed**'}"
        for route in case.routes:
            summary = summaries.get((case.name, route.name))
            if summary is None:
                continue
            cells = [
                f"{spread.median:,.{MEASURES[name].digits}f}"
                if (spread := summary.spreads.get(name))
                else "—"
                for name in SHOWN
            ]
            is_first = route is case.routes[0]
            checked = "; ".join(summary.faults).replace("|", "/").replace("\n", " ") or "clean"
            cells += [words, verdict] if is_first else ["", ""]
            rows.append(f"| {case.title} | {route.name} | {' | '.join(cells)} | {checked} |")
    return "\n".join(rows)


# ---------------------------------------------------------------------- program


@contextmanager
def _brokers(directory: Path) -> Iterator[Cases]:
    password = secrets.token_urlsafe(16)
    plain = Broker(directory / "plain", 0, password, None)
    linked = [
        Broker(directory / f"b{one}", one, password, [other for other in (1, 2, 3) if other != one])
        for one in (1, 2, 3)
    ]
    single = Broker(directory / "single", 4, password, [])
    servers = [plain, *linked, single]
    try:
        for server in servers:
            server.start()
        for broker in linked:
            broker.wait_until_linked()
        yield Cases(plain, single, linked)
    finally:
        for server in servers:
            server.stop()


@contextmanager
def _rabbit_nodes(directory: Path) -> Iterator[list[RabbitNode]]:
    nodes = [RabbitNode(directory / f"rabbit{number}", number) for number in range(2)]
    try:
        for node in nodes:
            node.start()
        yield nodes
    finally:
        for node in reversed(nodes):
            node.stop()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.cluster", description=__doc__)
    add = parser.add_argument
    add("--runs", type=int, default=3, help="rounds (3)")
    add("--duration", type=float, default=5, help="measured seconds of a run (5)")
    add("--only", default=",".join(GROUPS), help=f"a selection of {', '.join(GROUPS)}")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    arguments.chosen = arguments.only.split(",")
    if unknown := set(arguments.chosen) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}; known: {', '.join(GROUPS)}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    done: list[Case] = []
    with workplace(arguments.work) as directory:
        place = machine.describe(directory)
        runs = Runs(Generator.build(directory), arguments.runs, arguments.duration)

        def measure(cases: Iterator[Case]) -> None:
            for case in cases:
                runs.measure(case)
                done.append(case)

        with _brokers(directory) as cases:
            for group in GROUPS:
                if group not in arguments.chosen:
                    continue
                if group != "peers":
                    measure(getattr(cases, group.replace("-", "_"))())
                elif RabbitMQ.installed():
                    with _rabbit_nodes(directory) as nodes:
                        measure(cases.peers(nodes))
                else:
                    progress("RabbitMQ is not installed and not measured; `make bench-peers` installs it")
    lines = [
        f"## Clusters, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        f"- {Mom.name} {Mom.version()}. {RabbitMQ.name} {RabbitMQ.version()}, a cluster of two nodes.",
        (
            f"- {arguments.runs} rounds by turns, each run {arguments.duration:g} s after 1 s; prefetch "
            f"{PREFETCH}. CPU is that of all brokers with clients; the load generator shares their cores."
        ),
        "",
        table(done, runs.done),
    ]
    plain: dict[str, object] = {
        "machine": asdict(place),
        "measurements": [measurement.plain() for measurement in runs.done],
    }
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return int(not all(reached(case, runs.done)[2] for case in done))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
