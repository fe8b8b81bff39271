"""The watch over the end of a process: it reports what is waited for, and ends a process that does not end.

It is a thread, because what hangs may hold up the event loop: a disk that does not answer, or a thread that
is joined. What was confirmed to clients is in the journal, so the next start loses nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

log = logging.getLogger(__name__)

#: seconds beyond the time given to open work, after which the process ends: less than the 30 that Kubernetes
#: gives in all, with the default of `drain`
LIMIT_S: Final = 20.0
#: seconds for the last words, whose reader may be what does not answer, and until the process ends even if a
#: call lets no other thread run
_WORDS_S, _LAST_S = 2.0, 5.0
_STDERR = 2
#: of its threads
_NAME: Final = "stop watch"
#: the innermost calls of a stack that are shown, in a line and in full
_INNERMOST, _FRAMES = 4, 12


class StopWatch:
    """`within_s` is the time given to open work: what is waited for then is logged. `limit_s` later the
    stacks of all threads are, and `end` is called with the exit status."""

    def __init__(
        self, within_s: float, limit_s: float = LIMIT_S, end: Callable[[int], Any] = os._exit
    ) -> None:
        self._within_s = within_s
        self._limit_s = within_s + limit_s
        self._end = end
        self._finished: threading.Event | None = None
        self._thread_id = 0
        self._began = 0.0
        #: the task whose calls are shown; it may be replaced while it is watched
        self.task: asyncio.Task[Any] | None = None

    def begin(self) -> None:
        """Watch what this thread ends; goes on if it has begun before."""
        if self._finished is not None:
            return
        self._finished = threading.Event()
        self._thread_id, self._began = threading.get_ident(), time.monotonic()
        threading.Thread(target=self._watch, args=(self._finished,), name=_NAME, daemon=True).start()
        faulthandler.dump_traceback_later(self._limit_s + _WORDS_S + _LAST_S, exit=True, file=_STDERR)

    def finish(self) -> None:
        """Watch no more: what was to end has ended."""
        finished, self._finished = self._finished, None
        if finished is not None:
            finished.set()
            faulthandler.cancel_dump_traceback_later()

    def _watch(self, finished: threading.Event) -> None:
        if finished.wait(self._within_s):
            return
        _in_time(self._report)
        if not finished.wait(max(0.0, self._limit_s - self._taken_s)):
            _in_time(self._report_end)
            self._end(1)

    def _report(self) -> None:
        log.warning("the stop has taken %.1f s; %s", self._taken_s, self._awaited)

    def _report_end(self) -> None:
        log.critical(
            "the stop has taken %.1f s, and the process ends now; the next start recovers from the journal. "
            "%s\n%s",
            self._taken_s,
            self._awaited,
            _stacks(),
        )

    @property
    def _taken_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def _awaited(self) -> str:
        """The call that the watched thread is in, and those of its task."""
        stack = traceback.extract_stack(sys._current_frames().get(self._thread_id))[-_INNERMOST:]
        names = (f"{call.name} ({os.path.basename(call.filename)}:{call.lineno})" for call in stack)
        place = f"its thread is in {' > '.join(names)}"
        calls = " > ".join(_calls(self.task)) if self.task is not None else ""
        return f"it waits for {calls}; {place}" if calls else place


async def ended_in_parts(task: asyncio.Task[Any], within_s: float, each_s: float) -> bool:
    """Wait for a task that ends parts one after the other; returns whether it was done within `within_s`. The
    part that is ending then is cancelled, and each behind it has `each_s`. Raises what the task does."""
    await asyncio.wait({task}, timeout=within_s)
    in_time = task.done()
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=each_s)
    if not task.cancelled():
        task.result()
    return in_time


def _in_time(words: Callable[[], None]) -> None:
    """Log in a thread, which is not waited for when the log does not take it."""
    speaker = threading.Thread(target=words, name=f"{_NAME} log", daemon=True)
    speaker.start()
    speaker.join(_WORDS_S)


def _calls(task: asyncio.Task[Any]) -> Iterator[str]:
    """The coroutines of a task, from the outermost to the one that waits."""
    awaited: Any = task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        if frame.f_code.co_filename != contextlib.__file__:
            yield f"{awaited.__qualname__} (line {frame.f_lineno})"
        awaited = awaited.cr_await


def _stacks() -> str:
    """The stacks of all other threads, the innermost calls last."""
    frames = sys._current_frames()
    return "\n".join(
        f"thread {thread.name}:\n" + "".join(traceback.format_stack(frames[thread.ident])[-_FRAMES:])
        for thread in threading.enumerate()
        if thread.ident in frames and not thread.name.startswith(_NAME)
    )
