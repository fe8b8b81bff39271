"""Delays and dedup-ids as REST clients meet them."""

from datetime import UTC, datetime, timedelta

from tests.rest.conftest import Rest


async def test_a_delayed_message_is_seen_with_its_time_and_not_received(rest: Rest) -> None:
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    for headers in ({"mom-delay-s": "7200.5"}, {"mom-deliver-at": due.isoformat()}):
        reply = await rest.alice.post("/queues/a/messages", content=b"x", headers=headers)
        assert (reply.status_code, reply.json()["stored"]) == (201, "synced")
    assert await rest.receive("a") == []
    page = (await rest.alice.get("/queues/a/messages?state=delayed&limit=1")).json()
    assert [item["state"] for item in page["items"]] == ["delayed"]
    assert page["items"][0]["due"] == due.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert page["approx_total"] == 2
    rest_of_it = await rest.alice.get(f"/queues/a/messages?state=delayed&after={page['next']}")
    assert [item["id"] for item in rest_of_it.json()["items"]] != [page["items"][0]["id"]]
    assert len(rest_of_it.json()["items"]) == 1
    assert (await rest.alice.get("/queues/a/messages")).json()["items"] == []
    assert (await rest.alice.get("/queues/a")).json()["delayed"] == 2


async def test_a_state_in_the_one_line_filter_is_that_of_its_parameter(rest: Rest) -> None:
    await rest.publish("a", "now")
    await rest.publish("a", "later red", "later blue", **{"mom-delay-s": "60"})

    async def seen(query: str) -> list[str]:
        page = await rest.alice.get(f"/queues/a/messages?{query}")
        return [item["body"] for item in page.json()["items"]]

    assert await seen("where=state:delayed") == ["later red", "later blue"]
    assert await seen("where=state:delayed red") == ["later red"]
    assert await seen("where=state:ready") == ["now"]
    assert (await rest.alice.get("/queues/a/messages?state=ready&where=state:delayed")).status_code == 400


async def test_a_short_delay_ends_by_itself(rest: Rest) -> None:
    await rest.alice.post("/queues/a/messages", content=b"x", headers={"mom-delay-s": "0.05"})
    (item,) = await rest.receive("a", wait_s=5)
    assert item["body"] == "x"
    assert "delay-s" not in item["headers"]


async def test_what_is_sent_again_is_delivered_as_a_repeat_unless_it_is_known_here(rest: Rest) -> None:
    again = {"mom-dedup-id": "1", "mom-resent": "true"}
    stored = (await rest.alice.post("/queues/a/messages", content=b"x", headers=again)).json()
    assert "duplicate" not in stored
    batch = [
        {"body": "x", "dedup_id": id, "resent": resent}
        for id, resent in (("1", True), ("2", True), ("3", False))
    ]
    reply = await rest.alice.post("/queues/a/messages/batch", json=batch)
    assert [result.get("duplicate", False) for result in reply.json()["results"]] == [True, False, False]
    assert [item["redelivered"] for item in await rest.receive("a", max=3)] == [True, True, False]


async def test_a_repeat_is_answered_with_the_id_of_the_first(rest: Rest) -> None:
    first, repeat = [
        (await rest.alice.post("/queues/a/messages", content=b"x", headers={"mom-dedup-id": "1"})).json()
        for _ in range(2)
    ]
    assert "duplicate" not in first
    assert (repeat["id"], repeat["duplicate"]) == (first["id"], True)
    batch = [{"body": "x", "dedup_id": "1"}, {"body": "x", "dedup_id": "2"}]
    reply = await rest.alice.post("/queues/a/messages/batch", json=batch)
    assert [result.get("duplicate", False) for result in reply.json()["results"]] == [True, False]
    assert rest.depth("a") == 2
