"""The lag of the event loop: how late its timers are, what held them up, and whose fault that was.

The loop beats twenty times a second. A thread looks whether it still does: when a beat is late, it notes how
much processor time the loop's thread has used so far, and later its stack; the cause is logged when the loop
continues. Time in which the loop's thread was ready and had no processor is the machine's affair: it is lag,
and is not `blocked`. What the thread has used for certain since the beat was due is `busy`, whatever it
waited for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from itertools import islice
from typing import Final, NamedTuple

log = logging.getLogger(__name__)

#: seconds between two beats, and between two looks of the thread
BEAT_S: Final = 0.05
#: a beat that is later than this is looked at
LATE_S: Final = 0.002
#: what held the loop up for longer is logged, with the stack
BLOCKED_S: Final = 0.1
#: after such a line, others are only counted for so long
QUIET_S: Final = 10.0
#: the innermost calls of a stack that are shown
FRAMES: Final = 12


class _Second(NamedTuple):
    """The worst of one second (of the monotonic clock)."""

    at: int
    lag_s: float
    blocked_s: float
    busy_s: float


class LoopLag:
    """Begins with `start`, in the loop's thread, and ends with `stop`."""

    def __init__(self) -> None:
        self._seconds: deque[_Second] = deque(maxlen=61)
        self._timer: asyncio.TimerHandle | None = None
        self._thread_id = 0
        self._waiting: int | None = None
        self._starved_s = self._cpu_s = 0.0
        self._beat = 0.0
        #: the beat that was found late, and the processor time of the loop's thread then
        self._late = 0.0, 0.0
        self._stopped = threading.Event()
        self._stack = ""
        self._quiet_until = float("-inf")
        self._suppressed = 0

    def start(self) -> None:
        """Watch the loop of this thread."""
        self._thread_id = threading.get_ident()
        try:
            self._waiting = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # no Linux, or one that does not count it
            self._waiting = None
        self._starved_s, self._cpu_s, self._beat = self._starved(), time.thread_time(), time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._tick)
        threading.Thread(target=self._watch, name="loop lag", daemon=True).start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting is not None:
            os.close(self._waiting)
            self._waiting = None

    def lag_s(self, seconds: int) -> float:
        """By how much the latest timer was late in so many seconds, at most 60."""
        return max((second.lag_s for second in self._since(seconds)), default=0.0)

    def blocked_s(self, seconds: int) -> float:
        """The longest that the loop was held up by the broker itself in so many seconds, at most 60."""
        return max((second.blocked_s for second in self._since(seconds)), default=0.0)

    def busy_s(self, seconds: int) -> float:
        """The longest that the loop was held up by what its own thread computed, not waited for, in so many
        seconds, at most 60."""
        return max((second.busy_s for second in self._since(seconds)), default=0.0)

    def _since(self, seconds: int) -> list[_Second]:
        oldest = int(time.monotonic()) - seconds
        return [second for second in self._seconds if second.at >= oldest]

    # ------------------------------------------------------------------ in the loop

    def _tick(self) -> None:
        now, starved_s, cpu_s = time.monotonic(), self._starved(), time.thread_time()
        lag_s = max(0.0, now - self._beat - BEAT_S)
        blocked_s = max(0.0, lag_s - (starved_s - self._starved_s))
        late_beat, cpu_then_s = self._late
        # Before the beat was due, the thread has used at most as long as that took. What the other thread saw
        # is more exact, unless a call or a busy machine let it look late, or not at all.
        busy_s = max(0.0, cpu_s - self._cpu_s - BEAT_S)
        if late_beat == self._beat:
            busy_s = max(busy_s, cpu_s - cpu_then_s)
        self._beat, self._starved_s, self._cpu_s = now, starved_s, cpu_s
        stack, self._stack = self._stack, ""
        self._note(_Second(int(now), lag_s, blocked_s, busy_s))
        if blocked_s > BLOCKED_S:
            self._report(now, blocked_s, stack)
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._tick)

    def _note(self, worst: _Second) -> None:
        seconds = self._seconds
        if seconds and seconds[-1].at == worst.at:
            last = seconds.pop()
            worst = _Second(
                worst.at,
                max(worst.lag_s, last.lag_s),
                max(worst.blocked_s, last.blocked_s),
                max(worst.busy_s, last.busy_s),
            )
        seconds.append(worst)

    def _starved(self) -> float:
        """Seconds that this thread was ready to run and had no processor, since it began."""
        if self._waiting is None:
            return 0.0
        return int(os.pread(self._waiting, 64, 0).split()[1]) / 1e9

    def _report(self, now: float, blocked_s: float, stack: str) -> None:
        if now < self._quiet_until:
            self._suppressed += 1
            return
        suppressed, self._suppressed = self._suppressed, 0
        self._quiet_until = now + QUIET_S
        log.warning(
            "the event loop was held up for %.0f ms%s; it was at\n%s",
            blocked_s * 1000,
            f" ({suppressed} times before that were not logged)" if suppressed else "",
            stack or "  a call that let no other thread look, or the process was stopped\n",
        )

    # ------------------------------------------------------------------ in the thread

    def _watch(self) -> None:
        clock = time.pthread_getcpuclockid(self._thread_id)
        wait_s = BEAT_S
        while not self._stopped.wait(wait_s):
            beat = self._beat
            late_s = time.monotonic() - beat - BEAT_S
            if late_s < LATE_S:
                wait_s = LATE_S - late_s
                continue
            wait_s = BEAT_S
            if self._late[0] != beat:
                self._late = beat, time.clock_gettime(clock)
            if late_s < BLOCKED_S or self._stack:
                continue
            self._stack = _stack_of(self._thread_id)


def _stack_of(thread_id: int) -> str:
    """The innermost calls of a thread. Their frames are released with this call: they keep whatever the calls
    work on in memory, such as large messages, also after these have returned."""
    frame = sys._current_frames().get(thread_id)
    if frame is None:
        return ""
    # The other thread may go on meanwhile: the fewer of its frames are read, the fewer have ended by then.
    try:
        innermost = traceback.StackSummary.extract(islice(traceback.walk_stack(frame), FRAMES))
    except Exception:
        return ""
    return "".join(reversed(innermost.format()))
