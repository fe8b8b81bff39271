"""A node with a base path: requests lose it, replies have it."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.base.asgi import Event
from broker_app.net.http.base_path import BasePath


async def sent(base_path: BasePath, path: str, location: bytes) -> tuple[dict[str, Any], list[Event]]:
    """The scope as received, and what was sent when a reply had `location`."""
    events: list[Event] = []

    async def send(event: Event) -> None:
        events.append(event)

    scope: dict[str, Any] = {"type": "http", "path": path, "raw_path": path.encode()}
    lead = base_path.strip(scope, send)
    await lead({"type": "http.response.start", "status": 201, "headers": [(b"location", location)]})
    await lead({"type": "http.response.body", "body": b""})
    return scope, events


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/x/y/api/v1/queues", "/api/v1/queues"),
        ("/x/y/", "/"),
        ("/x/y", "/"),
        ("/api/v1/queues", "/api/v1/queues"),
        ("/x/yz", "/x/yz"),
    ],
)
async def test_the_path_is_stripped_inside(path: str, inside: str) -> None:
    base_path = BasePath("/x/y")
    scope, _ = await sent(base_path, path, b"/")
    assert (scope["path"], scope["raw_path"]) == (inside, inside.encode())
    base_path.restore(scope)
    assert scope["path"] == f"/x/y{inside}"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (b"/api/v1/jobs/1", b"/x/y/api/v1/jobs/1"),
        (b"/x/y/console/", b"/x/y/console/"),
        (b"https://elsewhere.example/", b"https://elsewhere.example/"),
    ],
)
async def test_locations_in_replies_begin_with_it(said: bytes, left: bytes) -> None:
    _, (start, _) = await sent(BasePath("/x/y"), "/x/y/a", said)
    assert start["headers"] == [(b"location", left)]


async def test_without_a_path_nothing_is_touched() -> None:
    scope, (start, _) = await sent(BasePath(""), "/a", b"/b")
    assert scope["path"] == "/a" and start["headers"] == [(b"location", b"/b")]
