"""A load in the background, whose rate is measured for some seconds at a time."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from benchmarks.bench import progress
from benchmarks.generator import Generator, GeneratorFailed, faults


class BackgroundLoad:
    """mombench with these options, while its context lasts; it must not end before. Its end is waited for,
    and faults that it counted are shown."""

    def __init__(self, generator: Generator, options: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [str(generator.program), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def rate(self, count: Callable[[], int], seconds: float) -> float:
        """The growth of `count` in a second, from now on for so many seconds. Raises GeneratorFailed if the
        load has ended."""
        began, before = time.monotonic(), count()
        time.sleep(seconds)
        ended, behind = time.monotonic(), count()
        if self._process.poll() is not None:
            raise GeneratorFailed(f"mombench has ended too early: {self._process.communicate()[1].strip()}")
        return (behind - before) / (ended - began)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        out, errors = self._process.communicate()
        if error is None and not out.strip():
            raise GeneratorFailed(errors.strip())
        if error is None and (found := faults(json.loads(out))):
            progress(f"faults: {'; '.join(found)}")
