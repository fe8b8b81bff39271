"""Large data over TLS, which encrypts at once whatever it is given."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

#: bytes that are encrypted in one turn of the loop
PART: Final = 256 * 1024


class PartWriter:
    """Writes to a transport of TLS; large data in parts, each in a turn of the loop. Its owner passes
    `pause_writing` and `resume_writing` on. `congested` is called when data waits, here or there, and
    `uncongested` when none does any more."""

    def __init__(
        self, transport: asyncio.Transport, congested: Callable[[], None], uncongested: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._congested = congested
        self._uncongested = uncongested
        self._parts: deque[memoryview] = deque()
        #: the transport has enough; data waits
        self._paused = self._waits = False
        #: the next part will have its turn; the connection ends behind the last one
        self._scheduled = self._closes = False

    def write(self, data: bytes) -> None:
        """Send `data` behind what was written before."""
        if not self._parts and len(data) <= PART:
            self._transport.write(data)
            return
        view = memoryview(data)
        self._parts.extend(view[at : at + PART] for at in range(0, len(view), PART))
        self._go_on()

    def close(self) -> None:
        """End the connection when the client has taken what is written."""
        self._closes = True
        if not self._parts:
            self._transport.close()

    def pause(self) -> None:
        """The transport has enough."""
        self._paused = True
        self._go_on()

    def resume(self) -> None:
        """The transport takes more."""
        self._paused = False
        self._go_on()

    def _go_on(self) -> None:
        if self._parts and not (self._paused or self._scheduled):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._write_part)
        waits = self._paused or bool(self._parts)
        if waits != self._waits:
            self._waits = waits
            (self._congested if waits else self._uncongested)()

    def _write_part(self) -> None:
        self._scheduled = False
        if self._transport.is_closing():
            self._parts.clear()
        elif not self._paused:
            self._transport.write(self._parts.popleft())
            if self._closes and not self._parts:
                self._transport.close()
        self._go_on()
