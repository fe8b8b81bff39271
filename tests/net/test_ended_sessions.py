"""Sessions that have ended are freed at once. Python's garbage collector would have to look at everything
that the broker holds to find them, and stop it meanwhile."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from broker_app.core.inspection.pending_watch import PendingWatch
from broker_app.core.model import Peer, Subscription
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.arrival_feed import ArrivalFeed
from broker_app.net.json.connection import JsonConnection
from broker_app.net.json.session import JsonSession
from broker_app.net.json.subscriptions import JsonDeliveries, Notifications
from broker_app.net.stomp.conversation import Conversation
from broker_app.net.stomp.delivery_tags import Tags
from broker_app.net.stomp.session import StompSession
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.net.stomp.transports.local import LocalConnection, LocalPipe
from broker_app.net.stomp.transports.tcp import TcpConnection
from broker_app.net.stomp.transports.websocket import WebSocketConnection
from mom_client.stomp.parser import Parser
from tests.net.test_json_session import opened
from tests.net.test_websocket import CONNECT
from tests.net.test_websocket import opened as over_websocket
from tests.support.awaiting import until
from tests.support.patience import patient
from tests.support.small_broker import SmallBroker, small_broker

_OF_STOMP = StompSession, Conversation, Parser, Tags, Peer, Subscription
_OF_TRANSPORTS = TcpConnection, WebSocketConnection, LocalConnection
_OF_JSON = JsonSession, JsonConnection, EngineClient, JsonDeliveries, Notifications, ArrivalFeed, PendingWatch
_OF_SESSIONS = frozenset((*_OF_STOMP, *_OF_TRANSPORTS, *_OF_JSON))


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker() as running:
        yield running


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def consume(broker: SmallBroker) -> None:
    """A client receives a message, leaves it unsettled, and is gone."""
    client = await broker.client()
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0")
    await client.ask(b"SEND\ndestination:/queue/a\n\nx\0")
    await client.close()


async def leave(broker: SmallBroker) -> None:
    """A client says goodbye inside a transaction."""
    client = await broker.client()
    client.send(b"BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/b\ntransaction:t\n\nx\0")
    await client.ask(b"DISCONNECT\nreceipt:bye\n\n\0")
    await client.close()


async def blunder(broker: SmallBroker) -> None:
    """A client is refused."""
    client = await broker.client()
    client.send(b"NONSENSE\n\n\0")
    assert b"ERROR" in await client.ended()
    await client.close()


async def browse(broker: SmallBroker) -> None:
    """A client looks at a queue."""
    client = await broker.client()
    client.send(b"SEND\ndestination:/queue/c\n\nx\0SUBSCRIBE\nid:1\ndestination:/queue/c\nbrowser:true\n\n\0")
    await client.frames(2)
    await client.close()


async def hesitate(broker: SmallBroker) -> None:
    """A client does not log in."""
    client = await broker.stranger()
    await client.close()


async def surf(broker: SmallBroker) -> None:
    """A client of STOMP over WebSocket receives a message, and leaves."""
    client = await over_websocket(broker)
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/e\nack:client\n\n\0SEND\ndestination:/queue/e\n\nx\0")
    assert b"MESSAGE\n" in await client.data()
    await client.leave()


async def stay_inside(broker: SmallBroker) -> None:
    """A client within the process logs in."""
    pipe = LocalPipe(broker.registry)
    await pipe.send(CONNECT)
    assert (await pipe.receive()).startswith(b"CONNECTED\n")
    await pipe.close()


async def call_back(broker: SmallBroker) -> None:
    """A client of callbacks has a subscription, and leaves."""
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="d", mode="deliver", credit=5)
    await client.ask("subscribe", id="2", queue="d", mode="notify")
    await client.conversation.leave()


@pytest.mark.parametrize("session", [consume, leave, blunder, browse, hesitate, surf, stay_inside, call_back])
async def test_a_session_that_has_ended_is_freed_without_the_garbage_collector(
    broker: SmallBroker, session: Callable[[SmallBroker], Awaitable[None]], uncollected: None
) -> None:
    before = _objects()

    await session(broker)
    broker.clients.clear()

    await _until_left(before)


async def test_the_session_whose_time_limits_were_checked_last_is_freed_too(
    broker: SmallBroker, uncollected: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, checked, tick = _objects(), asyncio.Event(), SessionRegistry._tick

    def noted(registry: SessionRegistry, session: StompSession, now: float, step: float) -> None:
        tick(registry, session, now, step)
        checked.set()

    monkeypatch.setattr(SessionRegistry, "_tick", noted)
    client = await broker.client()
    async with asyncio.timeout(patient(10)):
        await checked.wait()
    await client.close()
    broker.clients.clear()
    await _until_left(before)


async def _until_left(before: Counter[str]) -> None:
    """Wait until no more objects of sessions exist than before."""
    deadline = asyncio.get_running_loop().time() + patient(10)
    while left := _objects() - before:
        assert asyncio.get_running_loop().time() < deadline, f"left of the session: {dict(left)}"
        await asyncio.sleep(0.1)


def _objects() -> Counter[str]:
    """The objects of sessions that exist, by class."""
    return Counter(type(one).__qualname__ for one in gc.get_objects() if type(one) in _OF_SESSIONS)


async def test_a_session_that_was_freed_is_known_by_its_id_to_a_list_that_was_begun_before(
    broker: SmallBroker,
) -> None:
    client = await broker.client()
    (session,) = broker.registry.sessions
    id, of_parts = session.peer.connection, session.conversation
    await client.close()
    await until(lambda: of_parts.session is not session)
    assert (session.peer.connection, bool(id)) == (id, True)
