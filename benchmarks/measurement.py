"""One workload on one server, from its options to its checked figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from benchmarks import workloads
from benchmarks.generator import Generator, GeneratorFailed, Raw, faults
from benchmarks.servers import Server
from benchmarks.workloads import MeasureName, Workload


@dataclass(frozen=True, slots=True)
class Length:
    """The length of a run: measured seconds, or messages for the workloads of the backlog."""

    seconds: float = workloads.DEFAULT_SECONDS
    warmup: float = workloads.WARMUP_SECONDS
    backlog: int = workloads.DEFAULT_BACKLOG

    def messages(self, workload: Workload, server: Server) -> int:
        return max(1, int(self.backlog * workload.share * server.backlog_share))

    def options(self, workload: Workload, server: Server) -> list[str]:
        if workload.share:
            return ["--count", str(self.messages(workload, server))]
        return ["--warmup", str(self.warmup), "--duration", str(self.seconds)]

    def timeout(self, workload: Workload, server: Server) -> float:
        """Seconds after which mombench must have ended; at 1,000 messages/s a broker is broken."""
        if workload.share:
            return 60 + self.messages(workload, server) / 1000
        return 120 + 4 * (self.seconds + self.warmup)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one workload on one server. `faults` is empty when nothing went wrong."""

    workload: str
    server: str
    round: int
    figures: dict[MeasureName, float]
    faults: list[str]
    raw: Raw

    def plain(self) -> dict[str, object]:
        return asdict(self)


def options(workload: Workload, server: Server, length: Length, round_number: int) -> list[str]:
    """mombench's command line for this workload on this server."""
    destination = workload.destination.format(round=round_number)
    chosen = ["--mode", workload.mode, *workload.options, *length.options(workload, server)]
    if workload.protocol == "rest":
        queue = destination.removeprefix("/queue/")
        if workload.consumer == "rest":
            return [*server.rest_publish_and_receive(queue), *chosen]
        posting = server.rest_publish(queue, workload.batch)
        if workload.consumer is not None:
            chosen += [*server.stomp(workload.consumer), "--dest", destination]
        return [*posting, *chosen]
    chosen += ["--dest", destination]
    chosen += ["--persistent", "1"] if workload.persistent else server.not_persistent
    if workload.mode == "reqrep":
        chosen += server.reply_options
    return [*server.stomp(workload.protocol), *chosen]


def measure(
    workload: Workload, server: Server, generator: Generator, length: Length, round_number: int
) -> Measurement:
    """Run once and check. Raises `ServerFailed` if the server has ended."""
    timeout = length.timeout(workload, server)
    try:
        raw = generator.run(options(workload, server, length, round_number), timeout)
        found = faults(raw)
        if workload.mode == "produce" and workload.protocol == "rest" and not found:
            found = _missing(workload, server, generator, round_number, raw["confirmed"])
    except GeneratorFailed as failure:
        server.check()
        return Measurement(workload.name, server.name, round_number, {}, [f"could not run: {failure}"], {})
    server.check()
    figures = workloads.measured(raw)
    return Measurement(workload.name, server.name, round_number, figures, found, raw)


def _missing(
    workload: Workload, server: Server, generator: Generator, round_number: int, confirmed: int
) -> list[str]:
    """Take back over STOMP what was published by REST; in words, what did not come back."""
    destination = workload.destination.format(round=round_number)
    drain = ["--mode", "drain", "-c", "1", "--dest", destination, "--ack", "client-individual"]
    raw = generator.run([*server.stomp("tcp"), *drain, "--count", str(confirmed)], 60 + confirmed / 1000)
    return [f"{fault} (reading back)" for fault in faults(raw)]
