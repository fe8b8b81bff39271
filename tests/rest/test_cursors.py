"""Cursors over HTTP: what readers report, what they lag behind, and what is kept for them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from broker_app.journal.errors import JournalFailed
from broker_app.journal.log.cursors import MAX_CURSORS
from broker_app.net.policy.policy import Grant
from broker_app.telemetry.lag_samples import KEPT, STEP_S
from tests.rest.conftest import Rest
from tests.rest.test_journal import administered, bodies, let_go, refusal

CURSORS = "/pipeline/cursors"


@pytest.fixture
def admin(rest: Rest) -> Rest:
    return administered(rest)


async def set_cursor(rest: Rest, name: str, position: int) -> dict[str, Any]:
    reply = await rest.alice.put(f"{CURSORS}/{name}", json={"position": position})
    assert reply.status_code == 200, reply.text
    shown: dict[str, Any] = reply.json()
    return shown


async def test_cursors_are_listed_with_their_lag(admin: Rest) -> None:
    empty = (await admin.alice.get(CURSORS)).json()
    assert empty == {"items": [], "low": 1, "end": 1}
    began = time.time()
    await admin.publish("a", *map(str, range(10)))
    await set_cursor(admin, "statistics:b1", 11)
    await set_cursor(admin, "archive", 4)
    shown = (await admin.alice.get(CURSORS)).json()
    assert (shown["low"], shown["end"]) == (1, 11)
    archive, statistics = shown["items"]
    assert 0 < archive.pop("lag_s") <= time.time() - began + 0.01
    assert archive.pop("reported_at").endswith("Z")
    assert archive == {
        "name": "archive", "position": 4, "lag": 7, "lags": [], "lost": None, "keeps_log": True,
    }  # fmt: skip
    assert (statistics["name"], statistics["lag"], statistics["lag_s"]) == ("statistics:b1", 0, 0)
    assert (await admin.alice.get(f"{CURSORS}/archive")).json()["position"] == 4


async def test_the_lag_of_the_last_half_hour_is_kept_and_grows_while_nobody_reads(admin: Rest) -> None:
    async def lags() -> list[int]:
        shown: list[int] = (await admin.alice.get(f"{CURSORS}/archive")).json()["lags"]
        return shown

    def pass_seconds(seconds: int) -> None:
        for _ in range(seconds):
            admin.cursor_lags.pass_second()

    pass_seconds(1)
    await set_cursor(admin, "archive", 1)
    pass_seconds(STEP_S)
    await admin.publish("a", "one", "two")
    pass_seconds(STEP_S)
    assert await lags() == [0, 2]
    await set_cursor(admin, "archive", 3)
    pass_seconds(STEP_S)
    assert await lags() == [0, 2, 0]
    pass_seconds(STEP_S * KEPT)
    assert await lags() == [0] * KEPT
    await admin.alice.delete(f"{CURSORS}/archive")
    pass_seconds(STEP_S)
    await set_cursor(admin, "archive", 3)
    assert await lags() == []


async def test_the_log_is_kept_for_a_cursor_until_it_is_dropped(admin: Rest) -> None:
    await admin.publish("a", "one", "two")
    await set_cursor(admin, "archive", 2)
    assert await let_go(admin) == 2
    assert bodies((await admin.alice.get("/journal/batches?from=2")).content) == [b"two"]
    assert (await admin.alice.delete(f"{CURSORS}/archive")).status_code == 204
    assert await let_go(admin) == 3
    (action,) = [action for action in admin.actions.take() if action.kind == "cursors"]
    assert (action.action, action.key, action.facts) == ("deleted", "archive", {"position": 2})


async def test_a_cursor_shows_what_was_let_go_before_it_was_read(admin: Rest) -> None:
    await admin.publish("a", "one", "two")
    await set_cursor(admin, "archive", 1)
    admin.journal.storage.batches.clear()
    shown = (await admin.alice.get(f"{CURSORS}/archive")).json()
    assert (shown["lost"], shown["lag"], shown["lag_s"]) == ({"from": 1, "to": 3}, 2, None)
    assert (await set_cursor(admin, "archive", 3))["lost"] is None


async def test_positions_that_are_not_stored_are_refused(admin: Rest) -> None:
    await admin.publish("a", "one", "two")
    low = await let_go(admin)
    for position, expected in ((low - 1, (410, "history-gone")), (low + 1, (409, "conflict"))):
        reply = await admin.alice.put(f"{CURSORS}/archive", json={"position": position})
        assert refusal(reply) == expected
        assert (reply.json()["low"], reply.json()["end"]) == (low, low)
    assert (await admin.alice.get(CURSORS)).json()["items"] == []


async def test_a_position_of_another_journal_is_refused(admin: Rest) -> None:
    await admin.publish("a", "one", "two")
    own = (await admin.alice.get("/journal/span")).json()["journal"]
    reply = await admin.alice.put(f"{CURSORS}/archive", json={"position": f"{own}0-2"})
    assert refusal(reply) == (409, "conflict")
    assert f"another journal than that of this broker, {own}" in reply.json()["detail"]
    reply = await admin.alice.put(f"{CURSORS}/archive", json={"position": f"{own}-2"})
    assert (reply.status_code, reply.json()["position"]) == (200, 2)


@pytest.mark.parametrize("body", [{}, {"position": "one"}, {"position": 1.5}, {"position": 1, "more": 2}, []])
async def test_wrong_bodies_are_refused(admin: Rest, body: Any) -> None:
    assert refusal(await admin.alice.put(f"{CURSORS}/archive", json=body)) == (400, "invalid")


@pytest.mark.parametrize("name", ["Archive", "a%20b", "a/b", "a" * 101, "%C3%BC"])
async def test_wrong_names_are_refused(admin: Rest, name: str) -> None:
    assert refusal(await admin.alice.put(f"{CURSORS}/{name}", json={"position": 1})) == (400, "invalid")


async def test_unknown_cursors_are_not_found(admin: Rest) -> None:
    for method in ("GET", "DELETE"):
        assert refusal(await admin.alice.request(method, f"{CURSORS}/none")) == (404, "not-found")


async def test_there_is_a_limit_of_cursors(admin: Rest) -> None:
    for number in range(MAX_CURSORS):
        await set_cursor(admin, f"reader-{number}", 1)
    reply = await admin.alice.put(f"{CURSORS}/one-more", json={"position": 1})
    assert refusal(reply) == (409, "conflict")
    assert "drop one" in reply.json()["detail"]
    await set_cursor(admin, "reader-7", 1)


async def test_a_cursor_that_cannot_be_stored_is_refused(
    admin: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        admin.journal, "set_cursor", lambda name, position, done: done(JournalFailed("no space left"))
    )
    reply = await admin.alice.put(f"{CURSORS}/archive", json={"position": 1})
    assert refusal(reply) == (503, "store-unavailable")
    assert "no space left" in reply.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("GET", "/archive"), ("PUT", "/archive"), ("DELETE", "/archive")]
)
async def test_cursors_need_the_right_to_read_the_journal(rest: Rest, method: str, path: str) -> None:
    body = {"position": 1} if method == "PUT" else None
    administered(rest, (Grant(frozenset({"administer", "read"}), (">",)),))
    for client in (rest.alice, rest.bob):
        reply = await client.request(method, CURSORS + path, json=body)
        assert refusal(reply) == (403, "not-allowed")
        assert reply.json()["right"] == "journal:read"
    administered(rest, (Grant(frozenset({"journal:read"}), (">",)),))
    assert (await rest.alice.request(method, CURSORS + path, json=body)).status_code in (200, 404)
