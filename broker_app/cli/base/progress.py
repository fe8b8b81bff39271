"""Progress of long operations: a bar at a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from broker_app.cli.base.output import Output

#: shorter operations show nothing
_DELAY_S = 0.5
_REDRAW_S = 0.1
#: of the screen, in a second
_REFRESHES = 5
#: seconds between lines without a terminal
_LINE_S = 10.0


class Progress:
    """Progress towards `total`, in a `with` block. Calls of `update` are cheap.

    `total` may be set before a call of `update`, where it is not known earlier, or grows; while it is 0, the
    bar only moves.
    """

    def __init__(self, output: Output, what: str, total: int, *, delay_s: float = _DELAY_S) -> None:
        self._output = output
        self._what = what
        self.total = total
        self._bar: Bar | None = None
        self._at_terminal = sys.stderr.isatty()
        self._next = time.monotonic() + (delay_s if self._at_terminal else _LINE_S)
        self._line = ""

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
            of = f" of {self.total:,}" if self.total else ""
            line = f"{self._what}: {done:,}{of}" + (f"  {note}" if note else "")
            if line != self._line:
                self._output.say(line)
            self._line = line

    def _draw(self, done: int, note: str) -> None:
        if self._bar is None:
            from rich import progress
            from rich.console import Console

            # Names of queues may have brackets, which are no markup.
            described, counted, rated, noted = (
                progress.TextColumn(f"{{task.{fact}}}", markup=False)
                for fact in ("description", "fields[counted]", "fields[rate]", "fields[note]")
            )
            # It refreshes itself, since a bar without a total moves.
            self._bar = progress.Progress(
                described, progress.BarColumn(), counted, rated, progress.TimeRemainingColumn(), noted,
                console=Console(stderr=True), transient=True, refresh_per_second=_REFRESHES,
            )  # fmt: skip
            self._bar.add_task(self._what, total=None, counted="", rate="", note="")
            self._bar.start()
        task = self._bar.tasks[0]
        rate = f"{task.speed:,.0f}/s" if task.speed and done != self.total else ""
        counts = f"{done:,}/{self.total:,}" if self.total else f"{done:,}"
        shown: dict[str, Any] = {"counted": counts, "rate": rate, "note": note}
        self._bar.update(task.id, completed=done, total=self.total or None, **shown)
