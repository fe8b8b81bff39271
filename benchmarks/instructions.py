"""Instructions of the interpreter for a message: a measure that no other process disturbs.

`python -m benchmarks.instructions CHECKOUT` starts the broker of an older checkout and then ours, and
counts what the thread of each one's loop does for the same messages. What it does in as many seconds without
messages is subtracted. Times show nothing here: a broker that is counted takes many times as long.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.before_after import older
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.servers import HOST, PREFETCH, Mom
from mom_client.stomp.frame import AckRun, Frame
from mom_client.stomp.parser import Parser

COUNTER = Path(__file__).with_name("instruction_counter.py")
#: functions that the difference is shown of
SHOWN = 12
_READ_BYTES = 1 << 20
#: runs of a case, and the seconds in which a broker without messages is counted
_RUNS, _IDLE_S = 10, 2.0

#: instructions and calls, by function
Counts = dict[str, tuple[float, float]]


class Case(NamedTuple):
    """Messages that `work` publishes and receives over `connections`, `window` of them at a time."""

    title: str
    work: Callable[[Mom, Case], Callable[[int], None]]
    window: int
    size: int
    messages: int
    connections: int = 1


class Stomp:
    """A client that waits: for what it has sent to be confirmed, and for messages."""

    def __init__(self, server: Mom) -> None:
        self._socket = socket.create_connection((HOST, server.stomp_port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = Parser(role="client")
        login = f"login:admin\npasscode:{server.password}"
        self.send(f"CONNECT\naccept-version:1.2\nhost:/\n{login}\n\n\0".encode())
        self.take(1)

    def send(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def take(self, count: int) -> list[Any]:
        """The next `count` frames; receipts of a run count each."""
        taken: list[Any] = []
        while count > 0:
            for frame in self._parser.receive(self._socket.recv(_READ_BYTES)):
                taken.append(frame)
                count -= len(frame.ids) if isinstance(frame, AckRun) else 1
        return taken


def consuming(server: Mom, case: Case) -> Callable[[int], None]:
    """A function that publishes so many messages in a window, receives and acknowledges them."""
    producer, consumer, queue = Stomp(server), Stomp(server), f"/queue/instructions-{case.window}"
    consumer.send(
        f"SUBSCRIBE\nid:1\ndestination:{queue}\nack:client-individual\nprefetch-count:{PREFETCH}\n"
        "receipt:s\n\n\0".encode()
    )
    consumer.take(1)
    head = f"SEND\ndestination:{queue}\npersistent:true\ncontent-length:{case.size}\nreceipt:".encode()
    sends = [b"%b%d\n\n%b\0" % (head, number, b"x" * case.size) for number in range(case.window)]

    def run(count: int) -> None:
        for _ in range(max(1, count // case.window)):
            producer.send(b"".join(sends))
            producer.take(case.window)
            messages: list[Frame] = consumer.take(case.window)
            consumer.send(b"".join(b"ACK\nid:%b\n\n\0" % m.headers["ack"].encode() for m in messages))

    return run


def fanning_out(server: Mom, case: Case) -> Callable[[int], None]:
    """A function that publishes messages to a topic one after the other, each once all subscribers have the
    one before."""
    producer, topic = Stomp(server), "/topic/instructions"
    subscribers = [Stomp(server) for _ in range(case.connections)]
    for one in subscribers:
        one.send(f"SUBSCRIBE\nid:1\ndestination:{topic}\nack:auto\nreceipt:s\n\n\0".encode())
        one.take(1)
    send = f"SEND\ndestination:{topic}\ncontent-length:{case.size}\n\n{'x' * case.size}\0".encode()

    def run(count: int) -> None:
        for _ in range(count):
            producer.send(send)
            for one in subscribers:
                one.take(1)

    return run


def posting(server: Mom, case: Case) -> Callable[[int], None]:
    """A function that publishes so many messages by POST, one over each connection at a time."""
    connections = [socket.create_connection((HOST, server.ports[0])) for _ in range(case.connections)]
    login = base64.b64encode(f"admin:{server.password}".encode()).decode()
    request = (
        f"POST /api/v1/queues/instructions/messages HTTP/1.1\r\nHost: {HOST}\r\n"
        f"Authorization: Basic {login}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {case.size}\r\n\r\n{'x' * case.size}"
    ).encode()

    def run(count: int) -> None:
        for _ in range(count // len(connections)):
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                reply = b""
                while not _is_whole(reply):
                    reply += connection.recv(_READ_BYTES)

    return run


CASES = (
    Case("W1 TCP 1/1, window 1, 1 KiB", consuming, 1, 1024, 60),
    Case("W1 TCP 1/1, window 256, 100 B", consuming, 256, 100, 4 * 256),
    Case("W4 1→200, one in flight", fanning_out, 1, 100, 20, connections=200),
    Case("W5 REST publish, 1 connection", posting, 1, 100, 60),
    Case("W5 REST publish, 32 connections", posting, 1, 100, 4 * 32, connections=32),
)


def _is_whole(reply: bytes) -> bool:
    """Return whether a reply has all of its body. Assumes: it has a content-length."""
    head, _, body = reply.partition(b"\r\n\r\n")
    _, found, length = head.lower().partition(b"\r\ncontent-length:")
    return bool(found) and len(body) >= int(length.partition(b"\r\n")[0])


def counted(kind: type[Mom]) -> type[Mom]:
    """The same broker, in an interpreter that can count."""

    class Counted(kind):  # type: ignore[misc, valid-type]
        def _child(self, command: list[str], env: dict[str, str]) -> Any:
            python, *program = command
            return super()._child([python, str(COUNTER), str(_output(self)), *program], env)

    return Counted


def _output(server: Mom) -> Path:
    return server.directory / "instructions.json"


def _counted(server: Mom) -> Any:
    """The instructions and calls of each function since the last call."""
    os.kill(server.pid, signal.SIGUSR1)
    output = _output(server)
    while not output.exists():
        server.check()
        time.sleep(0.01)
    content = json.loads(output.read_text())
    output.unlink()
    return content


def _counts(server: Mom, work: Callable[[], None]) -> Counts:
    """The instructions and calls of the loop's thread while something was done."""
    _counted(server)
    work()
    found: Counts = defaultdict(lambda: (0.0, 0.0))
    for name, instructions, calls in _counted(server):
        before = found[name]
        found[name] = before[0] + instructions, before[1] + calls
    return found


def measure(server: Mom, case: Case) -> Counts:
    """Instructions and calls for a message, by function; 0 for what has no part in it. Of several runs it is
    that with the fewest instructions: in it, most frames that came together were taken in one turn."""
    run = case.work(server, case)
    run(case.messages)
    idle = _counts(server, lambda: time.sleep(_IDLE_S))
    runs = []
    for _ in range(_RUNS):
        began = time.monotonic()
        found = _counts(server, lambda: run(case.messages))
        share = (time.monotonic() - began) / _IDLE_S
        for name, (instructions, calls) in idle.items():
            before = found[name]
            found[name] = max(0.0, before[0] - share * instructions), max(0.0, before[1] - share * calls)
        runs.append(found)
    least = min(runs, key=lambda found: sum(instructions for instructions, _ in found.values()))
    return {name: (both[0] / case.messages, both[1] / case.messages) for name, both in least.items()}


def table(before: Sequence[Counts], after: Sequence[Counts], chosen: Sequence[Case]) -> str:
    """The sums of both for each case, and their ratio."""
    rows = ["| workload | measure | before | after | ratio |", "|---|---|---|---|---|"]
    for case, *both in zip(chosen, before, after, strict=True):
        for at, measured in enumerate(("instructions", "calls")):
            old, new = (sum(count[at] for count in counts.values()) for counts in both)
            rows.append(
                f"| {case.title} | {measured} a message | {old:,.0f} | {new:,.0f} | {new / old:.3f} |"
            )
    return "\n".join(rows)


def differences(before: Counts, after: Counts) -> list[str]:
    """The functions whose instructions differ most, the largest increase first."""
    nothing = (0.0, 0.0)
    differ = {
        name: after.get(name, nothing)[0] - before.get(name, nothing)[0] for name in before.keys() | after
    }
    most = sorted(differ, key=lambda name: -abs(differ[name]))[:SHOWN]
    return [f"{differ[name]:+8.1f}  {name}" for name in sorted(most, key=lambda name: -differ[name])]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.instructions", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the older checkout, installed with `make build`")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    results: list[list[Counts]] = []
    versions = []
    with workplace(arguments.work) as directory:
        for kind in (older(arguments.checkout.resolve()), Mom):
            with ExitStack() as running:
                server = counted(kind)(directory / kind.name)
                progress(f"{kind.name} {server.version()} ready after {server.start():.1f} s")
                running.callback(server.stop)
                versions.append(server.version())
                results.append([measure(server, case) for case in CASES])
    before, after = results
    for case, *both in zip(CASES, before, after, strict=True):
        progress("\n".join([case.title, *differences(*both)]))
    lines = [
        f"## Instructions, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Before: {versions[0]}. After: {versions[1]}.",
        f"- Of the thread of the loop, less what it does without messages; the least of {_RUNS} runs.",
        "",
        table(before, after, CASES),
    ]
    finish("\n".join(lines), arguments.json, {"versions": versions, "counts": results}, arguments.append)
    return 0


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
