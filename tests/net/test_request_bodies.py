"""Bodies of requests, which arrive in pieces."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest

from broker_app.base.shares import Shares
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.requests import Request, decode
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access, Client, ConnectionInfo
from tests.support.small_node import policy_of

#: new ones, as those that are received, and how many
PIECE, COUNT = 65_536, 256


async def test_the_pieces_of_a_large_body_are_not_copied_together_at_its_end() -> None:
    left = COUNT

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": bytes(PIECE), "more_body": left > 0}

    async def send(_: object) -> None:
        raise AssertionError("nothing is answered")

    access = Access(Logins(policy_of(users={"ann": ()}), lambda given, expected: given == expected))
    scope = {"method": "POST", "headers": [], "query_string": b""}
    shares, size = Shares(lambda: 1 << 30, "bytes"), COUNT * PIECE
    request = Request(scope, receive, send, access, RestLimits(), shares, OperatorActions())
    request.client = Client(Identity("ann"), ConnectionInfo("http"))
    tracemalloc.start()
    body = await request.body(size)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert body == bytes(size)
    assert peak < 1.5 * size


class Wait(msgspec.Struct):
    """An item with a time."""

    wait_s: float


class Waits(msgspec.Struct):
    """A body with many times."""

    waits: list[Wait]


def test_the_types_of_fields_are_not_found_for_each_item_with_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    fields = msgspec.structs.fields

    def counted(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
        asked.append(kind)
        return fields(kind)

    monkeypatch.setattr(msgspec.structs, "fields", counted)
    numbers, texts = (
        b'{"waits":[%b]}' % b",".join([b'{"wait_s":%b}' % wait] * 1_000) for wait in (b"2", b'"2s"')
    )
    assert decode(texts, Waits) == decode(numbers, Waits)
    assert 0 < len(asked) <= 2
