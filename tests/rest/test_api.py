"""Behaviour of all endpoints: login, addresses, methods, health, facts, limits."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from broker_app.core.commands import StoreSpace
from broker_app.net.rest import RestLimits, openapi
from tests.rest.conftest import MakeRest, Rest


def basic(text: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


# ---------------------------------------------------------------------- login


async def test_tokens_and_passwords_let_in(rest: Rest) -> None:
    for headers in ({"authorization": "bearer mom_bob"}, basic("bob:bob"), basic("token:mom_bob")):
        assert (await rest.anonymous.get("/limits", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer x",
        "Bearer",
        "Basic",
        "Basic ?",
        "Basic bm9ib2R5",
        "Digest x",
        basic("bob:x")["authorization"],
        "Basic Og==",
    ],
)
async def test_wrong_credentials_do_not(rest: Rest, authorization: str) -> None:
    reply = await rest.anonymous.get("/limits", headers={"authorization": authorization})
    assert (reply.status_code, reply.json()["type"]) == (401, "/docs/problems/not-authenticated")
    assert reply.headers.get_list("www-authenticate") == [
        'Bearer realm="mom"',
        'Basic realm="mom", charset="UTF-8"',
    ]


async def test_a_page_that_fetches_gets_no_challenge_of_the_browser(rest: Rest) -> None:
    reply = await rest.anonymous.get("/limits", headers={"sec-fetch-dest": "empty"})
    assert reply.headers.get_list("www-authenticate") == ['Bearer realm="mom"']


COOKIE = {"cookie": "sessionid=cookie-of-alice"}


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 200),
        ("GET", {"sec-fetch-site": "same-origin"}, 200),
        ("GET", {"sec-fetch-site": "none"}, 200),
        ("GET", {"sec-fetch-site": "cross-site"}, 403),
        ("GET", {"origin": "http://evil.example"}, 403),
        ("POST", {}, 403),
        ("POST", {"x-requested-with": "mom"}, 200),
        ("POST", {"sec-fetch-site": "none"}, 403),
        ("POST", {"sec-fetch-site": "same-origin"}, 200),
        ("POST", {"origin": "http://localhost"}, 200),
        ("POST", {"origin": "http://evil.example", "x-requested-with": "mom"}, 403),
        ("POST", {"origin": "null"}, 403),
        ("POST", {"sec-fetch-site": "same-site", "x-requested-with": "mom"}, 403),
    ],
)
async def test_a_session_cookie_counts_on_our_own_pages_alone(
    rest: Rest, make_rest: MakeRest, method: str, headers: dict[str, str], status: int
) -> None:
    address = "/limits" if method == "GET" else "/queues/a/receive"
    reply = await rest.anonymous.request(method, address, headers={**COOKIE, **headers})
    assert reply.status_code == status
    # A client without credentials is as easily borrowed by foreign pages.
    open_to_all = make_rest(anonymous=True)
    assert (await open_to_all.anonymous.request(method, address, headers=headers)).status_code == status


async def test_a_foreign_host_name_is_not_ours(make_rest: MakeRest) -> None:
    rest = make_rest(anonymous=True)
    reply = await rest.anonymous.get(
        "/limits", headers={"host": "evil.example", "sec-fetch-site": "same-origin"}
    )
    assert reply.status_code == 403


async def test_a_wrong_cookie_is_no_login(rest: Rest) -> None:
    assert (await rest.anonymous.get("/limits", headers={"cookie": "sessionid=x"})).status_code == 401


# ---------------------------------------------------------------------- addresses and methods


@pytest.mark.parametrize(
    ("path", "owned"),
    [
        ("/api/v1/queues", True),
        ("/api/v1/queues/a/b", True),
        ("/api/v1/topics/a", True),
        ("/api/v1/topics//messages", True),
        ("/api/v1/queues/a/messages", True),
        ("/api/v1/health/ready", True),
        ("/api/v1/openapi.json", True),
        ("/api/v1/tokens", False),
        ("/api/v1/", False),
        ("/api/v1/queuesx", False),
        ("/queues/a/messages", False),
    ],
)
async def test_the_plane_knows_its_own_paths(rest: Rest, path: str, owned: bool) -> None:
    assert rest.rest_api.owns({"method": "GET", "path": path}) is owned


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/queues", "/queues/a", "/queues/a/b", "/queues/a%2Fmessages", "/topics/a"])
async def test_settings_are_written_by_the_control_plane(make_rest: MakeRest, method: str, path: str) -> None:
    scope = {"path": "", "raw_path": f"/api/v1{path}".encode()}
    settings: dict[str, Any] = {"put": {}, "patch": {}, "delete": {}}
    described = {f"/api/v1/{kind}/{{name}}": settings for kind in ("queues", "topics")}
    beside, alone = make_rest(control_document={"paths": described}), make_rest()
    assert not beside.rest_api.owns({"method": method, **scope})
    assert beside.rest_api.owns({"method": "POST", **scope}) and beside.rest_api.owns(
        {"method": "GET", **scope}
    )
    reply = await alone.alice.request(method, path)
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize(
    "address", ["/queues/", "/topics/", "/queues//messages", "/messages", "/leases/", "/health"]
)
async def test_unknown_addresses(rest: Rest, address: str) -> None:
    reply = await rest.alice.get(address)
    assert (reply.status_code, reply.json()["type"]) == (404, "/docs/problems/not-found")


async def test_options_and_head(rest: Rest) -> None:
    options = await rest.anonymous.options("/queues/a/messages")
    assert (options.status_code, options.headers["allow"]) == (204, "DELETE, GET, HEAD, OPTIONS, POST")
    head = await rest.alice.head("/limits")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0


async def test_every_reply_has_an_id_of_its_own(rest: Rest) -> None:
    replies = [await rest.anonymous.get(address) for address in ("/health/live", "/limits", "/nothing")]
    assert len({reply.headers["request-id"] for reply in replies}) == 3


async def test_problems_carry_the_trace(rest: Rest) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    reply = await rest.anonymous.get("/limits", headers={"traceparent": trace})
    assert reply.json()["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert reply.headers["traceparent"] == trace
    broken = await rest.anonymous.get("/limits", headers={"traceparent": "x"})
    assert "trace_id" not in broken.json()


async def test_a_bug_is_no_trace_back_for_the_client(rest: Rest, caplog: pytest.LogCaptureFixture) -> None:
    publisher = rest.engine.broker.publisher
    published, publisher.topic_published = publisher.topic_published, None  # type: ignore[assignment]
    reply = await rest.alice.get("/topics")
    assert (reply.status_code, reply.json()["type"]) == (500, "/docs/problems/internal")
    assert "Traceback" not in reply.text
    assert "Traceback" in caplog.text
    publisher.topic_published = published


# ---------------------------------------------------------------------- facts


async def test_health_reports_whether_the_node_serves(rest: Rest) -> None:
    assert (await rest.anonymous.get("/health/live")).json() == {"status": "live"}
    assert (await rest.anonymous.get("/health/ready")).json() == {"status": "ready"}
    rest.store_is_nearly_full = True
    nearly = await rest.anonymous.get("/health/ready")
    assert (nearly.status_code, nearly.json()) == (200, {"status": "ready", "degraded": "nearly-full"})
    rest.engine.submit(StoreSpace(0))
    await rest.engine.wait_idle()
    full = await rest.anonymous.get("/health/ready")
    assert (full.status_code, full.json()["type"]) == (503, "/docs/problems/store-full")
    assert "no disk space left" in full.json()["detail"]
    rest.rest_api.stop()
    stopping = await rest.anonymous.get("/health/ready")
    assert (stopping.status_code, stopping.json()["type"]) == (503, "/docs/problems/not-active")
    assert (await rest.anonymous.get("/health/live")).status_code == 200
    await rest.engine.stop()
    assert (await rest.anonymous.get("/health/ready")).status_code == 503


async def test_limits_and_statistics(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_batch_items=7))
    assert (await rest.alice.get("/limits")).json()["max_batch_items"] == 7
    rest.statistics.sample(1_800_000_000.0, connections=3)
    shown = (await rest.alice.get("/stats")).json()
    assert (shown["time"], shown["node"]["connections"]) == ("2027-01-15T08:00:00.000Z", 3)
    assert (await rest.anonymous.get("/stats")).status_code == 401
    assert (await rest.alice.get("/stats?x=1")).status_code == 400


async def test_every_operation_that_is_described_is_answered(rest: Rest) -> None:
    document = (await rest.anonymous.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    missing = []
    for path, operations in document["paths"].items():
        reply = await rest.anonymous.options(path.removeprefix("/api/v1"))
        allowed = reply.headers["allow"].lower().split(", ")
        missing += [(method, path) for method in operations if method not in allowed]
    assert not missing


async def test_the_control_planes_description_is_joined_in() -> None:
    control: dict[str, Any] = {
        "paths": {"/api/v1/tokens": {"get": {}}},
        "components": {"schemas": {"Token": {}, "Problem": {}}},
    }
    joined = openapi.document(control)
    assert "/api/v1/tokens" in joined["paths"]
    assert "Token" in joined["components"]["schemas"]
    assert joined["components"]["schemas"]["Problem"]


# ---------------------------------------------------------------------- bounds


async def exchange(
    rest: Rest, events: list[dict[str, Any]], headers: list[tuple[bytes, bytes]]
) -> tuple[int, bytes]:
    """A publish whose body arrives as `events`, and never ends after them."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if events:
            return events.pop(0)
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/queues/a/messages",
        "raw_path": b"/api/v1/queues/a/messages",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer mom_alice"), *headers],
    }
    await rest.rest_api(scope, receive, send)
    return (sent[0]["status"], sent[1]["body"]) if sent else (0, b"")


def part(body: bytes) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": True}


async def test_a_body_that_does_not_come_is_given_up(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(upload_timeout_s=0.01, upload_rate=1_000_000))
    for events in ([], [part(b"x")]):
        status, body = await exchange(rest, events, [])
        assert (status, b"problems/timeout" in body) == (408, True)
    assert rest.rest_api._dispatcher.uploads.total == 0


async def test_an_announced_size_is_refused_before_anything_is_read(rest: Rest) -> None:
    status, body = await exchange(rest, [], [(b"content-length", b"99999999999999999999")])
    assert (status, b"too-large" in body) == (413, True)


async def test_all_uploads_together_are_bounded(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_uploading_bytes=200))
    first = asyncio.ensure_future(exchange(rest, [part(b"x" * 60), part(b"y")], []))
    await rest.until(lambda: rest.rest_api._dispatcher.uploads.total == 61)
    status, body = await exchange(rest, [part(b"x" * 60), part(b"y")], [])
    assert (status, b"problems/busy" in body) == (503, True)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert rest.rest_api._dispatcher.uploads.total == 0


async def test_a_client_that_leaves_in_the_middle_publishes_nothing(rest: Rest) -> None:
    assert await exchange(rest, [part(b"x"), {"type": "http.disconnect"}], []) == (0, b"")
    assert await exchange(rest, [{"type": "http.disconnect"}], []) == (0, b"")
    assert "/queue/a" not in rest.engine.broker.destinations.queues


@pytest.mark.parametrize(
    ("path", "queue"), [("/queues/a/messages", "a"), ("/profiles/messages?profile=name='none'", "$seeds")]
)
async def test_a_full_engine_lets_publishers_wait(make_rest: MakeRest, path: str, queue: str) -> None:
    rest = make_rest(hold=True)
    rest.engine._inbox_limit = 0
    posts = [asyncio.ensure_future(rest.alice.post(path, content=b"x")) for _ in range(3)]
    await rest.until(lambda: rest.depth(queue) == 1)
    rest.journal.hold = False
    rest.journal.release()
    assert [reply.status_code for reply in await asyncio.gather(*posts)] == [201, 201, 201]
    assert rest.depth(queue) == 3
