"""Brokers with traffic of mombench in their journals, for what reads journals."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.bench import progress
from benchmarks.child import Child, ServerFailed
from benchmarks.generator import Generator, faults
from benchmarks.servers import HOST, Mom

#: acknowledged messages stay, so that their events can be read
_RETENTION = 256 * 1024**3
#: queues of the events
QUEUES = 40
#: messages a second that a broker takes at least
_SLOWEST = 5_000


class Broker(Mom):
    """A broker that keeps its journal, and the traffic that it had."""

    def __init__(self, directory: Path, name: str, ports: tuple[int, int], journal: str = "") -> None:
        super().__init__(directory / name)
        self.name = name  # type: ignore[misc]
        self.ports = ports
        self._journal = journal
        self.messages = 0

    def _child(self, command: list[str], environment: dict[str, str]) -> Child:
        more = {"MOM_JOURNAL_RETENTION_BYTES": str(_RETENTION)}
        if self._journal:
            more["MOM_JOURNAL"] = self._journal
        return super()._child(command, {**environment, **more})

    @property
    def journal_url(self) -> str:
        """The address of its journal, read without the broker."""
        return self._journal or f"file://{self.data}"

    @property
    def credential(self) -> str:
        """A file with its login."""
        path = self.directory / "credential"
        path.write_text(f"admin:{self.password}")
        return str(path)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a `mom` that uses it."""
        return {"MOM_URL": f"http://admin:{self.password}@{HOST}:{self.ports[0]}"}

    def mom(self, *words: str, state: Path) -> Child:
        """Start a command of `mom pipeline`, in a process of its own."""
        command = [sys.executable, "-m", "broker_app.cli", "pipeline", *words, "--state", str(state)]
        child = Child(
            f"mom {words[1]}", command, self.directory / f"{words[1]}.log", cwd=self.repository,
            env=self.environment,
        )  # fmt: skip
        self._children.append(child)
        return child

    def produce(self, generator: Generator, messages: int, size: int) -> None:
        """Have it take messages of so many bytes into one queue, where they stay."""
        self._run(
            generator, messages, "--mode", "produce", "-p", "4", "--dest", "/queue/all", "--size", str(size)
        )

    def pass_through(self, generator: Generator, messages: int) -> None:
        """Have messages of 100 bytes sent and acknowledged: each is two events."""
        pairs = ("-p", str(QUEUES), "-c", str(QUEUES), "--ack", "client-individual")
        self._run(generator, messages, "--mode", "pair", *pairs, "--dest", "/queue/e%d", "--size", "100")

    def _run(self, generator: Generator, messages: int, *options: str) -> None:
        progress(f"{self.name}: {messages:,} messages")
        stomp = [*self.stomp("tcp"), *options, "--persistent", "1", "--receipts", "--window", "256"]
        raw = generator.run([*stomp, "--count", str(messages)], 120 + messages / _SLOWEST)
        if found := faults(raw):
            raise ServerFailed(f"{self.name}: {'; '.join(found)}")
        self.messages += messages
