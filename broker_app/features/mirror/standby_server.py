"""The server of a broker that does not serve: refuses clients while it follows its journal, or ends."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial

from broker_app.config import Config
from broker_app.features.mirror.mirror import Mirror
from broker_app.features.mirror.refusals import StompRefusal, stomp_error
from broker_app.features.mirror.standby import Standby, Taken
from broker_app.net.auth.login import Logins
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.server.listeners import Listeners
from broker_app.net.server.serve import serve
from broker_app.net.tls.certificates import Certificates
from broker_app.net.tls.listener import TlsListener

log = logging.getLogger(__name__)

#: a free lease is taken before clients are refused
_AT_ONCE_S = 0.5
#: a standby that is stopped waits so long for an answer of the store
_END_S = 3.0


async def stand_by(
    standby: Standby,
    mirror: Mirror,
    config: Config,
    logins: Logins,
    listeners: Listeners,
    actions: OperatorActions,
    certificates: Certificates | None,
    stop: asyncio.Event,
    ready: Callable[[], None],
) -> Taken | None:
    """Follow, and refuse clients, until this broker has taken over; None if `stop` was set before.

    `ready` is called when clients are refused. `listeners` are closed. Raises JournalDamaged, JournalFailed.
    """
    following = asyncio.create_task(asyncio.to_thread(standby.run))
    stopping = asyncio.create_task(stop.wait())
    servers = AsyncExitStack()
    try:
        await asyncio.wait({following, stopping}, timeout=_AT_ONCE_S, return_when=asyncio.FIRST_COMPLETED)
        if following.done() or stop.is_set():
            _close(listeners)
        else:
            log.warning("broker %s is on standby, and follows its journal", mirror.name)
            await refuse_clients(servers, mirror, config, logins, listeners, actions, certificates)
            ready()
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        standby.stop()
        # Those that refuse end while the broker begins to serve.
        closing = asyncio.create_task(servers.aclose())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)
    if not (await asyncio.wait({following}, timeout=_END_S))[0]:
        standby.interrupt()
    return await following


#: servers that are ending
_closing: set[asyncio.Task[None]] = set()


async def refuse_clients(
    servers: AsyncExitStack,
    mirror: Mirror,
    config: Config,
    logins: Logins,
    listeners: Listeners,
    actions: OperatorActions,
    certificates: Certificates | None,
) -> None:
    """Refuse clients until `servers` are closed, and `listeners` with them, and name the broker to which they
    should go."""
    from broker_app.features.mirror.standby_site import StandbySite

    servers.callback(_close, listeners)
    site = StandbySite(mirror, config, logins, actions)
    stop = asyncio.Event()
    web = asyncio.create_task(serve(site, config, listeners.web, stop, None, certificates))
    servers.push_async_callback(_ended, web)
    servers.callback(stop.set)
    connection = partial(StompRefusal, mirror, config.connect_timeout)
    if listeners.stomp is not None:
        server = await asyncio.get_running_loop().create_server(connection, sock=listeners.stomp)
        servers.callback(server.close)
    if listeners.stomp_tls is not None and certificates is not None:
        tls = TlsListener(
            listeners.stomp_tls,
            certificates,
            connection,
            plain_answer=stomp_error(mirror),
            handshake_timeout_s=config.connect_timeout,
        )
        servers.callback(tls.close)


def _close(listeners: Listeners) -> None:
    for listener in listeners:
        if listener is not None:
            listener.close()


async def _ended(web: asyncio.Task[None]) -> None:
    with suppress(Exception):
        await web


def duplicated(listeners: Listeners) -> Listeners:
    """The same listeners once more, to be closed by themselves."""

    def one(listener: socket.socket | None) -> socket.socket | None:
        return listener.dup() if listener is not None else None

    return Listeners(
        listeners.web.dup(), one(listeners.stomp), one(listeners.stomp_tls), one(listeners.cluster)
    )
