"""The process of a library, as the broker sees it: started, written to, read from, and killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

import broker_app
from broker_app.base.process.priority import lower_priority
from broker_app.reflex.libraries import wire
from broker_app.reflex.libraries.output_log import OutputLog

#: variables that a process gets from the broker; no others, for they may contain secrets
_INHERITED: Final = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "HOME",
    "TMPDIR",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
)
_RECEIVE_BYTES: Final = 256 * 1024
#: seconds from the end of a connection to the end of its process, and between two looks at it
_EXIT_S: Final = 0.2
_LOOK_S: Final = 0.02
#: seconds that a process has to end in good order
STOP_S: Final = 1.0
#: the niceness of a process, beyond the broker's; and of one whose library has just failed, for it may loop
#: again. Not while it loads: on a busy machine that would take longer than it may
NICENESS: Final = 10
NICENESS_AFTER_FAILURES: Final = 15


class Listener(Protocol):
    """Hears of one process."""

    def received(self, content: wire.FromProcess) -> None:
        """A frame arrived. Raises ValueError for one that is not expected."""

    def ended(self, why: str) -> None:
        """The process ended, and all that it had sent was received."""


class Place(NamedTuple):
    """The environment of processes: `spawner` starts them in a thread that lives as long as they do."""

    spawner: Executor
    directory: str
    memory_bytes: int


class Process:
    """One process. `start` it; it ends by itself, by `kill` or by `stop`."""

    def __init__(self, library: str, place: Place, listener: Listener, niceness: int = NICENESS) -> None:
        self._library = library
        self._niceness = niceness
        self._place = place
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._frames = wire.Frames(wire.MAX_RESULT)
        self._unsent = bytearray()
        self._writing = False
        self._connection: socket.socket | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._output = OutputLog(library)
        self._exit_timer: asyncio.TimerHandle | None = None
        self._gives_way = False
        self._ended = False
        self._why = ""
        #: set when the process is reaped
        self.gone: asyncio.Future[None] = self._loop.create_future()

    @property
    def pid(self) -> int:
        """The id of the process; 0 before it is started."""
        return self._child.pid if self._child is not None else 0

    # ------------------------------------------------------------------ start and end

    def start(self) -> None:
        """Start in another thread; the first frame arrives when the library is loaded."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._connection = ours
        self._loop.add_reader(ours.fileno(), self._readable)
        starting = self._loop.run_in_executor(self._place.spawner, self._spawn, theirs)
        starting.add_done_callback(self._started)

    def give_way(self) -> None:
        """The library is loaded: lower the priority of the process."""
        self._gives_way = True
        if self._child is not None:
            lower_priority(self._child.pid, self._niceness)

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        with theirs:
            return subprocess.Popen(
                [
                    *(sys.executable, "-P", "-u", "-m", "broker_app.reflex.libraries.worker"),
                    str(theirs.fileno()),
                    *(self._library, str(self._place.memory_bytes), self._place.directory),
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(os.environ),
                cwd="/",
                start_new_session=True,
            )

    def _started(self, starting: asyncio.Future[subprocess.Popen[bytes]]) -> None:
        error = starting.exception()
        if error is not None:
            self._end(f"it could not be started: {error}")
            self.gone.set_result(None)
            return
        self._child = child = starting.result()
        assert child.stdout is not None
        if self._gives_way:  # its library was loaded before this was called
            self.give_way()
        self._output.follow(self._loop, child.stdout)
        if self._ended:  # it was killed before it existed
            self._reap(child)

    def kill(self, why: str) -> None:
        """End the process and all that it has started, now. What it sent before is still received."""
        self._why = self._why or why
        if self._child is not None and not self._ended:
            _kill_group(self._child)
        while self._connection is not None and self._read() == "more":
            pass
        self._end(why)

    async def stop(self) -> None:
        """Have the process end in good order, or kill it after `STOP_S`."""
        if self._connection is not None and not self._ended:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self.gone), STOP_S)
        self.kill("the broker has stopped it")
        await self.gone

    def _end(self, why: str) -> None:
        if self._ended:
            return
        self._ended = True
        connection, self._connection = self._connection, None
        if self._exit_timer is not None:
            self._exit_timer.cancel()
        if connection is not None:
            self._loop.remove_reader(connection.fileno())
            if self._writing:
                self._loop.remove_writer(connection.fileno())
            connection.close()
        if self._child is not None:
            self._reap(self._child)
        self._listener.ended(self._why or why)

    def _reap(self, child: subprocess.Popen[bytes]) -> None:
        """Kill what is left of the process, and wait for its end in another thread."""
        _kill_group(child)
        self._output.close()
        waiting = self._loop.run_in_executor(None, child.wait)
        waiting.add_done_callback(self._reaped)

    def _reaped(self, _: asyncio.Future[int]) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    # ------------------------------------------------------------------ bytes

    def send(self, data: bytes) -> None:
        """Send a frame; what the process does not take is kept."""
        if self._ended or self._connection is None:
            return
        if not self._unsent:
            data = self._write(data)
        self._unsent += data
        if self._unsent and not self._writing and self._connection is not None:
            self._writing = True
            self._loop.add_writer(self._connection.fileno(), self._writable)

    def _write(self, data: bytes) -> bytes:
        assert self._connection is not None
        try:
            return data[self._connection.send(data) :]
        except BlockingIOError:
            return data
        except OSError:  # it has ended, which is noticed when it is read from
            return b""

    def _writable(self) -> None:
        rest = self._write(bytes(self._unsent))
        self._unsent[:] = rest
        if not rest and self._connection is not None:
            self._writing = False
            self._loop.remove_writer(self._connection.fileno())

    def _readable(self) -> None:
        if self._read() == "end":
            self._closed()

    def _closed(self) -> None:
        """The process has closed its connection, and probably ended: its status is known in a moment."""
        if self._connection is not None and self._exit_timer is None:
            self._loop.remove_reader(self._connection.fileno())
            self._look_for_exit(self._loop.time() + _EXIT_S)

    def _look_for_exit(self, deadline: float) -> None:
        text = self._exit_text()
        if text is not None or self._loop.time() >= deadline:
            self._end(text or "it closed its connection")
        else:
            self._exit_timer = self._loop.call_later(_LOOK_S, self._look_for_exit, deadline)

    def poll(self) -> None:
        """Receive what has arrived, before the loop does."""
        if self._connection is not None and self._exit_timer is None:
            self._readable()

    def _read(self) -> str:
        """Receive once; "more" if there may be more, "end" at the end, else "none"."""
        assert self._connection is not None
        try:
            data = self._connection.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return "none"
        except OSError:
            return "end"
        if not data:
            return "end"
        try:
            for content in self._frames.feed(data):
                self._listener.received(wire.decode_from_process(content))
                if self._ended:
                    return "none"  # the listener has killed it
        except (ValueError, msgspec.MsgspecError) as error:
            self._fail(f"it sent what it must not: {error}")
            return "none"
        return "more"

    def _fail(self, why: str) -> None:
        """Kill a process whose output cannot be trusted any more."""
        self._why = self._why or why
        if self._child is not None:
            _kill_group(self._child)
        self._end(why)

    def _exit_text(self) -> str | None:
        """Return how the process has ended, None if it has not."""
        if self._child is None:
            return "it ended"
        # Without reaping it: its group is still to be killed by its id.
        ended = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        if ended.si_code == os.CLD_EXITED:
            return f"it exited with status {ended.si_status}"
        return f"it ended by signal {signal.Signals(ended.si_status).name}"


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill a process and the other processes of its group, unless it was reaped."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process. This broker's modules are found in the place where they are now."""
    inherited = {name: variables[name] for name in _INHERITED if name in variables}
    root = str(Path(broker_app.__file__).parent.parent)
    inherited["PYTHONPATH"] = os.pathsep.join(filter(None, (root, inherited.get("PYTHONPATH", ""))))
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        inherited["PYTHONDONTWRITEBYTECODE"] = "1"
    return inherited
