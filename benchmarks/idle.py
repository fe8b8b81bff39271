"""Idle connections: KiB of broker memory for each subscriber that only waits, over WebSocket and over TCP."""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import ServerFailed
from benchmarks.generator import Generator, Raw, faults
from benchmarks.servers import SERVERS, Protocol, Server

LIMITS_KIB: dict[Protocol, float] = {"ws": 50, "tcp": 12}
WORDS: dict[Protocol, str] = {"ws": "WebSocket", "tcp": "TCP"}


def allow_open_files(wanted: int) -> None:
    """Allow us and our children `wanted` open files; raises `ServerFailed` where the system forbids it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        highest = hard if hard == resource.RLIM_INFINITY else max(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, highest))
    except (ValueError, OSError):
        raise ServerFailed(f"{wanted} open files are needed and {hard} allowed; see `ulimit -Hn`") from None


def measure(kind: type[Server], protocol: Protocol, directory: Path, generator: Generator, count: int) -> Raw:
    """Open and hold `count` subscriptions on a fresh server, whose memory holds nothing of earlier ones."""
    server = kind(directory)
    server.start()
    try:
        hold = ["--mode", "idle", "-c", str(count), "--dest", "/topic/idle", "--hold", "10"]
        return generator.run([*server.stomp(protocol), *hold, "--connect-timeout", "180"], 300)
    finally:
        server.stop()


def row(protocol: Protocol, raw: Raw) -> str:
    server = raw["server"]
    kept = server["rss_kib_per_conn"] < LIMITS_KIB[protocol] and not faults(raw)
    return (
        f"| {WORDS[protocol]} | {raw['consumers']:,} | {server['rss_kib_per_conn']:.1f} "
        f"| < {LIMITS_KIB[protocol]:g} | {'pass' if kept else '**miss**'} "
        f"| {server['rss_start_kib'] / 1024:,.0f} → {server['rss_end_kib'] / 1024:,.0f} "
        f"| {raw['connect_s']:.1f} | {'; '.join(faults(raw)) or 'clean'} |"
    )


def _section(results: dict[Protocol, Raw], kind: type[Server], place: machine.Machine) -> str:
    return "\n".join(
        [
            f"## Idle connections, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "",
            f"- Machine: {place.line()}",
            f"- {kind.name} {kind.version()}",
            "- Each connection has one topic subscription and waits; each row is on a fresh server.",
            "",
            "| over | connections | KiB each | promised | | RSS MiB | s to connect all | checked |",
            "|---|---|---|---|---|---|---|---|",
            *(row(protocol, raw) for protocol, raw in results.items()),
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    kinds = {kind.name.lower(): kind for kind in SERVERS}
    parser = argparse.ArgumentParser(prog="benchmarks.idle", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="connections (5000)")
    parser.add_argument("--server", choices=kinds, default="mom", help="which broker (mom)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    kind = kinds[arguments.server]
    allow_open_files(2 * arguments.count + 1024)
    results: dict[Protocol, Raw] = {}
    with workplace(arguments.work) as directory:
        generator = Generator.build(directory)
        place = machine.describe(directory)
        for protocol in LIMITS_KIB:
            if protocol in kind.protocols:
                progress(f"{arguments.count:,} connections over {WORDS[protocol]}")
                where = directory / protocol
                results[protocol] = measure(kind, protocol, where, generator, arguments.count)
    section = _section(results, kind, place)
    finish(section, arguments.json, {WORDS[name]: raw for name, raw in results.items()}, arguments.append)
    return int("**miss**" in section)


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
