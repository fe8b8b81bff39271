"""A thread that does a journal's slow system calls, one after the other, and reports each to the loop."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")
CallSoon = Callable[..., Any]  # loop.call_soon_threadsafe
_Job = tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]


class Worker:
    """Runs jobs in the order given. Without a loop to report to, jobs run at once in the caller's thread."""

    def __init__(self, name: str, call_soon_threadsafe: CallSoon | None) -> None:
        self._name = name
        self._call_soon = call_soon_threadsafe
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(
        self, job: Callable[[], Result], report: Callable[[Result | None, Exception | None], None]
    ) -> None:
        """Have `job` done; `report(result, None)` or `report(None, error)` follows in the loop's thread."""
        if self._call_soon is None:
            report(*_outcome(job))
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put((job, report))

    def close(self) -> None:
        """Wait until everything submitted is done (its reports may still be on their way)."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        assert self._call_soon is not None
        while (item := self._jobs.get()) is not None:
            try:
                self._call_soon(item[1], *_outcome(item[0]))
            except RuntimeError:  # the loop is closed
                return
            del item  # what was read may be large, and the next job may be long in coming


def _outcome(job: Callable[[], Result]) -> tuple[Result | None, Exception | None]:
    try:
        return job(), None
    except Exception as error:
        return None, error
