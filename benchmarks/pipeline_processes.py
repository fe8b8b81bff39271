"""Costs of the pipeline in processes of its own: time to start, memory, and what it takes from a broker."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.child import Child
from benchmarks.pipeline_bench import MEMORY, Bench, Found
from benchmarks.pipeline_data import Broker
from benchmarks.pipeline_promises import Seen
from benchmarks.servers import REPOSITORY

#: messages at scale 1, whose events are two each
_MESSAGES = 5_000_000
_GIB = 1024**3
#: events a second while freshness is measured, of a message two, and seconds
_FRESH_EVENTS, _FRESH_S = 5_000, 60.0
#: seconds after which the last events are in the console
_LATE_S = 15.0
#: seconds between two looks
_LOOK_S = 0.1

# -------------------------------------------------------------------------------- start


def starting(bench: Bench) -> Found:
    """From the start of a process to the first row of a broker, without a cache and with one."""
    cache = bench.directory / "cache"
    yield "start-cold", Seen(_first_row_s(bench, bench.directory / "no-cache"))
    began = time.monotonic()
    mom = [sys.executable, "-m", "broker_app.cli", "pipeline", "warm", "-q"]
    subprocess.run(mom, check=True, cwd=REPOSITORY, env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    warmed = time.monotonic() - began
    runs = sorted(_first_row_s(bench, cache) for _ in range(bench.runs))
    shown = f"{runs[0]:.1f} to {runs[-1]:.1f} s; `mom pipeline warm` took {warmed:.0f} s"
    yield "start-warm", Seen(statistics.median(runs), shown)


def _first_row_s(bench: Bench, cache: Path) -> float:
    command = [sys.executable, "-m", "benchmarks.pipeline_first_row", bench.events.journal_url]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        taken = time.monotonic() - began
        process.communicate()
    return taken


# ------------------------------------------------------------------------------- memory


def memory(bench: Bench) -> Found:
    """The largest memory of all processes while ten million events are archived, and read back."""
    more = bench.size(_MESSAGES) - bench.events.messages
    if more > 0:
        bench.events.pass_through(bench.generator, more)
    out = bench.directory / "memory"
    words = ("run", "archive", "--out", str(out), "--memory", MEMORY, "--source", bench.events.journal_url)
    began = time.monotonic()
    child = bench.events.mom(*words, state=bench.directory / "state" / "memory")
    peak = _peak_gib(child)
    taken = time.monotonic() - began
    reader = Child(
        "reader",
        [sys.executable, "-m", "benchmarks.pipeline_read_back", str(out), str(bench.directory / "rows")],
        bench.directory / "reader.log", cwd=REPOSITORY, env={},
    )  # fmt: skip
    read_peak = _peak_gib(reader)
    counted = json.loads((bench.directory / "rows").read_text())
    events = 2 * bench.events.messages
    fault = "" if counted["ends"] == counted["enqueued"] == events // 2 else f"the archive has {counted}"
    yield "memory-archive", Seen(peak, f"{counted['rows']:,} events in {taken:.0f} s, with the start", fault)
    yield "memory-read", Seen(read_peak, f"counted by destination in {counted['seconds']:.0f} s")


def _peak_gib(child: Child) -> float:
    """The largest sum of RSS of a process and all that it has started; what they share counts for each."""
    peak, root = 0.0, psutil.Process(child.pid)
    while child.running:
        try:
            tree = [root, *root.children(recursive=True)]
            peak = max(peak, sum(process.memory_info().rss for process in tree) / _GIB)
        except psutil.NoSuchProcess:
            pass
        time.sleep(_LOOK_S)
    child.check_success()
    return peak


# ---------------------------------------------------------------------------- freshness


def freshness(bench: Bench) -> Found:
    """The time until an event is in the console."""
    broker = bench.broker("fresh", 3)
    state = bench.directory / "state" / "fresh"
    child = broker.mom("run", "statistics", "--every", "2s", state=state)
    child.wait_until(lambda: is_idle(broker), 120)
    delays = _delays(bench, broker)
    delays.sort()
    p50, p95 = (delays[round(rank * (len(delays) - 1))] for rank in (0.5, 0.95))
    yield "freshness", Seen(p95, f"p50 {p50:.1f} s, largest {delays[-1]:.1f} s; trigger 2 s")
    child.stop()


def is_idle(broker: Broker) -> bool:
    """True if the run of statistics waits for events."""
    runs = broker.ask("GET", "pipeline/runs")["items"]
    return any(run["name"] == "statistics" and run["state"] == "idle" for run in runs)


def pair(broker: Broker, queue: str, seconds: float, *more: str) -> list[str]:
    """The options of a producer and a consumer at full speed."""
    options = ["--mode", "pair", "-p", "1", "-c", "1", "--dest", f"/queue/{queue}", "--size", "100"]
    options += ["--persistent", "1", "--receipts", "--window", "256", "--ack", "client-individual"]
    return [*broker.stomp("tcp"), *options, "--warmup", "2", "--duration", str(seconds), *more]


def _delays(bench: Bench, broker: Broker) -> list[float]:
    """The seconds from the time at which a message was in the queue to that at which the console counts
    it."""
    queue, seconds = "fresh", _FRESH_S
    options = pair(broker, queue, seconds, "--rate", str(_FRESH_EVENTS // 2))
    sent: list[tuple[float, int]] = []
    shown: list[tuple[float, int]] = []
    ended = threading.Event()

    def watch(into: list[tuple[float, int]], count: Callable[[], int]) -> None:
        while not ended.wait(_LOOK_S):
            now = time.monotonic()
            into.append((now, count()))

    def counted() -> int:
        rows = broker.ask("GET", f"pipeline/statistics?destination=/queue/{queue}")["items"]
        return sum(row["enqueued"] for row in rows)

    threads = [
        threading.Thread(target=watch, args=(sent, lambda: broker.published(queue))),
        threading.Thread(target=watch, args=(shown, counted)),
    ]
    for thread in threads:
        thread.start()
    bench.generator.run(options, 120 + 4 * seconds)
    time.sleep(_LATE_S)
    ended.set()
    for thread in threads:
        thread.join()
    return _matched(sent, shown)


def _matched(sent: list[tuple[float, int]], shown: list[tuple[float, int]]) -> list[float]:
    """For each count of messages that were sent, the seconds until so many were shown."""
    delays, at = [], 0
    for when, count in sent:
        if not count:
            continue
        while at < len(shown) and shown[at][1] < count:
            at += 1
        if at == len(shown):
            break
        delays.append(max(0.0, shown[at][0] - when))
    return delays
