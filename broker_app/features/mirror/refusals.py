"""The answers of a standby, or of a broker that ends, to clients: they name the broker that serves."""

from __future__ import annotations

import asyncio
import html
from typing import cast

from broker_app.base.refused import Refused
from broker_app.core.message import MessageIds
from broker_app.features.mirror.mirror import Mirror
from broker_app.members.membership import Member
from broker_app.net.stomp.rendering import Renderer

#: the reason that programs recognize
MAIN_ACTIVE = "MAIN_ACTIVE"


def refusal(mirror: Mirror) -> Refused:
    """The refusal of a broker that does not serve, with the addresses of the one that does, or soon will, if
    there is one."""
    other = _other(mirror)
    if mirror.follows:
        detail, state = f"this is a mirror of broker {mirror.name} on standby", "is active"
    else:
        detail, state = f"this broker {mirror.name} ends", "takes over"
    if other is None:
        return Refused("not-active", f"{detail}, and no broker is active now; {_remedy(mirror)}")
    return Refused(
        "not-active",
        f"{detail}; {other.id} {state}: connect to it, or to all of them with a failover URI",
        reason=MAIN_ACTIVE,
        active=other.active_uris,
        web=other.web,
    )


def _other(mirror: Mirror) -> Member | None:
    """The broker that serves; for one that ends the one that takes over."""
    return mirror.active if mirror.follows else mirror.taker


def _remedy(mirror: Mirror) -> str:
    """Advice for a time without an active broker."""
    pause = mirror.membership.pause
    if pause is None:
        return "connect again in a moment"
    return f"{pause.sentence}: start the broker that was active, or end the pause (mom mirror resume)"


def moved(name: str, taker: Member, web: str) -> Refused:
    """The last answer of a broker from which another one has taken over, which answers HTTP at `web`."""
    detail = f"broker {name} is served by {taker.id} from now on: connect to it"
    return Refused("not-active", detail, reason=MAIN_ACTIVE, active=taker.active_uris, web=web)


def stomp_error(mirror: Mirror) -> bytes:
    """The refusal of a broker that does not serve, as an ERROR frame."""
    return Renderer("1.2", MessageIds(0)).error(refusal(mirror), None)


def page(mirror: Mirror) -> bytes:
    """The same as a page for browsers; it loads itself again every two seconds."""
    other = _other(mirror)
    if other is None:
        pause = mirror.membership.pause
        when = "One takes over within seconds." if pause is None else html.escape(f"{_remedy(mirror)}.")
        where = f"<p>No broker is active now. {when}</p>"
    else:
        address = html.escape(other.web)
        where = f'<p>The active broker is <a href="{address}">{address}</a>.</p>'
    name = html.escape(mirror.name)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
        f'<meta name="viewport" content="width=device-width"><title>{name}: standby</title></head>'
        f"<body><h1>{name}: this broker is on standby</h1>{where}"
        "<p>It follows the journal and takes over when the active broker ends.</p></body></html>"
    ).encode()


class StompRefusal(asyncio.Protocol):
    """A TCP connection to a standby: answered with an ERROR when the client has sent something.

    It is closed by the client, or after `timeout_s`; over TLS at once.
    """

    def __init__(self, mirror: Mirror, timeout_s: float) -> None:
        self._mirror = mirror
        self._timeout_s = timeout_s
        self._answered = False
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return
        self._answered = True
        self._transport.write(stomp_error(self._mirror))
        # The client may still be writing its CONNECT: a reset would keep it from reading the answer.
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()
