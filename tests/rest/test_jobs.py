"""Jobs over HTTP: plans, runs, progress, results, undo, export and import."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import httpx
import msgspec
import pytest

from broker_app.core import commands as c
from broker_app.core.limits import Limits
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.features.jobs import store
from tests.rest.conftest import MakeRest, Rest, in_pieces
from tests.support.loop_turns import loop_turns


async def post(rest: Rest, status: int = 202, **wish: Any) -> dict[str, Any]:
    reply = await rest.alice.post("/jobs", json=wish)
    assert reply.status_code == status, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def ended(rest: Rest, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it has ended."""
    await rest.until_later(lambda: not rest.jobs.get(job["id"]).open)
    shown: dict[str, Any] = (await rest.alice.get(f"/jobs/{job['id']}")).json()
    return shown


async def run(rest: Rest, **wish: Any) -> dict[str, Any]:
    return await ended(rest, await post(rest, **wish))


async def results(rest: Rest, job: dict[str, Any]) -> list[dict[str, Any]]:
    reply = await rest.alice.get(f"/jobs/{job['id']}/results")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in reply.text.splitlines()]


async def bodies(rest: Rest, queue: str) -> list[Any]:
    items = (await rest.alice.get(f"/queues/{queue}/messages?limit=500")).json().get("items", [])
    return [item["body"] for item in items]


async def bury(rest: Rest, queue: str, *texts: str, reason: str = "no", **headers: str) -> None:
    """Messages of `queue` become dead letters."""
    await rest.publish(queue, *texts, **headers)
    taken = await rest.receive(queue, max=len(texts))
    nack = [{"receipt": item["receipt"], "dead": True, "reason": reason} for item in taken]
    assert (await rest.alice.post("/leases/settle", json={"nack": nack})).status_code == 200


async def test_a_digest_counts_dead_letters_by_origin_and_reason(rest: Rest) -> None:
    await bury(rest, "orders", "1", "2", reason="schema v3")
    await bury(rest, "orders", "3", reason="timeout")
    digest = (await rest.alice.get("/queues/orders.dead/digest")).json()
    assert digest.pop("oldest") <= digest.pop("newest")
    assert digest == {
        "matches": 3,
        "bytes": 3,
        "by_origin": {"orders": 3},
        "by_reason": {"schema v3": 2, "timeout": 1},
        "scanned": 3,
        "stopped": False,
        "approx_total": 3,
    }
    found = (await rest.alice.get("/queues/orders.dead/digest", params={"reason": "timeout"})).json()
    assert (found["matches"], found["scanned"]) == (1, 3)
    assert (await rest.alice.get("/queues/nobody/digest")).status_code == 404


# ---------------------------------------------------------------------- plans


async def test_a_dry_run_shows_what_a_retry_would_do_and_changes_nothing(rest: Rest) -> None:
    await bury(rest, "orders.new", *"1234567", reason="schema is old")
    await bury(rest, "orders.eu", "8", reason="schema is old")
    await bury(rest, "orders.new", "9", reason="db down")
    for name in ("orders.eu",):
        rest.engine.broker.destinations.queues[f"/queue/{name}.dead"]
    job = await run(rest, op="move", source="orders.eu.dead", target="orders.new.dead")
    assert job["done"] == 1
    plan = await post(
        rest, 200, op="retry", source="queue:orders.new.dead", target="origin",
        filter={"reason": "schema"}, limit=7, dry_run=True,
    )  # fmt: skip
    assert (plan["matches"], plan["count"], plan["complete"]) == (8, 7, True)
    assert plan["by_origin"] == {"orders.new": 7, "orders.eu": 1}
    assert [item["body"] for item in plan["sample"]] == list("12345")
    assert plan["oldest"] <= plan["newest"] < plan["valid_until"]
    assert set(plan["warnings"]) == {
        "8 messages match; this job takes the first 7",
        "orders.eu has no consumer",
        "orders.new has no consumer",
    }
    assert rest.depth("orders.new.dead") == 9


async def test_a_plan_runs_exactly_what_it_showed_and_once(rest: Rest) -> None:
    await rest.publish("a", "1", "2")
    plan = await post(rest, 200, op="move", source="a", target="b", dry_run=True)
    await rest.publish("a", "3")
    job = await ended(rest, await post(rest, plan=plan["plan"]))
    assert (job["state"], job["done"], job["total"], job["user"]) == ("done", 2, 2, "alice")
    assert (await bodies(rest, "a"), await bodies(rest, "b")) == (["3"], ["1", "2"])
    assert (await post(rest, 404, plan=plan["plan"]))["type"] == "/docs/problems/not-found"


async def test_a_plan_without_a_filter_reads_only_what_it_shows(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=2))
    await rest.publish("a", *map(str, range(20)))
    plan = await post(rest, 200, op="delete", source="a", dry_run=True)
    assert (plan["matches"], plan["scanned"]) == (20, 0)
    assert [item["body"] for item in plan["sample"]] == list("01234")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"headers": {"tenant": "acme"}}, ["1", "3"]),
        ("header.tenant:acme", ["1", "3"]),
        ("header.tenant:acme three", ["3"]),
        ("three", ["3"]),
        ('"header.tenant:acme"', []),
        ({"q": "TWO"}, ["2"]),
        ({"q": "other"}, ["2"]),
        ({"selector": "tenant = 'acme' OR tenant IS NULL"}, ["1", "3", "4"]),
        ({"age_gt_s": 3600}, []),
        ("age_lt_s:3600", ["1", "2", "3", "4"]),
        ({"origin": "a"}, []),
    ],
)
async def test_filters(make_rest: MakeRest, wanted: Any, expected: list[str]) -> None:
    rest = make_rest(core=Limits(window=2))
    acme = {"mom-header-tenant": "acme"}
    await rest.publish("a", "1 one", **acme)
    await rest.publish("a", "2 two", **{"mom-header-tenant": "Another"})
    await rest.publish("a", "3 Three", **acme)
    await rest.publish("a", "4")
    await run(rest, op="move", source="a", target="b", filter=wanted)
    assert [body[0] for body in await bodies(rest, "b")] == expected if expected else rest.depth("b") == 0


async def test_messages_are_chosen_by_id(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=1))
    ids = await rest.publish("a", "1", "2", "3")
    job = await run(rest, op="delete", source="a", filter={"ids": [ids[0], ids[2], "nothing"]})
    assert (job["done"], await bodies(rest, "a")) == (2, ["2"])
    assert [line["id"] for line in await results(rest, job)] == [ids[0], ids[2]]


@pytest.mark.parametrize(
    ("wish", "problem"),
    [
        ({"op": "fly", "source": "a"}, "invalid"),
        ({"op": "move", "source": "a"}, "invalid"),
        ({"op": "move"}, "invalid"),
        ({"source": "a"}, "invalid"),
        ({"op": "delete", "source": "a", "target": "b"}, "invalid"),
        ({"op": "copy", "source": "a", "target": "origin"}, "invalid"),
        ({"op": "move", "source": "a", "target": "a"}, "invalid"),
        ({"op": "move", "source": "a", "target": "/topic/t"}, "bad-destination"),
        ({"op": "move", "source": "a", "target": "$x"}, "bad-destination"),
        ({"op": "delete", "source": "a", "filter": {"colour": "red"}}, "invalid"),
        ({"op": "delete", "source": "a", "filter": "colour:red"}, "invalid"),
        ({"op": "delete", "source": "a", "filter": {"selector": "= 1"}}, "invalid-selector"),
        ({"op": "delete", "source": "a", "filter": {"selector": "a" * 1_025}}, "invalid-selector"),
        ({"op": "purge", "source": "a", "filter": "x"}, "invalid"),
        ({"op": "delete", "source": "a", "limit": 0}, "invalid"),
        ({"op": "delete", "source": "a", "rate_per_s": -1}, "invalid"),
        ({"op": "delete", "source": "a", "rate_per_s": 0.5}, "invalid"),
        ({"op": "delete", "source": "a", "max_error_ratio": 2}, "invalid"),
        ({"op": "delete", "source": "nowhere"}, "not-found"),
        ({"plan": "p_0"}, "not-found"),
        ({"plan": "p_0", "op": "move"}, "invalid"),
    ],
)
async def test_invalid_job_requests_are_refused(rest: Rest, wish: dict[str, Any], problem: str) -> None:
    await rest.publish("a", "1")
    reply = await rest.alice.post("/jobs", json=wish)
    assert reply.json()["type"] == f"/docs/problems/{problem}", reply.text
    assert (reply.status_code < 500, await bodies(rest, "a")) == (True, ["1"])


# ---------------------------------------------------------------------- runs


async def test_a_retry_goes_back_to_each_origin(rest: Rest) -> None:
    await bury(rest, "a", "1", "2", **{"mom-header-n": "x"})
    job = await run(rest, op="retry", source="a.dead")
    assert (job["state"], job["target"], job["done"]) == ("done", "origin", 2)
    page = (await rest.alice.get("/queues/a/messages")).json()["items"]
    assert [(item["body"], item["headers"], item["attempt"]) for item in page] == [
        ("1", {"n": "x"}, 1),
        ("2", {"n": "x"}, 1),
    ]


async def test_an_undone_retry_is_as_if_it_had_never_been(rest: Rest) -> None:
    await bury(rest, "a", "1", "2", "3", reason="why")
    before = (await rest.alice.get("/queues/a.dead/messages?fields=id,headers,body")).json()["items"]
    job = await run(rest, op="retry", source="a.dead")
    (taken,) = await rest.receive("a", ack="auto")
    reply = await rest.alice.post(f"/jobs/{job['id']}/undo")
    assert reply.status_code == 202
    undo = await ended(rest, reply.json())
    assert (undo["op"], undo["done"], undo["gone"], undo["undo_of"]) == ("undo", 2, 1, job["id"])
    after = (await rest.alice.get("/queues/a.dead/messages?fields=id,headers,body")).json()["items"]
    assert (taken["body"], after) == ("1", before[1:])
    again = await rest.alice.post(f"/jobs/{job['id']}/undo")
    assert (again.status_code, undo["id"] in again.json()["detail"]) == (409, True)


async def test_messages_that_are_not_due_are_cancelled(rest: Rest) -> None:
    await rest.publish("a", "now")
    ids = await rest.publish("a", "1 red", "2 red", "3 blue", **{"mom-delay-s": "60"})
    plan = await post(rest, 200, op="delete", source="a", filter="state:delayed red", dry_run=True)
    assert (plan["matches"], [item["body"] for item in plan["sample"]]) == (2, ["1 red", "2 red"])
    job = await ended(rest, await post(rest, plan=plan["plan"]))
    assert job["done"] == 2
    reply = await rest.alice.get(f"/messages/{ids[2]}/why?queue=a")
    assert reply.json()["reasons"][0]["code"] == "delayed"
    assert (await rest.alice.delete(f"/messages/{ids[2]}?queue=a")).status_code == 204
    assert (await rest.alice.delete(f"/messages/{ids[2]}?queue=a")).status_code == 404
    assert rest.engine.broker.scheduler.schedules == {}
    assert await bodies(rest, "a") == ["now"]
    await post(rest, 400, op="move", source="a", target="b", filter={"state": "delayed"})


async def test_where_nothing_is_delayed_no_other_message_is_taken_for_it(rest: Rest) -> None:
    await rest.publish("a", "now")
    plan = await post(rest, 200, op="delete", source="a", filter="state:delayed", dry_run=True)
    assert (plan["matches"], plan["sample"]) == (0, [])
    assert await bodies(rest, "a") == ["now"]


async def test_results_contain_the_outcome_of_each_message(rest: Rest) -> None:
    ids = await rest.publish("a", "1", "2", "3")
    plan = await post(rest, 200, op="move", source="a", target="b", dry_run=True)
    first = await rest.receive("a", max=2)
    await rest.alice.delete(f"/leases/{first[1]['receipt']}")
    job = await ended(rest, await post(rest, plan=plan["plan"]))
    assert (job["done"], job["gone"], job["unsettled"]) == (1, 1, 1)
    lines = await results(rest, job)
    assert [(line["i"], line["status"]) for line in lines] == [(0, "unsettled"), (1, "gone"), (2, "done")]
    assert (lines[2]["id"], lines[2]["to"]) == (ids[2], "/queue/b")


async def test_a_copy_leaves_its_source(rest: Rest) -> None:
    await rest.publish("a", "1", "2")
    await run(rest, op="copy", source="a", target="b")
    assert (await bodies(rest, "a"), await bodies(rest, "b")) == (["1", "2"], ["1", "2"])


async def test_a_purge_takes_everything_that_waited_when_it_was_asked_for(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=5))
    await rest.publish("a", *map(str, range(30)))
    await rest.publish("a", "transient", **{"mom-persistent": "false"})
    plan = await post(rest, 200, op="purge", source="a", dry_run=True)
    await rest.publish("a", "later")
    job = await ended(rest, await post(rest, plan=plan["plan"]))
    assert (job["done"], job["total"], await bodies(rest, "a")) == (31, 31, ["later"])


async def test_a_job_keeps_its_rate_and_can_be_cancelled(rest: Rest) -> None:
    await rest.publish("a", *map(str, range(50)))
    job = await post(rest, op="move", source="a", target="b", rate_per_s=5)
    await rest.until_later(lambda: rest.jobs.get(job["id"]).processed > 0)
    assert rest.depth("b") == 1
    assert (await rest.alice.post(f"/jobs/{job['id']}/cancel")).status_code == 200
    cancelled = await ended(rest, job)
    assert (cancelled["state"], cancelled["processed"]) == ("cancelled", 1)
    assert (await rest.alice.post(f"/jobs/{job['id']}/cancel")).status_code == 409


async def test_a_job_that_is_refused_too_often_stops(rest: Rest) -> None:
    await rest.publish("a", *map(str, range(30)))
    job = await run(rest, op="retry", source="a", rate_per_s=100, max_error_ratio=0.5)
    assert (job["state"], job["done"], job["refused"]) == ("stopped", 0, 20)
    assert job["reason"] == "20 of 20 messages were refused"
    assert (await results(rest, job))[0]["detail"].startswith("it is not a dead letter")


async def limit(rest: Rest, queue: str, **limits: Any) -> None:
    policies = Policies(exact={f"/queue/{queue}": DestinationPolicy(**limits)})
    rest.engine.submit(c.Reconfigure(policies))
    await rest.engine.wait_idle()


async def test_a_job_waits_for_room_at_its_target(rest: Rest) -> None:
    await rest.publish("a", *map(str, range(6)))
    await limit(rest, "b", max_messages=4)
    plan = await post(rest, 200, op="move", source="a", target="b", dry_run=True)
    assert "b has room for 4 of 6 messages (max_messages)" in plan["warnings"]
    job = await post(rest, plan=plan["plan"])
    await rest.until_later(lambda: rest.jobs.get(job["id"]).reason != "")
    waiting = (await rest.alice.get(f"/jobs/{job['id']}")).json()
    assert (waiting["state"], waiting["done"]) == ("running", 4)
    assert waiting["reason"].startswith("waiting: /queue/b is full")
    assert [item["body"] for item in await rest.receive("b", max=4, ack="auto")] == list("0123")
    done = await ended(rest, job)
    assert (done["state"], done["reason"], await bodies(rest, "b")) == ("done", None, ["4", "5"])


async def test_an_import_waits_for_room_at_its_target(rest: Rest) -> None:
    await limit(rest, "b", max_messages=2)
    lines = b"".join(b'{"body": "%d"}\n' % number for number in range(4))
    ndjson = {"content-type": "application/x-ndjson"}
    job = (await rest.alice.post("/queues/b/import", content=lines, headers=ndjson)).json()
    await rest.until_later(lambda: rest.jobs.get(job["id"]).reason != "")
    assert [item["body"] for item in await rest.receive("b", max=4, ack="auto")] == list("01")
    assert ((await ended(rest, job))["done"], await bodies(rest, "b")) == (4, ["2", "3"])


async def test_messages_that_a_queue_rejects_are_refused(rest: Rest) -> None:
    await rest.publish("a", "1", "22", "333")
    await limit(rest, "b", max_messages=1, limit_behavior="REJECT_NEWEST", max_message_bytes=2)
    job = await run(rest, op="move", source="a", target="b")
    assert (job["state"], job["done"], job["refused"]) == ("done", 1, 2)
    details = [line.get("detail", "") for line in await results(rest, job)]
    assert details[1].startswith("/queue/b is full")
    assert details[2] == "the body has 3 bytes; 2 are taken there"
    assert await bodies(rest, "a") == ["22", "333"]


async def test_jobs_are_listed_with_the_newest_first(rest: Rest) -> None:
    await rest.publish("a", "1")
    made = [(await run(rest, op="copy", source="a", target="b"))["id"] for _ in range(3)]
    page = (await rest.alice.get("/jobs?limit=2")).json()
    rest_of_them = (await rest.alice.get(f"/jobs?limit=2&after={page['next']}")).json()
    assert [job["id"] for job in page["items"] + rest_of_them["items"]] == made[::-1]
    assert rest_of_them["next"] is None


async def test_files_of_finished_jobs_make_room_when_the_next_one_ends(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rest.publish("a", "x" * 10_000)
    monkeypatch.setattr(store, "MAX_BYTES", 15_000)
    first = await run(rest, op="export", source="a")
    await rest.until_later(lambda: rest.jobs.bytes_kept > 10_000)
    second = await post(rest, op="export", source="a")
    await rest.until_later(lambda: [path.name for path in rest.job_files.glob("j_*")] == [second["id"]])
    assert (await rest.alice.get(f"/jobs/{first['id']}")).status_code == 404
    assert (await rest.alice.get(f"/jobs/{second['id']}/export")).status_code == 200
    there = sum(path.stat().st_size for path in rest.job_files.glob("*/*"))
    await rest.until_later(lambda: rest.jobs.bytes_kept == there)


@pytest.mark.parametrize("path", ["", "/results", "/export"])
async def test_a_job_that_there_is_not(rest: Rest, path: str) -> None:
    assert (await rest.alice.get(f"/jobs/j_0{path}")).status_code == 404
    assert (await rest.anonymous.get(f"/jobs/j_0{path}")).status_code == 401


async def test_jobs_go_on_after_a_restart(rest: Rest, make_rest: MakeRest) -> None:
    await rest.publish("a", *map(str, range(40)))
    job = await post(rest, op="move", source="a", target="b", rate_per_s=20)
    await rest.until_later(lambda: rest.jobs.get(job["id"]).processed >= 4)
    await rest.jobs.stop()
    half = rest.jobs.get(job["id"])
    assert (half.state, half.processed < 40) == ("running", True)
    await rest.engine.stop()
    rest.journal.close()
    next_one = make_rest(storage=rest.journal.storage)
    half_again = next_one.jobs.get(job["id"])
    assert half_again.processed == half.processed
    half_again.rate_per_s = None
    done = await ended(next_one, job)
    assert (done["state"], done["done"]) == ("done", 40)
    assert await bodies(next_one, "b") == list(map(str, range(40)))


async def test_retained_messages_of_a_topic_are_replayed_into_a_queue(rest: Rest) -> None:
    policies = Policies(exact={"/topic/t": DestinationPolicy(retention_ms=60_000)})
    rest.engine.submit(c.Reconfigure(policies))
    await rest.engine.wait_idle()
    ids = []
    for body in ("red 1", "blue", "red 2"):
        reply = await rest.alice.post(
            "/topics/t/messages", content=body, headers={"content-type": "text/plain"}
        )
        ids.append(reply.json()["id"])
    plan = await post(rest, 200, op="replay", source="topic:t", target="b", filter="red", dry_run=True)
    assert (plan["matches"], plan["warnings"][0]) == (
        2,
        "b does not exist and will be created; it has no consumer",
    )
    job = await ended(rest, await post(rest, plan=plan["plan"]))
    assert (job["state"], job["done"]) == ("done", 2)
    items = (await rest.alice.get("/queues/b/messages")).json()["items"]
    assert [(item["id"], item["body"]) for item in items] == [(ids[0], "red 1"), (ids[2], "red 2")]
    lines = await results(rest, job)
    assert [(line["i"], line["to"], line["new_position"]) for line in lines] == [
        (at, "/queue/b", item["position"]) for at, item in enumerate(items)
    ]
    missing = await post(rest, 404, op="replay", source="topic:other", target="b")
    assert missing["detail"].startswith("no messages of /topic/other are retained")


# ---------------------------------------------------------------------- export and import


async def export(rest: Rest, queue: str) -> httpx.Response:
    job = await run(rest, op="export", source=queue)
    return await rest.alice.get(f"/jobs/{job['id']}/export")


async def test_an_export_can_be_imported(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=2))
    await rest.publish("a", '{"n": 1}', **{"content-type": "application/json", "mom-header-x": "a:1"})
    await rest.publish("a", "two\nlines", **{"mom-priority": "7", "mom-correlation-id": "c"})
    plain = {"authorization": "Bearer mom_alice"}
    await rest.anonymous.post("/queues/a/messages", content=b"\x00\xff", headers=plain)
    await bury(rest, "a", "dead", reason="why: so")
    await run(rest, op="move", source="a.dead", target="a")
    exported = await export(rest, "a")
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert len(exported.text.splitlines()) == 4
    reply = await rest.alice.post(
        "/queues/b/import", content=exported.content, headers={"content-type": "application/x-ndjson"}
    )
    assert reply.status_code == 202, reply.text
    job = await ended(rest, reply.json())
    assert (job["op"], job["state"], job["done"], job["total"]) == ("import", "done", 4, 4)
    wanted = "?fields=headers,body,body_base64,content_type,priority,correlation_id"
    pages = [(await rest.alice.get(f"/queues/{queue}/messages{wanted}")).json()["items"] for queue in "ab"]
    assert pages[0] == pages[1]
    back = await run(rest, op="retry", source="b")
    assert (back["done"], back["refused"]) == (1, 3)


async def test_a_large_line_is_read_off_the_loop(rest: Rest) -> None:
    # It becomes short when it is read, as nothing but reading it is measured.
    line = b'{"body":"%b"}' % (rb"\u0041" * 1_300_000)
    began = time.thread_time()
    msgspec.json.decode(line)
    once_s = time.thread_time() - began
    lines = in_pieces(line + b"\n" + line)
    async with loop_turns() as turns:
        reply = await rest.alice.post(
            "/queues/b/import", content=lines, headers={"content-type": "application/x-ndjson"}
        )
        await rest.until_later(lambda: not rest.jobs.get(reply.json()["id"]).open)
    assert (await ended(rest, reply.json()))["done"] == 2
    assert turns.longest_s < once_s / 2


async def test_a_line_that_is_no_message_is_a_result(rest: Rest) -> None:
    lines = b'{"body": "1"}\n\n{"body": 1, "colour": 2}\n{"body": 1, "delay_s": 9}\n{"body_base64": "Mg=="}'
    reply = await rest.alice.post(
        "/queues/b/import", content=lines, headers={"content-type": "application/x-ndjson"}
    )
    job = await ended(rest, reply.json())
    assert (job["state"], job["done"], job["refused"]) == ("done", 2, 2)
    statuses = [line["status"] for line in await results(rest, job)]
    assert statuses == ["done", "refused", "refused", "done"]
    items = (await rest.alice.get("/queues/b/messages")).json()["items"]
    assert [item.get("body") or base64.b64decode(item["body_base64"]).decode() for item in items] == [
        "1",
        "2",
    ]


async def test_an_export_that_is_not_done_cannot_be_fetched(rest: Rest) -> None:
    await rest.publish("a", *map(str, range(9)))
    job = await post(rest, op="export", source="a", rate_per_s=1)
    assert (await rest.alice.get(f"/jobs/{job['id']}/export")).status_code == 409
    await rest.alice.post(f"/jobs/{job['id']}/cancel")
    other = await run(rest, op="copy", source="a", target="b")
    assert (await rest.alice.get(f"/jobs/{other['id']}/export")).status_code == 409


# ---------------------------------------------------------------------- one message


async def test_one_message_is_removed_unless_it_is_delivered(rest: Rest) -> None:
    ids = await rest.publish("a", "1", "2")
    (held,) = await rest.receive("a")
    taken = await rest.alice.delete(f"/messages/{held['id']}?queue=a")
    assert (taken.status_code, taken.json()["type"]) == (409, "/docs/problems/conflict")
    assert (await rest.alice.delete(f"/messages/{ids[1]}?queue=a")).status_code == 204
    assert (await rest.alice.delete(f"/messages/{ids[1]}?queue=a")).status_code == 404
    assert await bodies(rest, "a") == ["1"]


# ---------------------------------------------------------------------- after a kill


async def lose_results(rest: Rest, job: dict[str, Any], kept: int) -> None:
    """As if the node had been killed after the last batch was committed, before its results were written."""
    await rest.jobs.stop()
    await rest.engine.stop()
    rest.journal.close()
    folder = rest.job_files / job["id"]
    lines = (folder / "results.ndjson").read_bytes().splitlines(keepends=True)
    (folder / "results.ndjson").write_bytes(b"".join(lines[:kept]) + b'{"i":')
    kept_job = json.loads((folder / "job.json").read_bytes())
    (folder / "job.json").write_bytes(json.dumps({**kept_job, "state": "running"}).encode())


@pytest.mark.parametrize("op", ["copy", "move", "retry"])
async def test_a_batch_whose_results_were_lost_is_known_again(make_rest: MakeRest, op: str) -> None:
    rest = make_rest()
    await bury(rest, "a", *map(str, range(9)))
    target = {} if op == "retry" else {"target": "b"}
    job = await run(rest, op=op, source="a.dead", rate_per_s=30, **target)
    await lose_results(rest, job, 6)
    next_one = make_rest(storage=rest.journal.storage)
    done = await ended(next_one, job)
    assert (done["state"], done["done"], done["gone"]) == ("done", 9, 0)
    lines = await results(next_one, job)
    assert [line["i"] for line in lines] == list(range(9))
    there = "a" if op == "retry" else "b"
    items = (await next_one.alice.get(f"/queues/{there}/messages")).json()["items"]
    assert [item["body"] for item in items] == list(map(str, range(9)))
    assert [(item["id"], item["position"]) for item in items] == [
        (line["id"], line["new_position"]) for line in lines
    ]
    assert next_one.depth("a.dead") == (9 if op == "copy" else 0)
    if op == "retry":
        undo = (await next_one.alice.post(f"/jobs/{job['id']}/undo")).json()
        assert (await ended(next_one, undo))["done"] == 9
        dead = (await next_one.alice.get("/queues/a.dead/messages")).json()["items"]
        assert [item["headers"]["dead-reason"] for item in dead] == ["REJECTED"] * 9


async def test_lines_whose_results_were_lost_are_not_imported_again(make_rest: MakeRest) -> None:
    rest = make_rest()
    lines = b"".join(b'{"body": "%d"}\n' % number for number in range(9))
    ndjson = {"content-type": "application/x-ndjson"}
    job = (await rest.alice.post("/queues/b/import", content=lines, headers=ndjson)).json()
    await ended(rest, job)
    await lose_results(rest, job, 4)
    next_one = make_rest(storage=rest.journal.storage)
    assert (await ended(next_one, job))["done"] == 9
    assert await bodies(next_one, "b") == list(map(str, range(9)))


async def test_an_export_whose_results_were_lost_is_written_again(make_rest: MakeRest) -> None:
    rest = make_rest()
    await rest.publish("a", *map(str, range(9)))
    job = await run(rest, op="export", source="a", rate_per_s=10)
    whole = (await rest.alice.get(f"/jobs/{job['id']}/export")).content
    await lose_results(rest, job, 2)
    next_one = make_rest(storage=rest.journal.storage)
    await ended(next_one, job)
    assert (await next_one.alice.get(f"/jobs/{job['id']}/export")).content == whole
    assert len(whole.splitlines()) == 9


async def test_messages_in_memory_are_lost_by_a_restart(make_rest: MakeRest) -> None:
    rest = make_rest()
    await rest.publish("a", "1", "2", "3", **{"mom-persistent": "false"})
    job = await post(rest, op="move", source="a", target="b", rate_per_s=5)
    await rest.until_later(lambda: rest.jobs.get(job["id"]).processed > 0)
    await rest.jobs.stop()
    await rest.engine.stop()
    rest.journal.close()
    next_one = make_rest(storage=rest.journal.storage)
    await next_one.publish("a", "new", **{"mom-persistent": "false"})
    done = await ended(next_one, job)
    assert (done["done"] + done["gone"], done["gone"] > 0) == (3, True)
    assert await bodies(next_one, "a") == ["new"]


async def test_damaged_files_of_a_job_do_not_stop_the_node(
    make_rest: MakeRest, caplog: pytest.LogCaptureFixture
) -> None:
    rest = make_rest()
    await rest.publish("a", *map(str, range(100)))
    job = await post(rest, op="copy", source="a", target="b", rate_per_s=1)
    await rest.until_later(lambda: rest.jobs.get(job["id"]).processed > 0)
    await rest.jobs.stop()
    (rest.job_files / job["id"] / "results.ndjson").write_bytes(b"nonsense\n")
    (rest.job_files / "j_torn").mkdir()
    next_one = make_rest()
    assert next_one.jobs.get(job["id"]).state == "failed"
    assert "cannot be read any more" in caplog.text
    assert not (rest.job_files / "j_torn").exists()
