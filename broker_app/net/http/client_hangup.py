"""Detection of clients that have disconnected while nothing is read from them."""

from __future__ import annotations

import asyncio
import select


def hung_up(transport: asyncio.BaseTransport) -> bool:
    """Return True if the client has ended its side of the connection.

    The kernel is asked, since an event loop that does not read is not notified.
    """
    socket = transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return False
    poller = select.poll()
    poller.register(socket.fileno(), select.POLLRDHUP)
    return bool(poller.poll(0))
