"""Whether a client has ended its side of a connection of which nothing is read for the time being."""

from __future__ import annotations

import asyncio
import select


def hung_up(transport: asyncio.BaseTransport) -> bool:
    """Whether nothing more will come behind what waits in the socket. Asks the kernel, which tells no event
    loop that does not read."""
    socket = transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return False
    poller = select.poll()
    poller.register(socket.fileno(), select.POLLRDHUP)
    return bool(poller.poll(0))
