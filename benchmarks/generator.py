"""The load generator mombench: compiling it, running it, reading its line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.servers import REPOSITORY

Raw = dict[str, Any]

# Every one of these counts is nought in a clean run.
FAULT_COUNTS = ("lost", "duplicated", "out_of_order", "foreign", "refused", "errors")


class GeneratorFailed(Exception):
    """mombench could not be built or could not do its run."""


class Generator:
    """A compiled mombench."""

    def __init__(self, program: Path) -> None:
        self.program = program

    @classmethod
    def build(cls, directory: Path) -> Generator:
        """Compile mombench.c, found in the directory `$MOMBENCH`, into `directory`."""
        source = Path(os.environ.get("MOMBENCH") or REPOSITORY.parent / "shared/bench") / "mombench.c"
        if not source.exists():
            raise GeneratorFailed(f"{source} is missing; set MOMBENCH to the directory of mombench.c")
        program = directory / "mombench"
        command = ["cc", "-O2", "-std=gnu11", "-o", str(program), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise GeneratorFailed(f"mombench does not compile:\n{done.stderr}")
        return cls(program)

    def run(self, options: Sequence[str], timeout: float) -> Raw:
        """Run once; returns mombench's JSON. Raises `GeneratorFailed` if it could not run at all."""
        try:
            done = subprocess.run(
                [str(self.program), *options], capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise GeneratorFailed(f"mombench had not ended after {timeout:.0f} s") from None
        if not done.stdout.strip():
            raise GeneratorFailed(done.stderr.strip() or f"mombench ended with status {done.returncode}")
        raw: Raw = json.loads(done.stdout)
        return raw


def faults(raw: Raw) -> list[str]:
    """The errors of the broker in one run, in words; empty for a clean run."""
    found = [f"{raw[name]} {name.replace('_', ' ')}" for name in FAULT_COUNTS if raw[name]]
    promised = raw["receipts"] or raw["send_via"] == "http"
    if promised and raw["confirmed"] + raw["refused"] < raw["sent"]:
        found.append(f"{raw['sent'] - raw['refused'] - raw['confirmed']} never confirmed")
    if found and raw.get("first_error"):
        found.append(f"first error: {raw['first_error']}")
    return found
