"""Progress of long operations: a bar at a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from broker_app.cli.output import Output

#: shorter operations show nothing
_DELAY_S = 0.5
_REDRAW_S = 0.1
#: seconds between lines without a terminal
_LINE_S = 10.0


class Progress:
    """Progress towards `total`, in a `with` block. Calls of `update` are cheap.

    `total` may be set before the first call of `update`, where it is not known earlier.
    """

    def __init__(self, output: Output, what: str, total: int) -> None:
        self._output = output
        self._what = what
        self.total = total
        self._bar: Bar | None = None
        self._at_terminal = sys.stderr.isatty()
        self._next = time.monotonic() + (_DELAY_S if self._at_terminal else _LINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if now < self._next or self._output.quiet:
            return
        if self._at_terminal:
            self._next = now + _REDRAW_S
            self._draw(done, note)
        else:
            self._next = now + _LINE_S
            self._output.say(f"{self._what}: {done} of {self.total}" + (f"  {note}" if note else ""))

    def _draw(self, done: int, note: str) -> None:
        if self._bar is None:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                "{task.description}", progress.BarColumn(), progress.MofNCompleteColumn(),
                "{task.fields[rate]}", progress.TimeRemainingColumn(), "{task.fields[note]}",
                console=Console(stderr=True), transient=True, auto_refresh=False,
            )  # fmt: skip
            self._bar.add_task(self._what, total=self.total, rate="", note="")
            self._bar.start()
        task = self._bar.tasks[0]
        rate = f"{task.speed:,.0f}/s" if task.speed else ""
        self._bar.update(task.id, completed=done, rate=rate, note=note, refresh=True)
