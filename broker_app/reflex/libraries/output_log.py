"""The output of the process of a library, in the log of the broker: labelled and bounded."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import IO, Final

from broker_app.base.log_limit import RareLog

log = logging.getLogger(__name__)

#: characters of a line
MAX_LINE: Final = 500
#: lines that are written at once, as of a trace-back; then one a second, and others are only counted
BURST: Final = 40
_READ_BYTES: Final = 64 * 1024
#: seconds for which a process that writes too much is not read: it waits when its pipe is full
_PAUSE_S: Final = 1.0


class OutputLog:
    """Logs the lines of one process."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._loop: asyncio.AbstractEventLoop
        self._pipe: IO[bytes] | None = None
        self._pausing: asyncio.TimerHandle | None = None
        self._line = b""
        self._log = RareLog(log, burst=BURST)
        self._is_full = False

    def follow(self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes]) -> None:
        """Log what is written to `pipe` until `close`."""
        self._loop, self._pipe = loop, pipe
        os.set_blocking(pipe.fileno(), False)
        loop.add_reader(pipe.fileno(), self._readable)

    def close(self) -> None:
        """Log what was written last, and close the pipe."""
        pipe, self._pipe = self._pipe, None
        if pipe is None:
            return
        if self._pausing is None:
            self._loop.remove_reader(pipe.fileno())
        else:
            self._pausing.cancel()
        self._take(_read(pipe))
        if self._line:
            self._write(self._line)
        pipe.close()

    def _readable(self) -> None:
        assert self._pipe is not None
        data = _read(self._pipe)
        self._take(data)
        if not data or self._is_full:
            self._loop.remove_reader(self._pipe.fileno())
            self._pausing = self._loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pausing = None
        self._is_full = False
        if self._pipe is not None:
            self._loop.add_reader(self._pipe.fileno(), self._readable)

    def _take(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._write(line)
        if len(self._line) > 4 * MAX_LINE:
            self._write(self._line)
            self._line = b""

    def _write(self, line: bytes) -> None:
        text = line.decode(errors="replace")[:MAX_LINE].expandtabs().rstrip()
        shown = "".join(c if c.isprintable() else "?" for c in text)
        self._is_full |= not self._log.log("library %s: %s", self._library, shown)


def _read(pipe: IO[bytes]) -> bytes:
    try:
        return os.read(pipe.fileno(), _READ_BYTES)
    except BlockingIOError:
        return b""
    except OSError:
        return b""
