"""Large data, which a transport would work on at once whatever its size: TLS encrypts it, and a connection
within the machine copies megabytes to the other end while it is written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

#: bytes that are written in one turn of the loop, a millisecond's work; and that TLS encrypts in one
PART: Final = 1024 * 1024
TLS_PART: Final = 256 * 1024


class PartWriter:
    """Writes to a transport; large data in parts of `part` bytes, each in a turn of the loop. Its owner
    passes `pause_writing` and `resume_writing` on. `congested` is called when data waits, here or there, and
    `uncongested` when none does any more; `end` ends the connection."""

    def __init__(
        self,
        transport: asyncio.Transport,
        part: int,
        congested: Callable[[], None],
        uncongested: Callable[[], None],
        end: Callable[[asyncio.Transport], None],
    ) -> None:
        self._transport = transport
        self._part = part
        self._congested = congested
        self._uncongested = uncongested
        self._end = end
        #: what waits; small data may be written to the transport itself while it is empty
        self.parts: deque[memoryview] = deque()
        #: the transport has enough; data waits
        self._paused = self._waits = False
        #: the next part will have its turn; the connection ends behind the last one
        self._scheduled = self._closes = False

    def write(self, data: bytes) -> None:
        """Send `data` behind what was written before."""
        part = self._part
        if not self.parts and len(data) <= part:
            self._transport.write(data)
            return
        view = memoryview(data)
        self.parts.extend(view[at : at + part] for at in range(0, len(view), part))
        self._go_on()

    def close(self) -> None:
        """End the connection behind what was written."""
        self._closes = True
        if not self.parts:
            self._end(self._transport)

    def pause(self) -> None:
        """The transport has enough."""
        self._paused = True
        self._go_on()

    def resume(self) -> None:
        """The transport takes more."""
        self._paused = False
        self._go_on()

    def _go_on(self) -> None:
        if self.parts and not (self._paused or self._scheduled):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._write_part)
        waits = self._paused or bool(self.parts)
        if waits != self._waits:
            self._waits = waits
            (self._congested if waits else self._uncongested)()

    def _write_part(self) -> None:
        self._scheduled = False
        if self._transport.is_closing():
            self.parts.clear()
        elif not self._paused:
            self._transport.write(self.parts.popleft())
            if self._closes and not self.parts:
                self._end(self._transport)
        self._go_on()
