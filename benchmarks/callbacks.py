"""The cost of hostile webhooks for others, and the rate to a receiver that is fast.

`python -m benchmarks.callbacks` runs W1 on one broker, by turns with all callbacks paused and with hostile
ones that have messages to push: receivers that never answer, answer byte by byte, reset, refuse with an
endless body, or accept after two seconds. Ratios are taken within each round. Then it measures pushes a
second to one receiver that accepts at once.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine, workloads
from benchmarks.before_after import ratios, table
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import Child
from benchmarks.generator import Generator
from benchmarks.measurement import Length, Measurement, measure
from benchmarks.run import warm_up
from benchmarks.servers import HOST, REPOSITORY, Mom
from benchmarks.workloads import Workload

_WITHOUT, _WITH = "paused", "hostile"
#: the least share of the rate that is promised with hostile receivers
_SHARE = 0.95
#: messages that wait for each hostile receiver, so that there is always something to push
_WAITING = 2_000
_BATCH = 1_000
_TIMEOUT_S = 5.0


class Hooked(Mom):
    """A broker that may call this machine."""

    ports = (8145, 61728)

    def _child(self, command: list[str], environment: dict[str, str]) -> Child:
        return super()._child(command, {**environment, "MOM_WEBHOOK_ALLOW": HOST})

    def desire(self, callback: str, desired: str) -> None:
        """Have a callback paused or running."""
        self.ask("PATCH", f"callbacks/{callback}", {"desired": desired}, **{"if-match": "*"})

    def publish(self, queue: str, count: int, size: int = 1) -> None:
        """Publish texts."""
        items = [{"body": "x" * size}] * min(count, _BATCH)
        for _ in range(0, count, _BATCH):
            self.ask("POST", f"queues/{queue}/messages/batch", items)


class Receivers:
    """The process of the receivers: `ports` are that of the fast one, and those of the hostile ones."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program
        self.ports = [int(port) for port in self._answer().split()]

    @property
    def accepted(self) -> int:
        """Pushes that the fast one has accepted."""
        assert self._program.stdin is not None
        self._program.stdin.write("\n")
        self._program.stdin.flush()
        return int(self._answer())

    def _answer(self) -> str:
        assert self._program.stdout is not None
        return self._program.stdout.readline()


@contextmanager
def receivers(count: int) -> Iterator[Receivers]:
    """Receivers for the length of a `with` block."""
    command = [sys.executable, "-m", "benchmarks.hooks", str(count)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=REPOSITORY, text=True, **pipes) as program:  # type: ignore[call-overload]
        try:
            yield Receivers(program)
        finally:
            program.kill()


def make_callbacks(broker: Hooked, ports: Sequence[int]) -> list[str]:
    """Make a paused callback to each hostile receiver, with messages; their names."""
    names = []
    for number, port in enumerate(ports):
        name = f"hostile-{number}"
        said = {"retry_s": 0.1, "max_retry_s": 1, "timeout_s": _TIMEOUT_S, "desired": "paused"}
        broker.ask("PUT", f"callbacks/{name}", {"url": f"http://{HOST}:{port}/", "queue": name, **said})
        broker.publish(name, _WAITING)
        names.append(name)
    return names


def desire(broker: Hooked, names: Sequence[str], desired: str) -> None:
    """Pause or resume callbacks. Resumed ones are asked again at once: no breaker helps."""
    for name in names:
        broker.desire(name, desired)
    if desired == "running":
        for name in names:
            broker.ask("POST", f"callbacks/{name}/push")
    else:
        time.sleep(_TIMEOUT_S)  # what is under way ends


def by_turns(
    broker: Hooked,
    names: Sequence[str],
    chosen: Sequence[Workload],
    generator: Generator,
    length: Length,
    runs: int,
) -> list[Measurement]:
    """The runs of all rounds; which one is first changes."""
    done = []
    for number in range(1, runs + 1):
        for state in (_WITHOUT, _WITH) if number % 2 else (_WITH, _WITHOUT):
            desire(broker, names, "running" if state == _WITH else "paused")
            for workload in chosen:
                run = replace(measure(workload, broker, generator, length, number), server=state)
                done.append(run)
                progress(
                    f"round {number}, {state}: {run.figures.get('rate', 0):,.0f}/s {'; '.join(run.faults)}"
                )
    return done


def rate_to_one(broker: Hooked, receiving: Receivers, count: int, size: int) -> float:
    """Messages a second from a queue that is full to a receiver that accepts at once."""
    name = f"fast-{size}"
    said = {"url": f"http://{HOST}:{receiving.ports[0]}/", "queue": name, "max_in_flight": 50}
    broker.ask("PUT", f"callbacks/{name}", {**said, "desired": "paused"})
    broker.publish(name, count, size)
    before, began = receiving.accepted, time.monotonic()
    broker.desire(name, "running")
    while receiving.accepted < before + count:
        time.sleep(0.02)
    taken = time.monotonic() - began
    broker.desire(name, "paused")
    return count / taken


def verdict(done: Sequence[Measurement], workload: Workload, hostile: int) -> str:
    """A sentence that compares the share of the rate with the promised one."""
    share = statistics.median(ratios(done, workload.name, "rate", _WITHOUT))
    kept = "kept" if share >= _SHARE else "missed"
    return (
        f"- {workload.title} to another queue, with {hostile} hostile receivers: {share:.3f} of the rate, "
        f"at least {_SHARE:.2f}: {kept}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.callbacks", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="rounds (5)")
    parser.add_argument("--only", default="w1-256-100", help="names of workloads (w1-256-100)")
    parser.add_argument("--duration", type=float, default=6, help="measured seconds of a run (6)")
    parser.add_argument("--hostile", type=int, default=20, help="hostile receivers (20)")
    parser.add_argument("--pushes", type=int, default=20_000, help="messages to the fast receiver (20000)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    chosen, length = workloads.chosen(arguments.only.split(",")), Length(arguments.duration)
    with workplace(arguments.work) as directory, ExitStack() as running:
        generator = Generator.build(directory)
        receiving = running.enter_context(receivers(arguments.hostile))
        broker = Hooked(Path(directory) / "broker")
        progress(f"{broker.name} ready after {broker.start():.1f} s")
        running.callback(broker.stop)
        place = machine.describe(directory)
        names = make_callbacks(broker, receiving.ports[1:])
        warm_up(broker, generator, 5)
        done = by_turns(broker, names, chosen, generator, length, arguments.runs)
        desire(broker, names, "paused")
        rates = {size: rate_to_one(broker, receiving, arguments.pushes, size) for size in (100, 1024)}
    lines = [
        f"## Webhooks, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        f"- {Mom.version()}; {arguments.runs} rounds by turns, each run {length.seconds:g} s.",
        "",
        f"Before: all callbacks paused. After: {arguments.hostile} of them push to hostile receivers.",
        "",
        table(chosen, done, _WITHOUT, _WITH),
        "",
        *(verdict(done, workload, arguments.hostile) for workload in chosen),
        *(
            f"- To one receiver that accepts at once, 50 in flight, {size} B: {rate:,.0f} pushes/s"
            for size, rate in rates.items()
        ),
    ]
    plain: dict[str, object] = {"measurements": [run.plain() for run in done], "rates": rates}
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return int(any(run.faults for run in done))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
