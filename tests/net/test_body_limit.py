"""A body that is too long is refused before the application has it."""

import json
from typing import Any

from broker_app.net.http.body_limit import BoundedBody


class Exchange:
    """One request, in chunks of so many bytes; keeps what the application saw and the client got."""

    def __init__(self, *chunks: int, declared: int | None = None) -> None:
        self.scope = {"type": "http", "headers": [(b"content-length", b"%d" % declared)] if declared else []}
        self.coming = [
            {"type": "http.request", "body": bytes(size), "more_body": n < len(chunks)}
            for n, size in enumerate(chunks, 1)
        ]
        self.seen: list[Any] = []
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        return self.coming.pop(0)

    async def send(self, event: Any) -> None:
        self.sent.append(event)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        while (event := await receive())["type"] == "http.request":
            self.seen.append(len(event["body"]))
            if not event["more_body"]:
                await send({"type": "http.response.start", "status": 200})
                return

    async def run(self, limit: int) -> int:
        await BoundedBody(self.app, limit)(self.scope, self.receive, self.send)
        status: int = self.sent[0]["status"]
        return status


async def test_a_body_up_to_the_limit_passes() -> None:
    exchange = Exchange(60, 40, declared=100)
    assert await exchange.run(100) == 200
    assert exchange.seen == [60, 40]


async def test_a_declared_length_beyond_the_limit_is_refused_at_once() -> None:
    exchange = Exchange(60, 41, declared=101)
    assert await exchange.run(100) == 413
    assert exchange.seen == []
    problem = json.loads(exchange.sent[1]["body"])
    assert (problem["type"], problem["limit"], problem["size"]) == ("/docs/problems/too-large", 100, 101)


async def test_an_undeclared_length_is_refused_when_it_shows_even_in_the_last_chunk() -> None:
    for chunks in ((60, 41), (60, 60, 60), (101,)):
        exchange = Exchange(*chunks)
        assert await exchange.run(100) == 413
        assert sum(exchange.seen) <= 100
        assert not exchange.coming


async def test_a_body_that_does_not_end_is_cut_off() -> None:
    exchange = Exchange(*[1000] * 10, declared=10_000)
    assert await exchange.run(100) == 413
    assert len(exchange.coming) == 8
