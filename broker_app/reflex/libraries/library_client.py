"""The client of a library: calls its functions in a process, within time limits.

The process is killed when a function does not return in time, and when it breaks the protocol; another takes
its place. Only the call that was being carried out has failed then. Those behind it are made again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from broker_app.base.internal_errors import internal_errors
from broker_app.base.turns import StepsInTurns
from broker_app.reflex.libraries import wire
from broker_app.reflex.libraries.breaker import OPEN_S, Breaker
from broker_app.reflex.libraries.process import NICENESS, NICENESS_AFTER_FAILURES, Place, Process
from broker_app.reflex.subject import Called

log = logging.getLogger(__name__)

#: calls that a process has at a time, and their bytes
WINDOW_CALLS: Final = 256
WINDOW_BYTES: Final = 1024 * 1024
#: calls that wait for a process at most
MAX_WAITING: Final = 100_000
#: seconds in which a library must be loaded
START_S: Final = 10.0
#: seconds before another process is started, by the number of failures before
_PAUSES_S: Final = (0.0, 0.0, 0.1, 0.5)


class CallFailure(NamedTuple):
    """A call that has no result; `reason` is for operators."""

    reason: str


class Request:
    """One call. `done` is called once, with its result or failure. One that is made `once` is not made
    again when its process has ended while it was carried out."""

    __slots__ = ("done", "function", "id", "limit_s", "once", "size", "subject")

    def __init__(
        self,
        function: int,
        subject: Called,
        limit_s: float,
        done: Callable[[wire.CallResult | CallFailure], None],
        *,
        once: bool = False,
    ) -> None:
        self.once = once
        self.function = function
        self.subject = subject
        self.limit_s = limit_s
        self.done = done
        self.size = subject.size
        self.id = 0


class LibraryClient:
    """Calls the functions of one library, in order. `changed` is called when its breaker opens or closes."""

    def __init__(self, name: str, place: Place, changed: Callable[[LibraryClient], None]) -> None:
        self.name = name
        self._place = place
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self.breaker = Breaker(self._loop.time)
        #: processes that were started
        self.starts = 0
        #: names of the functions, as far as they are known
        self.functions: list[str] = []
        self._specs: dict[int, wire.FunctionSpec] = {}
        self._kept: set[int] = set()
        self._next_function = self._next_call = 1
        self._waiting: deque[Request] = deque()
        self._in_flight: deque[Request] = deque()
        self._bytes_in_flight = 0
        #: those that have failed, and why; they are finished in turns of the loop
        self._given_up: deque[tuple[Request, CallFailure]] = deque()
        self._finishing = StepsInTurns(self._given_up, self._finish_given_up)
        #: since when the first of those in flight is carried out
        self._head_since = 0.0
        self._process: Process | None = None
        self._ready = False
        self._pumping = False
        self._deadline: asyncio.TimerHandle | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._stopped = self._restarting = False

    # ------------------------------------------------------------------ functions

    def add(self, kind: str, function: str, options: dict[str, object]) -> int:
        """The number of a function with these options, for `call`."""
        for spec in self._specs.values():
            if (spec.kind, spec.name, spec.options) == (kind, function, options):
                return spec.number
        spec = wire.FunctionSpec(self._next_function, kind, function, options)
        self._next_function += 1
        self._specs[spec.number] = spec
        if self._ready and self._process is not None:
            self._process.send(wire.frame(wire.Functions([spec])))
        return spec.number

    def keep(self, numbers: Iterable[int]) -> None:
        """Forget all other functions, as far as no call names them; and start the process."""
        self._kept = set(numbers)
        self.breaker.close()
        self._start()

    # ------------------------------------------------------------------ calls

    def call(self, request: Request) -> CallFailure | None:
        """Make a call. Returns the reason if it is not made; else its `done` is called later."""
        if self.breaker.is_open:
            return CallFailure(self._open_text())
        if len(self._waiting) >= MAX_WAITING:
            return CallFailure(f"{MAX_WAITING} calls wait for library {self.name} already")
        self._waiting.append(request)
        self._pump_soon()
        return None

    def _open_text(self) -> str:
        return f"library {self.name} is not called for {OPEN_S:g} s after failures: {self.breaker.reason}"

    def _pump_soon(self) -> None:
        """Send what is called in this round of the loop together."""
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if self._process is None:
            self._start()
        if not self._ready or self._process is None:
            return
        waiting, in_flight = self._waiting, self._in_flight
        calls: list[wire.Call] = []
        idle = not in_flight
        while (
            waiting
            and len(in_flight) < WINDOW_CALLS
            and (not in_flight or self._bytes_in_flight < WINDOW_BYTES)
        ):
            request = waiting.popleft()
            request.id = self._next_call
            self._next_call += 1
            in_flight.append(request)
            self._bytes_in_flight += request.size
            calls.append(request.subject.call(request.id, request.function))
        if calls:
            self._process.send(wire.frame(wire.Calls(calls)))
            if idle:
                self._head_since = self._loop.time()
                self._arm(in_flight[0].limit_s)

    # ------------------------------------------------------------------ time limits

    def _arm(self, within_s: float) -> None:
        """Check the time limit of the first call in so many seconds, unless it is checked before that."""
        due = self._loop.time() + within_s
        if self._deadline is not None and self._deadline.when() <= due:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_at(due, self._check_limit)

    def _check_limit(self) -> None:
        self._deadline = None
        process = self._process
        if process is None:
            return
        if self._ready:
            process.poll()  # the loop may have been late
            if self._process is not process or not self._in_flight:
                return
        limit_s = self._in_flight[0].limit_s if self._ready else START_S
        left_s = self._head_since + limit_s - self._loop.time()
        if left_s > 0:
            self._arm(left_s)
        elif self._ready:
            process.kill(f"it did not return within {limit_s:g} s")
        else:
            process.kill(f"it was not loaded within {limit_s:g} s")

    # ------------------------------------------------------------------ the process

    def _start(self) -> None:
        if self._process is not None or self._restart is not None or self._stopped or self.breaker.is_open:
            return
        self.starts += 1
        self._head_since = self._loop.time()
        niceness = NICENESS_AFTER_FAILURES if self.breaker.failures else NICENESS
        self._process = process = Process(self.name, self._place, self, niceness)
        process.start()
        self._arm(START_S)

    def received(self, content: wire.FromProcess) -> None:
        """A frame of the process. Raises ValueError for one that is not expected."""
        if isinstance(content, wire.Hello):
            self._loaded(content)
            return
        if not self._in_flight or self._in_flight[0].id != content.id:
            raise ValueError("a result that nothing waits for")
        request = self._in_flight.popleft()
        self._bytes_in_flight -= request.size
        if self._in_flight:
            self._head_since = self._loop.time()
            self._arm(self._in_flight[0].limit_s)
        if self.breaker.failures:
            self.breaker.succeeded()
            self._changed(self)
        self._finish(request, content)
        if self._waiting:
            self._pump_soon()

    def _loaded(self, hello: wire.Hello) -> None:
        if self._ready or self._process is None:
            raise ValueError("a second greeting")
        if hello.error:
            self._fail_all(f"library {self.name} cannot be loaded: {hello.error}")
            return
        self.functions = hello.functions
        self._ready = True
        self._process.give_way()
        wanted = self._kept | {request.function for request in self._waiting}
        self._specs = {number: spec for number, spec in self._specs.items() if number in wanted}
        self._process.send(wire.frame(wire.Functions(list(self._specs.values()))))
        self._pump_soon()

    def ended(self, why: str) -> None:
        """The process has ended. The call that it carried out has failed; the others are made again."""
        was_ready, self._ready = self._ready, False
        self._process = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._stopped:
            self._give_up(f"library {self.name} was stopped")
            return
        if self._restarting:
            self._restarting = False
            begun = self._in_flight.popleft() if self._in_flight and self._in_flight[0].once else None
            self._repeat()
            if begun is not None:
                self._finish(begun, CallFailure(why))
            self._start()
            return
        failed = self._in_flight.popleft() if self._in_flight else None
        if failed is None and not was_ready and self._waiting:
            failed = self._waiting.popleft()
        self._repeat()
        if self.breaker.is_open:  # it could not be loaded
            return
        log.warning("the process of library %s was replaced: %s", self.name, why)
        if failed is not None:
            self._finish(failed, CallFailure(why))
        if self.breaker.failed(why):
            self._give_up(self._open_text())
            log.error("%s", self._open_text())
        else:
            self._restart_later()
        self._changed(self)

    def _repeat(self) -> None:
        """Make the calls again that were in flight."""
        self._waiting.extendleft(reversed(self._in_flight))
        self._in_flight.clear()
        self._bytes_in_flight = 0

    def restart(self) -> None:
        """Replace the process by another, which loads the library again; its calls are made again."""
        self.breaker.succeeded()
        self._changed(self)
        if self._process is None:
            self._start()
        else:
            self._restarting = True
            self._process.kill("an operator has restarted it")

    def _restart_later(self) -> None:
        pause_s = _PAUSES_S[min(self.breaker.failures, len(_PAUSES_S) - 1)]
        self._restart = self._loop.call_later(pause_s, self._restart_now)

    def _restart_now(self) -> None:
        self._restart = None
        self._start()

    def _fail_all(self, reason: str) -> None:
        log.error("%s", reason)
        self.breaker.failed(reason, at_once=True)
        self._give_up(reason)
        self._changed(self)

    def _give_up(self, reason: str) -> None:
        """Fail all calls."""
        is_busy, failure = bool(self._given_up), CallFailure(reason)
        self._given_up.extend((request, failure) for request in (*self._in_flight, *self._waiting))
        self._in_flight.clear()
        self._waiting.clear()
        self._bytes_in_flight = 0
        if not is_busy:
            self._finishing.now()

    def _finish_given_up(self) -> None:
        self._finish(*self._given_up.popleft())

    @staticmethod
    def _finish(request: Request, result: wire.CallResult | CallFailure) -> None:
        try:
            request.done(result)
        except Exception as error:  # it is this call's failure, not that of the others
            internal_errors.note("the result of a reflex", error)

    # ------------------------------------------------------------------ state and end

    @property
    def state(self) -> str:
        """The state of the process: "failed" while its breaker is open, else "running" or "starting"."""
        if self.breaker.is_open:
            return "failed"
        return "running" if self._ready else "starting"

    @property
    def pid(self) -> int:
        """The id of the process; 0 without one."""
        return self._process.pid if self._process is not None else 0

    @property
    def is_idle(self) -> bool:
        """True if no call waits for its result."""
        return not (self._waiting or self._in_flight or self._given_up)

    async def stop(self) -> None:
        """End the process; calls without a result fail."""
        self._stopped = True
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None
        if self._process is not None:
            await self._process.stop()
        self._give_up(f"library {self.name} was stopped")
        while self._given_up:
            await asyncio.sleep(0)
