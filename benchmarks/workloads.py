"""The workloads W1 to W9 as data: what mombench does, what is measured, which floor must be reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.generator import Raw
from benchmarks.servers import Protocol, RabbitMQ

WARMUP_SECONDS = 2
DEFAULT_SECONDS = 7
DEFAULT_BACKLOG = 1_000_000

MeasureName = Literal["rate", "latency_p50", "latency_p99", "confirm_p50", "confirm_p99", "cpu", "memory"]


@dataclass(frozen=True, slots=True)
class Measure:
    title: str
    digits: int
    more_is_better: bool = False


MEASURES: dict[MeasureName, Measure] = {
    "rate": Measure("messages/s", 0, more_is_better=True),
    "latency_p50": Measure("latency p50 ms", 2),
    "latency_p99": Measure("latency p99 ms", 2),
    "confirm_p50": Measure("confirm p50 ms", 2),
    "confirm_p99": Measure("confirm p99 ms", 2),
    "cpu": Measure("broker CPU s per 100,000", 2),
    "memory": Measure("broker RSS peak MiB", 0),
}


@dataclass(frozen=True, slots=True)
class Floor:
    """A promise about one measure: a ratio to the better peer, or a figure of its own if `absolute`.

    The better peer of a workload is the one that is better in the measure of the workload's first floor.
    `against` names a peer instead, where only that one did the same work.
    """

    measure: MeasureName
    value: float
    absolute: bool = False
    against: str = ""

    def reached(self, value: float) -> bool:
        return value >= self.value if MEASURES[self.measure].more_is_better else value <= self.value

    def words(self) -> str:
        bound = "≥" if MEASURES[self.measure].more_is_better else "≤"
        return f"{bound} {self.value:,g}" + ("" if self.absolute else "x")


@dataclass(frozen=True, slots=True)
class Workload:
    """One run of mombench, the same for every server but for address, login and dialect.

    `destination` gets the number of the round for `{round}`, so that nothing left over from one round
    can disturb the next. A run lasts as long as the caller sets, or until `share` of the backlog has
    passed where that is set.
    """

    name: str
    title: str
    protocol: Protocol
    mode: str
    destination: str
    options: tuple[str, ...]
    floors: tuple[Floor, ...]
    persistent: bool = True
    batch: int = 1
    share: float = 0
    #: of REST, the protocol of the consumer at the same time, if there is one
    consumer: Protocol | None = None

    @property
    def group(self) -> str:
        return self.name.split("-")[0].upper()


CONFIRM = ("--receipts",)
ACKNOWLEDGE = ("--ack", "client-individual")
QUARTER_OF_THE_CPU = Floor("cpu", 0.25)
QUICK_CONFIRMS = (Floor("confirm_p50", 5, absolute=True), Floor("confirm_p99", 15, absolute=True))


def _queue(
    name: str, title: str, rate: float, *, pairs: int = 1, queues: int = 1, size: int, window: int = 256
) -> Workload:
    """Persistent messages through queues, each confirmed and each acknowledged (W1, W2, W3)."""
    protocol: Protocol = "ws" if name.startswith("w3") else "tcp"
    floors = [Floor("rate", rate), QUARTER_OF_THE_CPU]
    if protocol == "tcp" and pairs == 1 and window > 1:
        floors.extend(QUICK_CONFIRMS)
    return Workload(
        name=name,
        title=title,
        protocol=protocol,
        mode="pair",
        destination=f"/queue/{name}-{{round}}" + ("-%d" if queues > 1 else ""),
        options=(
            *("-p", str(pairs), "-c", str(pairs), "--size", str(size), "--window", str(window)),
            *CONFIRM,
            *ACKNOWLEDGE,
        ),
        floors=tuple(floors),
    )


def _fan_out(name: str, title: str, subscribers: int, load: tuple[str, ...], floor: Floor) -> Workload:
    """One producer to a topic with many subscribers, not persistent (W4); the rate is in deliveries."""
    return Workload(
        name=name,
        title=title,
        protocol="tcp",
        mode="fanout",
        destination=f"/topic/{name}-{{round}}",
        options=("-c", str(subscribers), "--size", "100", *load),
        floors=(floor,),
        persistent=False,
    )


def _rest(name: str, title: str, connections: int, floor: Floor, batch: int = 1) -> Workload:
    """POSTs of persistent messages on connections that are kept open (W5)."""
    return Workload(
        name=name,
        title=title,
        protocol="rest",
        mode="produce",
        destination=f"/queue/{name}-{{round}}",
        options=("-p", str(connections), "--size", "100"),
        floors=(floor,),
        batch=batch,
    )


def _consumed(connections: int, consumer: Protocol, size: int, title: str) -> Workload:
    """POSTs of persistent messages on connections that are kept open, and one consumer at full speed (W9)."""
    name = f"w9-{consumer}-{connections}-{size}"
    return Workload(
        name=name,
        title=f"W9 REST publish, {connections} connections, consumed {title}",
        protocol="rest",
        mode="pair",
        destination=f"/queue/{name}-{{round}}",
        options=("-p", str(connections), "-c", "1", "--size", str(size), *ACKNOWLEDGE),
        floors=(Floor("latency_p50", 20, absolute=True),),
        consumer=consumer,
    )


def _backlog(name: str, title: str, mode: str, options: tuple[str, ...], rate: float) -> Workload:
    """Filling a queue without consumers, then emptying it (W6)."""
    return Workload(
        name=name,
        title=title,
        protocol="tcp",
        mode=mode,
        destination="/queue/w6-{round}",
        options=options,
        floors=(Floor("rate", rate), Floor("memory", 0.1, against=RabbitMQ.name)),
        share=1,
    )


WORKLOADS: tuple[Workload, ...] = (
    _queue("w1-256-100", "W1 TCP 1/1, window 256, 100 B", 4, size=100),
    _queue("w1-256-1024", "W1 TCP 1/1, window 256, 1 KiB", 4, size=1024),
    _queue("w1-1-1024", "W1 TCP 1/1, window 1, 1 KiB", 1.2, size=1024, window=1),
    _queue("w2-one-100", "W2 TCP 8/8, one queue, 100 B", 6, pairs=8, size=100),
    _queue("w2-eight-100", "W2 TCP 8/8, eight queues, 100 B", 6, pairs=8, queues=8, size=100),
    _queue("w2-one-1024", "W2 TCP 8/8, one queue, 1 KiB", 5, pairs=8, size=1024),
    _queue("w2-eight-1024", "W2 TCP 8/8, eight queues, 1 KiB", 5, pairs=8, queues=8, size=1024),
    _queue("w3-256-100", "W3 WebSocket 1/1, window 256, 100 B", 2.5, size=100),
    _queue("w3-256-1024", "W3 WebSocket 1/1, window 256, 1 KiB", 2.5, size=1024),
    _queue("w3-one-100", "W3 WebSocket 8/8, one queue, 100 B", 4, pairs=8, size=100),
    _queue("w3-eight-100", "W3 WebSocket 8/8, eight queues, 100 B", 4, pairs=8, queues=8, size=100),
    _fan_out("w4-100", "W4 1→100, at most 100 in flight", 100, ("--max-lag", "100"), Floor("rate", 5)),
    _fan_out("w4-1000", "W4 1→1,000, at most 10 in flight", 1000, ("--max-lag", "10"), Floor("rate", 5)),
    _fan_out("w4-100-slow", "W4 1→100, 50 messages/s", 100, ("--rate", "50"), Floor("latency_p50", 0.5)),
    _fan_out("w4-1000-slow", "W4 1→1,000, 5 messages/s", 1000, ("--rate", "5"), Floor("latency_p50", 0.5)),
    _rest("w5-1", "W5 REST publish, 1 connection", 1, Floor("rate", 8)),
    _rest("w5-8", "W5 REST publish, 8 connections", 8, Floor("rate", 8)),
    _rest("w5-32", "W5 REST publish, 32 connections", 32, Floor("rate", 8)),
    _rest(
        "w5-batch",
        "W5 REST publish, 8 connections, 50 a POST",
        8,
        Floor("rate", 40_000, absolute=True),
        batch=50,
    ),
    _backlog(
        "w6-fill",
        "W6 fill, 1 KiB",
        "produce",
        ("-p", "4", "--size", "1024", "--window", "256", *CONFIRM),
        rate=4,
    ),
    _backlog("w6-drain", "W6 drain, 1 KiB", "drain", ("-c", "1", *ACKNOWLEDGE), rate=3),
    Workload(
        name="w8",
        title="W8 request/reply, one in flight, 100 B",
        protocol="tcp",
        mode="reqrep",
        destination="/queue/w8-{round}",
        options=("-p", "1", "-c", "1", "--size", "100", "--reply-to", "/temp-queue/r%d"),
        floors=(Floor("rate", 1.2),),
        persistent=False,
    ),
)

_CONSUMERS: Final[tuple[tuple[Protocol, str], ...]] = (("tcp", "over TCP"), ("rest", "over REST"))
#: those that are measured when they are named
FURTHER: tuple[Workload, ...] = tuple(
    _consumed(connections, consumer, size, f"{title}, {size_title}")
    for consumer, title in _CONSUMERS
    for connections in (8, 64)
    for size, size_title in ((100, "100 B"), (1024, "1 KiB"))
)


def chosen(names: Iterable[str]) -> tuple[Workload, ...]:
    """The workloads of these groups (`W1`) or names (`w1-256-100`), in the table's order.

    Raises `ValueError` for a name that is neither.
    """
    wanted = {name.strip().lower() for name in names}
    all_of_them = WORKLOADS + FURTHER
    known = {name for workload in all_of_them for name in (workload.name, workload.group.lower())}
    if unknown := wanted - known:
        raise ValueError(f"no such workload: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    return tuple(w for w in all_of_them if w.name in wanted or w.group.lower() in wanted)


def measured(raw: Raw) -> dict[MeasureName, float]:
    """The measures that one run of mombench yields; those that it does not have are absent."""
    found: dict[MeasureName, float] = {
        "rate": raw["confirm_rate"] if raw["mode"] == "produce" else raw["recv_rate"]
    }
    if latency := raw.get("rtt_ms" if raw["mode"] == "reqrep" else "latency_ms"):
        found |= {"latency_p50": latency["p50"], "latency_p99": latency["p99"]}
    if confirm := raw.get("confirm_ms"):
        found |= {"confirm_p50": confirm["p50"], "confirm_p99": confirm["p99"]}
    if server := raw.get("server"):
        found |= {"cpu": server["cpu_s_per_100k"], "memory": server["rss_peak_kib"] / 1024}
    return found
