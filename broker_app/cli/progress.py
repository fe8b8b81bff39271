"""How far something long is: one line that is drawn again at a terminal, now and then one elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from broker_app.cli.output import Output

#: what is done sooner is not shown at all
_BEGIN_S = 0.5
_DRAWN_S = 0.1
#: without a terminal, which keeps every line
_WRITTEN_S = 10.0


class Progress:
    """Of `total`, in a `with` block. `tell` may be called as often as one likes."""

    def __init__(self, output: Output, what: str, total: int) -> None:
        self._output = output
        self._what = what
        self._total = total
        self._bar: Bar | None = None
        self._at_terminal = sys.stderr.isatty()
        self._next = time.monotonic() + (_BEGIN_S if self._at_terminal else _WRITTEN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if now < self._next or self._output.quiet:
            return
        if self._at_terminal:
            self._next = now + _DRAWN_S
            self._draw(done, note)
        else:
            self._next = now + _WRITTEN_S
            self._output.say(f"{self._what}: {done} of {self._total}" + (f"  {note}" if note else ""))

    def _draw(self, done: int, note: str) -> None:
        if self._bar is None:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                "{task.description}", progress.BarColumn(), progress.MofNCompleteColumn(),
                "{task.fields[rate]}", progress.TimeRemainingColumn(), "{task.fields[note]}",
                console=Console(stderr=True), transient=True, auto_refresh=False,
            )  # fmt: skip
            self._bar.add_task(self._what, total=self._total, rate="", note="")
            self._bar.start()
        task = self._bar.tasks[0]
        rate = f"{task.speed:,.0f}/s" if task.speed else ""
        self._bar.update(task.id, completed=done, rate=rate, note=note, refresh=True)
