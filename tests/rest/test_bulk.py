"""Bulk publishing over HTTP: staging, and batches that are committed once."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from broker_app.core import commands as c
from broker_app.core import header_block
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.features.bulk import batch_commits
from broker_app.features.bulk.batch_commits import Fits
from broker_app.features.bulk.stage_store import KEPT_S, CommitPlan, PartName, StageStore
from broker_app.journal.port import Batch, Done
from broker_app.net.policy.policy import UserFacts
from broker_app.net.rest import RestLimits
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules
from tests.rest.conftest import MakeRest, Rest
from tests.support.staged_rows import MEDIA_TYPE, rows, stage_id, to

A = "/queue/a"


async def stage(client: httpx.AsyncClient, id: str, content: bytes, **query: Any) -> httpx.Response:
    return await client.post(
        "/bulk/stage", params={"id": id, **query}, content=content, headers={"content-type": MEDIA_TYPE}
    )


def named(count: int) -> dict[str, Any]:
    """A new stage of one part, as a commit names it."""
    return {"id": stage_id(), "parts": 1, "rows": count}


def dead_letters(rest: Rest) -> list[dict[str, Any]]:
    """The dead letters of rows without a queue, which are for administrators."""
    queue = rest.engine.broker.destinations.queues["/queue/$bulk.dead"]
    found = [message for lane in queue.lanes for message in lane.in_memory()]
    return [{"headers": header_block.headers(one.envelope.block), "body": one.body.decode()} for one in found]


async def staged(rest: Rest, *parts: bytes, **query: Any) -> dict[str, Any]:
    """Stage parts, as a commit names their stage."""
    id, count = stage_id(), 0
    for seq, part in enumerate(parts):
        reply = await stage(rest.alice, id, part, seq=seq, **query)
        assert reply.status_code == 200, reply.text
        count += reply.json()["rows"]
    return {"id": id, "parts": len(parts), "rows": count}


async def commit(
    client: httpx.AsyncClient, batch: int, *stages: dict[str, Any], producer: str = "q"
) -> httpx.Response:
    return await client.post(
        "/bulk/commit", json={"producer": producer, "batch": batch, "stages": list(stages)}
    )


def files(rest: Rest) -> list[Path]:
    return sorted((rest.job_files.parent / "bulk").glob("*"))


async def bodies(rest: Rest, queue: str = "a") -> list[str]:
    return [item["body"] for item in await rest.receive(queue, max=1000)]


def numbered(first: int, end: int, **facts: Any) -> bytes:
    return to(A, *(b"%d" % number for number in range(first, end)), content_type="text/plain", **facts)


async def test_rows_are_invisible_until_they_are_committed_and_then_in_order(rest: Rest) -> None:
    one = await staged(rest, numbered(0, 3), numbered(3, 5))
    other = await staged(rest, numbered(5, 6))
    assert rest.depth("a") == 0
    reply = await commit(rest.alice, 0, one, other)
    assert reply.json() == {"published": 6, "duplicate": False}
    assert await bodies(rest) == ["0", "1", "2", "3", "4", "5"]
    assert not files(rest)


async def test_a_repeated_batch_is_a_duplicate_whose_stages_are_removed(rest: Rest) -> None:
    first = await staged(rest, numbered(0, 2))
    await commit(rest.alice, 0, first)
    again = await commit(rest.alice, 0, first)
    assert again.json() == {"published": 0, "duplicate": True}
    others = await staged(rest, numbered(0, 2))
    assert files(rest)
    assert (await commit(rest.alice, 0, others)).json() == {"published": 0, "duplicate": True}
    assert rest.depth("a") == 2
    assert not files(rest)


async def test_a_part_that_is_staged_again_replaces_the_former(rest: Rest) -> None:
    id = stage_id()
    for end in (5, 2):
        assert (await stage(rest.alice, id, numbered(0, end), seq=0)).status_code == 200
    assert len(files(rest)) == 1
    assert (await commit(rest.alice, 0, {"id": id, "parts": 1, "rows": 2})).json()["published"] == 2


async def test_an_envelope_has_all_that_an_item_of_a_batch_has(rest: Rest) -> None:
    facts = {
        "headers": {"tenant": "acme"}, "priority": 7, "persistent": True, "expires_s": 60,
        "correlation_id": "c", "reply_to": "/queue/r", "type": "t", "content_type": "text/x",
    }  # fmt: skip
    content = rows(
        [{"destination": A, **facts}, {"destination": "/queue/b"}], [(1, b"x"), (0, b"y"), (1, b"z")]
    )
    await commit(rest.alice, 0, await staged(rest, content))
    (received,) = await rest.receive("a")
    for name in ("headers", "priority", "correlation_id", "reply_to", "type", "content_type", "persistent"):
        assert received[name] == facts[name]
    assert await bodies(rest, "b") == ["x", "z"]


async def test_an_aborted_stage_is_gone(rest: Rest) -> None:
    one = await staged(rest, numbered(0, 2))
    assert (await rest.alice.post("/bulk/abort", json={"stages": [one["id"], stage_id()]})).status_code == 204
    assert not files(rest)
    reply = await commit(rest.alice, 0, one)
    assert (reply.status_code, "stage the rows again" in reply.json()["detail"].lower()) == (404, True)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [({"parts": 2}, 409), ({"rows": 1}, 409), ({"id": "0" * 8 + "-0000-0000-0000-" + "0" * 12}, 404)],
)
async def test_a_stage_that_is_not_complete_is_not_committed(
    rest: Rest, wrong: dict[str, Any], status: int
) -> None:
    one = await staged(rest, numbered(0, 2))
    refused = await commit(rest.alice, 0, one | wrong)
    assert (refused.status_code, refused.json().get("restage", False)) == (status, status == 409)
    assert rest.depth("a") == 0
    assert (await commit(rest.alice, 0, one)).json()["published"] == 2, "nothing was changed by it"


async def test_a_stage_that_is_named_twice_is_refused(rest: Rest) -> None:
    one = await staged(rest, numbered(0, 2))
    assert (await commit(rest.alice, 0, one, one)).status_code == 400


async def test_files_are_private(rest: Rest) -> None:
    await staged(rest, numbered(0, 2))
    (file,) = files(rest)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


# ---------------------------------------------------------------------- wrong requests


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xff\xff\xff{}",
        b"\2\0\0\0[]",
        b"\2\0\0\0{}",
        rows([], [(0, b"")]),
        rows([{"destination": A}], [(1, b"")]),
        rows([{"destination": A, "colour": "red"}], [(0, b"")]),
        rows([{"destination": 1}], [(0, b"")]),
        to(A, b"x") + b"y",
        to(A, b"x", b"y")[:-1],
        to(A, b"x")[:-4],
    ],
)
async def test_what_is_no_part_is_refused(rest: Rest, content: bytes) -> None:
    reply = await stage(rest.alice, stage_id(), content)
    assert (reply.status_code, reply.json()["type"]) == (400, "/docs/problems/invalid")
    assert not files(rest)


async def test_more_rows_or_bytes_than_a_part_may_have_are_refused(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_stage_rows=2, max_stage_bytes=1_000))
    for content in (numbered(0, 3), to(A, b"x" * 1_000)):
        assert (await stage(rest.alice, stage_id(), content)).status_code == 413


@pytest.mark.parametrize(
    "query",
    [{"id": "1"}, {"id": "../../x"}, {"seq": "-1"}, {"seq": "10000"}, {"on_error": "ignore"}, {"a": "b"}],
)
async def test_wrong_parameters_are_refused(rest: Rest, query: dict[str, str]) -> None:
    reply = await rest.alice.post(
        "/bulk/stage",
        params={"id": stage_id(), **query},
        content=to(A, b"x"),
        headers={"content-type": MEDIA_TYPE},
    )
    assert reply.status_code == 400, reply.text


async def test_another_media_type_is_refused(rest: Rest) -> None:
    reply = await rest.alice.post("/bulk/stage", params={"id": stage_id()}, json=[])
    assert reply.status_code == 415


# ---------------------------------------------------------------------- refused rows


async def test_a_refused_row_refuses_its_part_and_is_named(rest: Rest) -> None:
    content = rows(
        [{"destination": A}, {"destination": "nowhere"}, {"destination": A, "priority": 10}],
        [(0, b"1"), (1, b"2"), (0, b"3"), (2, b"4")],
    )
    reply = await stage(rest.alice, stage_id(), content)
    assert reply.status_code == 400
    problem = reply.json()
    assert problem["detail"].startswith("2 of 4 rows were refused")
    assert [(error["pointer"], error["destination"]) for error in problem["errors"]] == [
        ("/rows/1", "nowhere"),
        ("/rows/3", A),
    ]
    assert not files(rest)


async def test_refused_rows_become_dead_letters_with_the_reason_when_their_batch_is_committed(
    rest: Rest,
) -> None:
    policies = Policies(exact={A: DestinationPolicy(max_message_bytes=3)})
    rest.engine.submit(c.Reconfigure(policies))
    await rest.rest_api.turn()
    content = rows(
        [{"destination": A, "headers": {"tenant": "acme"}}, {"destination": "nowhere"}],
        [(0, b"1"), (1, b"22"), (0, b"4444"), (0, b"3")],
    )
    id = stage_id()
    reply = await stage(rest.alice, id, content, on_error="dead_letter")
    assert reply.json()["dead_letters"] == 2
    assert [(row["row"], row["destination"], row["code"]) for row in reply.json()["refused"]] == [
        (1, "nowhere", "bad-destination"),
        (2, A, "too-large"),
    ]
    assert rest.depth("a.dead") == rest.depth("$bulk.dead") == 0
    assert (await commit(rest.alice, 0, {"id": id, "parts": 1, "rows": 4})).json()["published"] == 4
    assert rest.depth("a") == 2
    (large,) = await rest.receive("a.dead")
    assert large["headers"]["tenant"] == "acme"
    assert (large["headers"]["origin"], large["headers"]["dead-reason"]) == (A, "REFUSED")
    assert "takes at most 3" in large["headers"]["dead-detail"]
    (nowhere,) = dead_letters(rest)
    assert nowhere["headers"]["origin"] == "nowhere"
    assert "has no known prefix" in nowhere["headers"]["dead-detail"]


async def test_a_row_whose_body_was_too_large_to_be_sent_is_refused_and_shows_its_size(rest: Rest) -> None:
    content = rows(
        [{"destination": A}, {"destination": A, "headers": {"n": "7"}, "body_bytes": 16_000_000}],
        [(0, b"1"), (1, b"")],
    )
    reply = await stage(rest.alice, stage_id(), content)
    assert reply.status_code == 413
    assert "row 1 to /queue/a: the body has 16000000 bytes" in reply.json()["detail"].lower()
    one = await staged(rest, content, on_error="dead_letter")
    assert (await commit(rest.alice, 0, one)).json()["published"] == 2
    (large,) = await rest.receive("a.dead")
    assert large["headers"]["n"] == "7"
    assert "16000000 bytes" in large["headers"]["dead-detail"]


async def test_a_row_with_headers_that_cannot_be_sent_becomes_a_dead_letter_without_them(rest: Rest) -> None:
    content = rows([{"destination": A, "priority": 10}, {"destination": A}], [(0, b"bad"), (1, b"good")])
    one = await staged(rest, content, on_error="dead_letter")
    await commit(rest.alice, 0, one)
    assert (rest.depth("a"), rest.depth("$bulk.dead")) == (1, 1)


def bob_may_send(rest: Rest, *queues: str) -> None:
    """Rules by which bob may send to these queues only; alice administers."""
    users = {"alice": UserFacts("alice", "alice", True), "bob": UserFacts("bob", "bob")}
    rules = [
        Rule(queue, "allow", f"(/event/method == POST) && (/event/queue == {queue})", ("bob",), (), "")
        for queue in queues or ("none",)
    ]
    former = rest.logins.policy
    changed = replace(former, version=former.version + 1, users=MappingProxyType(users), rules=Rules(rules))
    rest.logins.reload(changed)


BOTH = rows([{"destination": A}, {"destination": "/queue/b"}], [(0, b"1"), (1, b"2"), (0, b"3")])


async def test_the_right_to_send_is_checked_for_each_destination_when_rows_are_staged(rest: Rest) -> None:
    bob_may_send(rest, "a")
    reply = await stage(rest.bob, stage_id(), BOTH)
    assert (reply.status_code, reply.json()["type"]) == (403, "/docs/problems/not-allowed")
    assert [error["pointer"] for error in reply.json()["errors"]] == ["/rows/1"]
    assert not files(rest)


async def test_the_right_to_send_is_checked_again_when_they_are_committed(rest: Rest) -> None:
    bob_may_send(rest, "a", "b")
    one = named(3)
    assert (await stage(rest.bob, one["id"], BOTH)).status_code == 200
    bob_may_send(rest, "a")
    reply = await commit(rest.bob, 0, one)
    assert (reply.status_code, reply.json()["destination"]) == (403, "queue:b")
    assert (rest.depth("a"), rest.depth("b")) == (0, 0)
    bob_may_send(rest, "a", "b")
    assert (await commit(rest.bob, 0, one)).json() == {"published": 3, "duplicate": False}


async def test_rows_that_may_not_be_sent_any_more_become_dead_letters_where_that_was_asked(
    rest: Rest,
) -> None:
    bob_may_send(rest, "a", "b")
    one = named(3)
    await stage(rest.bob, one["id"], BOTH, on_error="dead_letter")
    bob_may_send(rest, "a")
    assert (await commit(rest.bob, 0, one)).json()["published"] == 3
    assert (rest.depth("a"), rest.depth("b"), rest.depth("$bulk.dead")) == (2, 0, 1)
    (dead,) = dead_letters(rest)
    assert dead["headers"]["origin"] == "/queue/b"
    assert "bob may not send to queue b" in dead["headers"]["dead-detail"]


async def test_rows_without_permission_never_enter_the_dead_letters_of_their_queue(rest: Rest) -> None:
    bob_may_send(rest, "a")
    one = named(3)
    assert (await stage(rest.bob, one["id"], BOTH, on_error="dead_letter")).json()["dead_letters"] == 1
    await commit(rest.bob, 0, one)
    assert (rest.depth("a"), rest.depth("b.dead"), rest.depth("$bulk.dead")) == (2, 0, 1)


async def test_a_user_who_may_send_nothing_fills_no_dead_letters(rest: Rest) -> None:
    bob_may_send(rest)
    reply = await stage(rest.bob, stage_id(), BOTH, on_error="dead_letter")
    assert reply.status_code == 403
    bob_may_send(rest, "a", "b")
    one = named(3)
    await stage(rest.bob, one["id"], BOTH, on_error="dead_letter")
    bob_may_send(rest)
    assert (await commit(rest.bob, 0, one)).status_code == 403


async def test_stages_and_producers_belong_to_their_user(rest: Rest) -> None:
    one = await staged(rest, numbered(0, 1))
    assert (await stage(rest.bob, one["id"], numbered(0, 1), seq=1)).status_code == 403
    assert (await commit(rest.bob, 0, one)).status_code == 403
    await rest.bob.post("/bulk/abort", json={"stages": [one["id"]]})
    assert (await commit(rest.alice, 0, one)).json()["published"] == 1
    other = named(1)
    await stage(rest.bob, other["id"], numbered(0, 1))
    refused = await commit(rest.bob, 1, other)
    assert (refused.status_code, "restage" in refused.json()) == (409, False)
    assert rest.depth("a") == 1


async def test_producers_are_shown_to_their_user_and_deleted(rest: Rest) -> None:
    bob_may_send(rest)
    for batch in (3, 4):
        await commit(rest.alice, batch, producer="alice's/query")
    ((shown,), total) = (await rest.alice.get("/bulk/producers")).json().values()
    assert (shown["name"], shown["user"], shown["last_batch"], shown["rows_of_next"]) == (
        *("alice's/query", "alice", 4),
        0,
    )
    assert total == 1
    assert (await rest.bob.get("/bulk/producers")).json() == {"items": [], "total": 0}
    assert (await rest.bob.delete("/bulk/producers/alice's%2Fquery")).status_code == 403
    assert (await rest.alice.delete("/bulk/producers/alice's%2Fquery")).status_code == 204
    assert (await rest.alice.delete("/bulk/producers/alice's%2Fquery")).status_code == 404
    assert (await commit(rest.alice, 3, producer="alice's/query")).json()["duplicate"] is False


# ---------------------------------------------------------------------- no room


async def test_a_full_queue_and_an_alarm_refuse_a_batch_as_a_whole_for_now(rest: Rest) -> None:
    one = await staged(rest, BOTH)
    rest.engine.submit(c.Reconfigure(Policies(exact={A: DestinationPolicy(max_messages=1)})))
    reply = await commit(rest.alice, 0, one)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
    assert reply.json()["fits"] is False, "two rows never fit into a queue of one"
    assert (rest.depth("a"), rest.depth("b")) == (0, 0)
    rest.engine.submit(c.Reconfigure(Policies()))
    rest.engine.submit(c.StoreSpace(0))
    for reply in (await commit(rest.alice, 0, one), await stage(rest.alice, stage_id(), BOTH)):
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "30")
    rest.engine.submit(c.StoreSpace(None))
    assert (await commit(rest.alice, 0, one)).json() == {"published": 3, "duplicate": False}


async def test_a_paused_queue_refuses_the_commit_and_not_the_stage(rest: Rest) -> None:
    rest.engine.submit(c.Reconfigure(Policies(exact={A: DestinationPolicy(paused="producers")})))
    one = await staged(rest, numbered(0, 1))
    assert (await commit(rest.alice, 0, one)).json()["type"] == "/docs/problems/paused"
    rest.engine.submit(c.Reconfigure(Policies()))
    assert (await commit(rest.alice, 0, one)).json()["published"] == 1


async def test_all_stages_together_are_bounded(tmp_path: Path, rest: Rest) -> None:
    size = 100_000
    rest.bulk.stages = StageStore(tmp_path / "small", 4 * size)
    first = await stage(rest.alice, stage_id(), to(A, b"x" * size))
    assert first.status_code == 200
    refused = await stage(rest.alice, stage_id(), to(A, b"x" * size))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), "half of it is for one user"
    assert (await stage(rest.bob, stage_id(), to(A, b"x" * size))).status_code == 200


async def test_what_cannot_be_written_is_not_staged(rest: Rest, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    rest.bulk.stages = StageStore(tmp_path / "file", 1 << 30)
    reply = await stage(rest.alice, stage_id(), numbered(0, 1))
    assert (reply.status_code, reply.json()["type"]) == (503, "/docs/problems/store-unavailable")


async def test_a_stage_is_removed_after_an_hour_unless_it_is_touched(tmp_path: Path, rest: Rest) -> None:
    now = [1_000.0]
    store = rest.bulk.stages = StageStore(tmp_path / "bulk", 1 << 30, clock=lambda: now[0])
    old, used = await staged(rest, numbered(0, 1)), await staged(rest, numbered(0, 1))
    now[0] += KEPT_S
    assert (await commit(rest.alice, 0, used | {"rows": 2})).status_code == 409
    assert (await stage(rest.alice, used["id"], numbered(1, 2), seq=1)).status_code == 200
    now[0] += 1
    assert [path.name for path in store.expired()] == [f"{old['id']}.0.rows"]
    assert (await commit(rest.alice, 0, old)).status_code == 404
    assert (await commit(rest.alice, 0, used | {"parts": 2, "rows": 2})).json()["published"] == 2


# ---------------------------------------------------------------------- restarts


async def restarted(make_rest: MakeRest, rest: Rest, *first: c.Command, **options: Any) -> Rest:
    """The next process on the same files; the engine gets these commands first."""
    await rest.bulk.stop()
    rest.journal.close()
    rest.journal.storage.held = False
    later = make_rest(storage=rest.journal.storage, **options)
    for command in first:
        later.engine.submit(command)
    await later.bulk.start()
    return later


async def test_stages_and_producers_survive_a_restart(make_rest: MakeRest, rest: Rest) -> None:
    await commit(rest.alice, 0, await staged(rest, numbered(0, 1)))
    one = await staged(rest, numbered(1, 3), numbered(3, 4))
    later = await restarted(make_rest, rest)
    assert (await commit(later.alice, 0, one | {"rows": 9})).json()["duplicate"] is True
    assert not files(later), "a duplicate needs none"
    assert later.depth("a") == 1


async def test_files_that_are_torn_or_too_old_do_not_survive(make_rest: MakeRest, rest: Rest) -> None:
    torn, old, kept, damaged = [await staged(rest, numbered(0, 100)) for _ in range(4)]
    folder = rest.job_files.parent / "bulk"
    (folder / f"{torn['id']}.0.rows").write_bytes(b"")
    os.utime(folder / f"{old['id']}.0.rows", (0, 0))
    content = bytearray((folder / f"{damaged['id']}.0.rows").read_bytes())
    content[-1] ^= 1
    (folder / f"{damaged['id']}.0.rows").write_bytes(content)
    (folder / "left.new").write_bytes(b"x")
    later = await restarted(make_rest, rest)
    await later.until_later(lambda: len(files(later)) == 2)
    for lost, status in ((torn, 404), (old, 404), (damaged, 409)):
        refused = await commit(later.alice, 0, lost)
        assert (refused.status_code, refused.json().get("restage", False)) == (status, status == 409)
    assert (await commit(later.alice, 0, kept)).json()["published"] == 100


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of more than three rows are published part by part."""
    monkeypatch.setattr(batch_commits, "OWN_JOURNAL", Fits(3, 1 << 20))
    monkeypatch.setattr(batch_commits, "SHARED_JOURNAL", Fits(3, 1 << 20))


@pytest.mark.usefixtures("small_batches")
async def test_a_large_batch_is_published_part_by_part_in_order(rest: Rest) -> None:
    one = await staged(rest, numbered(0, 3), numbered(3, 3), numbered(3, 5))
    other = await staged(rest, numbered(5, 6))
    assert (await commit(rest.alice, 0, one, other)).json() == {"published": 6, "duplicate": False}
    assert await bodies(rest) == ["0", "1", "2", "3", "4", "5"]
    assert (await commit(rest.alice, 0, one, other)).json()["duplicate"] is True
    assert not files(rest)
    assert len(rest.journal.storage.batches) > 3


def crash_after(rest: Rest, batches: int) -> None:
    """Let the engine end when this many more batches of the journal were written."""
    commit = rest.journal.commit
    left = batches

    def counted(batch: Batch, done: Done) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            rest.journal.failure = OSError("killed")
        commit(batch, done)

    rest.journal.commit = counted  # type: ignore[method-assign]


async def commit_until_crash(rest: Rest, batch: int, *stages: dict[str, Any]) -> None:
    committing = asyncio.create_task(commit(rest.alice, batch, *stages))
    await rest.until_later(lambda: rest.engine.ended is not None)
    rest.bulk.engine_ended(RuntimeError("killed"))
    assert (await committing).json()["type"] == "/docs/problems/store-unavailable"


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("parts_before", [0, 1, 2])
async def test_a_large_batch_that_a_crash_interrupts_is_completed_by_the_next_process(
    make_rest: MakeRest, rest: Rest, parts_before: int
) -> None:
    one = await staged(rest, numbered(0, 2), numbered(2, 4), numbered(4, 5))
    crash_after(rest, parts_before)
    await commit_until_crash(rest, 7, one)
    assert rest.depth("a") <= 2 * parts_before + 2
    later = await restarted(make_rest, rest)
    await later.until_later(lambda: not files(later))
    assert await bodies(later) == ["0", "1", "2", "3", "4"]
    assert (await commit(later.alice, 7, one)).json() == {"published": 0, "duplicate": True}


@pytest.mark.usefixtures("small_batches")
async def test_a_large_batch_that_had_not_begun_may_be_refused_by_the_next_process(
    make_rest: MakeRest, rest: Rest, caplog: pytest.LogCaptureFixture
) -> None:
    one = await staged(rest, numbered(0, 2), numbered(2, 4))
    crash_after(rest, 0)
    await commit_until_crash(rest, 7, one)
    paused = c.Reconfigure(Policies(exact={A: DestinationPolicy(paused="producers")}))
    later = await restarted(make_rest, rest, paused)
    await later.until_later(lambda: "will be completed later" in caplog.text)
    assert (await commit(later.alice, 7, one)).json()["type"] == "/docs/problems/paused"
    later.engine.submit(c.Reconfigure(Policies()))
    assert (await commit(later.alice, 7, one)).json() == {"published": 4, "duplicate": False}
    assert await bodies(later) == ["0", "1", "2", "3"]


@pytest.mark.usefixtures("small_batches")
async def test_a_batch_that_was_published_when_the_crash_came_is_not_published_again(
    make_rest: MakeRest, rest: Rest
) -> None:
    one = await staged(rest, numbered(0, 4))
    (path,) = files(rest)
    content = path.read_bytes()
    await commit(rest.alice, 7, one)
    path.write_bytes(content)
    rest.bulk.stages.save_plan(CommitPlan("q", "alice", 7, [PartName(one["id"], 0, 4)], {}))
    later = await restarted(make_rest, rest)
    await later.until_later(lambda: not files(later))
    assert later.depth("a") == 4


@pytest.mark.usefixtures("small_batches")
async def test_a_repeated_commit_completes_a_batch_that_an_alarm_has_interrupted(rest: Rest) -> None:
    one = await staged(rest, numbered(0, 2), numbered(2, 4))
    commit_to_journal, written = rest.journal.commit, 0

    def alarming(batch: Batch, done: Done) -> None:
        nonlocal written
        written += 1
        if written == 1:
            rest.engine.submit(c.StoreSpace(0))
        commit_to_journal(batch, done)

    rest.journal.commit = alarming  # type: ignore[method-assign]
    reply = await commit(rest.alice, 0, one)
    assert (reply.status_code, reply.headers["retry-after"], rest.depth("a")) == (503, "30", 2)
    await rest.alice.post("/bulk/abort", json={"stages": [one["id"]]})
    assert (await commit(rest.alice, 0, one)).status_code == 503
    rest.engine.submit(c.StoreSpace(None))
    await rest.rest_api.turn()
    # The driver was started again meanwhile, and has staged the rows once more in another order.
    assert (await commit(rest.alice, 0, await staged(rest, numbered(2, 4), numbered(0, 2)))).json() == {
        "published": 0,
        "duplicate": True,
    }
    assert await bodies(rest) == ["0", "1", "2", "3"]
    assert not files(rest)


@pytest.mark.usefixtures("small_batches")
async def test_an_operator_ends_a_batch_that_cannot_be_completed(make_rest: MakeRest, rest: Rest) -> None:
    one = await staged(rest, numbered(0, 2), numbered(2, 4))
    crash_after(rest, 1)
    await commit_until_crash(rest, 0, one)
    for path in files(rest):
        if path.suffix == ".rows":
            path.unlink()
    later = await restarted(make_rest, rest)
    again = await staged(later, numbered(0, 2), numbered(2, 4))
    assert (await commit(later.alice, 0, again)).status_code == 409
    assert (await commit(later.alice, 1)).status_code == 409
    users = {"alice": UserFacts("alice", "alice", True)}
    later.logins.reload(replace(later.logins.policy, version=1, users=MappingProxyType(users)))
    assert (await later.alice.delete("/bulk/producers/q")).status_code == 204
    assert (await commit(later.alice, 0, again)).json()["published"] == 4


@pytest.mark.usefixtures("small_batches")
async def test_a_broker_that_shares_its_journal_publishes_only_what_fits(make_rest: MakeRest) -> None:
    rest = make_rest(shared_journal=True)
    one, large = await staged(rest, numbered(0, 3)), await staged(rest, numbered(0, 2), numbered(2, 4))
    assert (await commit(rest.alice, 0, large)).status_code == 413
    assert (await commit(rest.alice, 0, one)).json()["published"] == 3
    assert rest.depth("a") == 3


async def test_a_commit_goes_on_when_its_client_has_gone(make_rest: MakeRest) -> None:
    rest = make_rest(hold=True)
    one = await staged(rest, numbered(0, 3))
    committing = asyncio.create_task(commit(rest.alice, 0, one))
    await rest.until_later(lambda: rest.depth("a") == 3)
    committing.cancel()
    await asyncio.gather(committing, return_exceptions=True)
    again = asyncio.create_task(commit(rest.alice, 0, one))
    rest.journal.hold = False
    rest.journal.release()
    assert (await again).json() == {"published": 0, "duplicate": True}
    assert rest.depth("a") == 3


async def test_commits_of_one_producer_at_the_same_time_publish_once(rest: Rest) -> None:
    stages = [await staged(rest, numbered(0, 3)) for _ in range(5)]
    replies = await asyncio.gather(*(commit(rest.alice, 0, one) for one in stages))
    assert sorted(reply.json()["published"] for reply in replies) == [0, 0, 0, 0, 3]
    assert rest.depth("a") == 3
