"""Counts the interpreter's instructions of one thread, by function.

`python instruction_counter.py OUTPUT PROGRAM ARGUMENT...` runs a Python program. Each SIGUSR1 writes to
OUTPUT, as JSON, what its main thread has done since the last one; the first begins to count.
"""

from __future__ import annotations

import json
import runpy
import signal
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


class InstructionCounter:
    """Counts what the thread that begins does in functions that are called from then on: by function,
    instructions (`opcode` events of a trace) and calls. Other threads are not counted."""

    def __init__(self) -> None:
        self.counts: dict[CodeType, list[int]] = {}

    def begin(self) -> None:
        """Begin to count, from 0."""
        self.counts = {}
        sys.settrace(self._enter)

    def end(self) -> None:
        """End the counting."""
        sys.settrace(None)

    @property
    def instructions(self) -> int:
        """All that were counted."""
        return sum(instructions for instructions, _ in self.counts.values())

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename == __file__:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count = self.counts.setdefault(frame.f_code, [0, 0])
        count[1] += 1

        def step(frame: FrameType, event: str, argument: object) -> Any:
            if event == "opcode":
                count[0] += 1
            return step

        return step


def main() -> None:
    output, program = Path(sys.argv[1]), sys.argv[2]
    counter = InstructionCounter()

    def report(*_: object) -> None:
        found, counter.counts = counter.counts, {}  # collecting garbage may call more functions meanwhile
        part = output.with_suffix(".part")
        part.write_text(json.dumps([[code.co_qualname, *count] for code, count in found.items()]))
        part.rename(output)
        counter.begin()  # without what was done here

    signal.signal(signal.SIGUSR1, report)
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(program).parent)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
