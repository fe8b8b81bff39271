"""Directories and files that the three measuring programs share."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import machine, report
from benchmarks.child import ServerFailed
from benchmarks.generator import GeneratorFailed

RESULTS = Path(__file__).with_name("RESULTS.md")


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """The options that `workplace` and `finish` are given."""
    add = parser.add_argument
    add("--work", type=Path, help="where the servers' data goes (default: the system's temporary directory)")
    add("--json", type=Path, help="also write all single results to this file")
    add("--append", action="store_true", help="put the tables into RESULTS.md, above the older ones")


@contextmanager
def workplace(parent: Path | None) -> Iterator[Path]:
    """A temporary directory for the servers' data; SIGTERM leaves it, and stops what runs, in good order."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    with tempfile.TemporaryDirectory(prefix="mom-bench-", dir=parent) as name:
        directory = Path(name)
        kind = machine.file_system(directory, Path("/proc/mounts").read_text())
        if kind in ("tmpfs", "ramfs"):
            progress(f"warning: {directory} is in memory ({kind}); fsync costs nothing there. See --work")
        yield directory


def finish(section: str, json_file: Path | None, plain: dict[str, object], append: bool) -> None:
    """Hand out the results: on stdout, as JSON where asked for, and in RESULTS.md where asked for."""
    print(section)
    if json_file:
        json_file.write_text(json.dumps(plain, indent=1) + "\n")
    if append:
        report.add_section(RESULTS, section)


def run_or_explain(main: Callable[[], int]) -> int:
    """Run `main`; what the user can fix becomes a sentence and status 1."""
    try:
        return main()
    except (ServerFailed, GeneratorFailed) as failure:
        progress(f"failed: {failure}")
    except KeyboardInterrupt:
        progress("interrupted; nothing was written")
    return 1
