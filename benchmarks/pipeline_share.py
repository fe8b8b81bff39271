"""The rate that is left to a broker beside a run of the pipeline, which reads its journal."""

from __future__ import annotations

import os
import signal
import statistics
import time
from contextlib import suppress
from typing import Final

import psutil

from benchmarks.background_load import BackgroundLoad
from benchmarks.child import Child
from benchmarks.pipeline_bench import Bench, Found
from benchmarks.pipeline_data import Broker
from benchmarks.pipeline_processes import is_idle, pair
from benchmarks.pipeline_promises import Seen

#: seconds at scale 1 in which the broker has all that it can do, and those before
_FULL_S, _SETTLE_S = 240.0, 5.0
#: the part of a processor that the pipeline has in a second in which it rests
_RESTS: Final = 0.03
#: seconds that a run works, and that it is stopped, by turns; and those after each turn that are not counted
_PHASE_S, _TURN_S = 4.0, 1.0
#: what the run of an archive leaves to its broker, by its niceness
_ARCHIVES = {"share-archive": "10", "share-archive-19": "19"}


def shares(bench: Bench) -> Found:
    """The broker's rate beside statistics, which rest when the broker is busy, and beside an archive, which
    has always more to read."""
    seconds = max(20.0, bench.share(_FULL_S))
    broker = bench.broker("share", 4)
    child = broker.mom("run", "statistics", "--every", "2s", state=bench.directory / "state" / "share")
    child.wait_until(lambda: is_idle(broker), 120)
    yield from _beside_statistics(bench, broker, child, seconds)
    child.stop()
    for name, niceness in _ARCHIVES.items():
        out = str(bench.directory / name)
        words = ("run", "archive", "--messages", "--every", "1s", "--out", out, "--nice", niceness)
        child = broker.mom(*words, "--name", name, state=bench.directory / "state" / name)
        yield name, _beside_archive(bench, broker, child, name, seconds)
        child.stop()


def _beside_statistics(bench: Bench, broker: Broker, child: Child, seconds: float) -> Found:
    """The share on average, and in seconds in which the run works: beside those in which it rests, which come
    every few seconds, since a machine is seldom equally fast for a minute."""
    pipeline = psutil.Process(child.pid)
    resting: list[float] = []
    working: list[float] = []
    with BackgroundLoad(bench.generator, pair(broker, "full", seconds + 2 * _SETTLE_S)) as load:
        time.sleep(_SETTLE_S)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            before = _processor_s(pipeline)
            rate = load.rate(lambda: broker.published("full"), 1.0)
            (resting if _processor_s(pipeline) - before < _RESTS else working).append(rate)
    if not resting or not working:
        missing = "rested" if working else "worked"
        for name in ("share-average", "share-working"):
            yield name, Seen(0.0, fault=f"the run never {missing}, so there is nothing to compare with")
        return
    alone = statistics.mean(resting)
    for name, rates in (("share-average", resting + working), ("share-working", working)):
        shown = f"{statistics.mean(rates):,.0f} of {alone:,.0f} messages/s in {len(rates)} s"
        yield name, Seen(statistics.mean(rates) / alone, shown)


def _beside_archive(bench: Bench, broker: Broker, child: Child, name: str, seconds: float) -> Seen:
    """The share beside a run that never rests: it is stopped and goes on by turns. It has to read what comes
    meanwhile anyway, so no turn makes work for another."""
    working: list[float] = []
    stopped: list[float] = []
    child.wait_until(lambda: _has_rows(broker, name), 240)
    with BackgroundLoad(bench.generator, pair(broker, name, seconds + 2 * _SETTLE_S)) as load:
        time.sleep(_SETTLE_S)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for number, rates in ((signal.SIGCONT, working), (signal.SIGSTOP, stopped)):
                _signal(child.pid, number)
                time.sleep(_TURN_S)
                rates.append(load.rate(lambda: broker.published(name), _PHASE_S - _TURN_S))
        _signal(child.pid, signal.SIGCONT)
    meanwhile, alone = statistics.mean(working), statistics.mean(stopped)
    return Seen(meanwhile / alone, f"{meanwhile:,.0f} of {alone:,.0f} messages/s, {len(working)} turns each")


def _has_rows(broker: Broker, name: str) -> bool:
    runs = broker.ask("GET", "pipeline/runs")["items"]
    return any(run["name"] == name and run["rows"] for run in runs)


def _tree(pid: int) -> list[psutil.Process]:
    """A process, and those that it has started."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _signal(pid: int, number: signal.Signals) -> None:
    for process in _tree(pid):
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _processor_s(root: psutil.Process) -> float:
    """The processor time that a process and those that it has started have had."""
    found = 0.0
    for process in _tree(root.pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found += times.user + times.system
    return found
