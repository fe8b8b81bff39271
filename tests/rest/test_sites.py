"""Sites over REST: curl sends messages and requests to applications, and lists the sites."""

from __future__ import annotations

import asyncio

import pytest

from broker_app.core import commands as c
from broker_app.core.header_block import headers
from broker_app.core.model import InnerReceiver, Peer
from broker_app.features.channels.content import checked
from broker_app.features.channels.handlers import REQUESTS
from tests.rest.conftest import Rest
from tests.support.awaiting import until


class Application(InnerReceiver):
    """A client with a handler, which answers each request with what it got, in parts of one byte if it is
    asked for `several`."""

    def __init__(self, rest: Rest) -> None:
        self.peer = Peer(self, user="app")
        self.got: list[tuple[dict[str, str], bytes]] = []
        self._channels = rest.registry.channels
        rest.engine.submit(c.Subscribe(self.peer, "h", REQUESTS))

    def flush(self, peer: Peer) -> None:
        deliveries, peer.deliveries = peer.deliveries, []
        for _, _, message in deliveries:
            given = headers(message.envelope.block)
            self.got.append((given, message.body))
            if given["need-response"] == "true":
                several = message.body == b"several"
                lengths = ",".join("1" * len(message.body)) if several else None
                answer = checked(b"several" if several else b"re: " + message.body, lengths)
                self._channels.answer(peer, given["channel-call"], "ok", answer)


@pytest.fixture
async def application(rest: Rest) -> Application:
    made = Application(rest)
    await rest.engine.wait_idle()
    return made


async def test_a_request_is_answered_with_the_bytes_of_the_answer(
    rest: Rest, application: Application
) -> None:
    for site in ("mom", "$master"):
        reply = await rest.alice.post(f"/sites/{site}/requests", content=b"\x00AAPL")
        assert (reply.status_code, reply.content) == (200, b"re: \x00AAPL"), reply.text
        assert reply.headers["content-type"] == "application/octet-stream"
    (site,) = (await rest.alice.get("/sites")).json()["items"]
    assert (site["name"], site["is_here"], site["is_master"], site["handlers"]) == ("mom", True, True, 1)
    assert (site["sent"], site["received"], site["in_flight"]) == (2, 2, 0)
    assert site["round_trip_ms"] > 0


async def test_parts_are_json_where_they_are_asked_for(rest: Rest, application: Application) -> None:
    parts = {"parts": [{"body": "put"}, {"body_base64": "AP8="}, {"body": ""}]}
    reply = await rest.alice.post("/sites/mom/messages", params={"parts": "true"}, json=parts)
    assert (reply.status_code, reply.content) == (204, b"")
    await until(lambda: application.got)
    ((given, body),) = application.got
    assert (given["parts"], given["need-response"], body) == ("3,2,0", "false", b"put\x00\xff")
    reply = await rest.alice.post("/sites/mom/requests", params={"multiple": "true"}, content=b"several")
    assert reply.json() == {"parts": [{"body": letter} for letter in "several"]}
    reply = await rest.alice.post("/sites/mom/requests", content=b"several")
    assert (reply.status_code, reply.json()["type"]) == (409, "/docs/problems/buffer-small")


async def test_what_fails_is_a_problem_with_the_code_of_the_channel(rest: Rest) -> None:
    for path, status, code in (
        ("/sites/1732/messages", 400, "invalid"),
        ("/sites/1732/requests", 400, "invalid"),
        ("/sites/mom/requests", 503, "noserver"),
    ):
        reply = await rest.alice.post(path, content=b"?")
        assert (reply.status_code, reply.json()["type"]) == (status, f"/docs/problems/{code}"), reply.text
    wrong: tuple[list[dict[str, str]], ...] = ([{}], [{"body_base64": "?"}], [{"body": "x"}] * 1_001)
    for parts in wrong:
        given = {"parts": parts}
        reply = await rest.alice.post("/sites/mom/messages", params={"parts": "true"}, json=given)
        assert (reply.status_code, reply.json()["type"]) == (400, "/docs/problems/invalid"), reply.text
    assert (await rest.alice.post("/sites/mom/messages", content=b"!")).status_code == 204
    (site,) = (await rest.alice.get("/sites")).json()["items"]
    assert (site["dropped"], site["failed"]) == ({"noserver": 1}, {"noserver": 1})
    assert (await rest.anonymous.get("/sites")).status_code == 401


async def test_a_request_without_an_answer_in_time_says_that_its_outcome_is_unknown(rest: Rest) -> None:
    class Silent(Application):
        def flush(self, peer: Peer) -> None:
            peer.deliveries.clear()

    Silent(rest)
    await rest.engine.wait_idle()
    waiting = asyncio.create_task(rest.alice.post("/sites/mom/requests", params={"timeout_ms": "20"}))
    reply = await waiting
    assert (reply.status_code, reply.json()["type"]) == (408, "/docs/problems/timeout")
    assert "unknown" in reply.json()["detail"]
