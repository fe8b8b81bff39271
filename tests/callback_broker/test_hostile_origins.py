"""Origins that answer what no broker answers: the connection ends with a sentence, and in time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from broker_app.base.settings.roles import CALLBACK
from broker_app.features.callback_broker.origin_link import OriginLink, OriginLost, longest_event
from broker_app.features.services.origin import Origin
from tests.callback_broker.test_callback_broker import POLICY
from tests.support.small_node import small_node

PAGE = {"op": "pending", "queue": "stock", "seq": 0, "seqs": [], "ids": [], "pending": 0, "more": False}
ARRIVED = {**PAGE, "op": "arrived", "sub": "stock"}
#: what an honest broker answers
HONEST: dict[str, dict[str, Any]] = {
    "register": {"op": "registered", "id": "1", "service": "stock", "callbacks": True},
    "subscribe": {"op": "done"},
    "pending": PAGE,
}


@contextlib.asynccontextmanager
async def origin(event: dict[str, Any] | None = None, **answers: dict[str, Any]) -> AsyncIterator[str]:
    """The address of an origin with these answers, which sends `event` after a subscription."""

    async def answer(socket: ServerConnection) -> None:
        await socket.send(json.dumps({"op": "ready", "user": "anna", "broker": "b", "server": "s"}))
        async for text in socket:
            asked = json.loads(text)
            found = {**HONEST, **answers}.get(asked["op"], {"op": "done"})
            await socket.send(json.dumps({"ref": asked["ref"], **found}))
            if asked["op"] == "pending" and event is not None:
                await socket.send(json.dumps(event))

    async with serve(answer, "127.0.0.1", 0, subprotocols=["mom.v1.json"]) as server:  # type: ignore[list-item]
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/ws"


async def refusal_of(path: Path, url: str) -> str:
    """Why a service cannot be registered at an origin."""
    async with (
        small_node(path, POLICY, name="REcallback", role=CALLBACK, max_attempts=10**9) as local,
        local.rest("anna") as rest,
    ):
        body = {"name": "stock", "machine": "h1", "origin": {"urls": [url], "token": "mom_anna"}}
        reply = await rest.post("/services", json=body)
        assert reply.status_code == 503, reply.text
        return str(reply.json()["detail"])


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"register": {"op": "done"}}, "it answered register with 'done'"),
        ({"register": {"op": "registered"}}, "'registered': Object missing required field `id`"),
        ({"pending": {**PAGE, "seqs": [1, 2], "ids": ["a"]}}, "'pending': it has 2 positions and 1 ids"),
        ({"pending": {**PAGE, "seqs": "1"}}, "'pending': Expected `array`, got `str` - at `$.seqs`"),
        ({"pending": {**PAGE, "more": True}}, "its list of what waits does not go on behind 0"),
    ],
)  # fmt: skip
async def test_an_answer_that_no_broker_gives_ends_the_connection_with_a_sentence(
    tmp_path: Path, answers: dict[str, Any], sentence: str
) -> None:
    async with origin(**answers) as url:
        assert sentence in await refusal_of(tmp_path, url)


async def follow(url: str, most: int) -> str:
    """How a connection ends that only asks what waits."""
    link = await OriginLink.open(url, Origin((url,), "anna"), lambda event: None, most)
    try:
        link.ask("pending", id="stock", after=0)
        with pytest.raises(OriginLost) as lost:
            await link.run()
        return str(lost.value)
    finally:
        await link.close()


async def test_a_notification_whose_lists_do_not_match_ends_the_connection_with_a_sentence() -> None:
    async with origin({**ARRIVED, "seqs": [1, 2], "ids": ["a"]}) as url:
        assert await follow(url, 10**6) == (
            "the origin sent an invalid event 'arrived': it has 2 positions and 1 ids"
        )


async def test_an_event_is_as_large_as_a_message_may_be_and_not_larger() -> None:
    most = longest_event(100_000)
    async with origin({**ARRIVED, "queue": "q" * (most + 1)}) as url:
        assert await follow(url, most) == (
            f"the origin sent an event of more than {most:,} bytes, which no message needs"
        )
    assert 64 * 1024 * 1024 * 4 // 3 < longest_event(64 * 1024 * 1024) < 128 * 1024 * 1024
