"""The journal over HTTP: its span, its stored frames, and who may read it."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from broker_app.core.durability.record_reader import Reader
from broker_app.core.durability.records import PUBLISHED
from broker_app.journal import codec
from broker_app.journal.errors import Busy, JournalDamaged
from broker_app.journal.port import LogFound
from broker_app.journal.shared.shared_journal import stored_batch
from broker_app.net.policy.policy import Grant, TokenFacts, UserFacts
from broker_app.net.rest.journal.frames import MAX_READERS
from tests.rest.conftest import MakeRest, Rest, policy
from tests.rest.test_events import Stream

SPAN, BATCHES, POSITION = "/journal/span", "/journal/batches", "/journal/position"


def administered(rest: Rest, grants: tuple[Grant, ...] | None = None) -> Rest:
    """Alice administers; her token has these grants."""
    said = policy()
    token = {hashlib.sha256(b"mom_alice").digest(): TokenFacts("alice", "test", grants=grants)}
    rest.logins.reload(
        replace(
            said,
            version=said.version + 1,
            users=MappingProxyType({**said.users, "alice": UserFacts("alice", "alice", True)}),
            tokens=MappingProxyType({**said.tokens, **token}),
        )
    )
    rest.rest_api.policy_changed()
    return rest


@pytest.fixture
def admin(rest: Rest) -> Rest:
    return administered(rest)


def bodies(content: bytes) -> list[bytes]:
    """The bodies of messages in frames that follow each other."""
    found: list[bytes] = []
    following = None
    for at, frame in codec.frames_of(content):
        batch = stored_batch(content[at : at + frame.length])
        assert batch is not None and following in (None, batch.first_position)
        following = batch.first_position + batch.count
        records = list(codec.iterate_records(batch.records))
        assert len(records) == batch.count
        found += [
            Reader("/queue/a").message(record, batch.first_position + number).body
            for number, (kind, record) in enumerate(records)
            if kind == PUBLISHED
        ]
    return found


def refusal(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["type"].rpartition("/")[2]


async def let_go(rest: Rest) -> int:
    """Have the journal let its log go; the position where it begins now."""
    await rest.engine.wait_idle()
    rest.engine.snapshot()
    await rest.engine.wait_idle()
    return rest.journal.span().low


async def test_the_span_names_the_journal_and_what_it_stores(admin: Rest) -> None:
    empty = (await admin.alice.get(SPAN)).json()
    assert empty == {
        "broker": "mom",
        "journal": f"{admin.journal.tag:x}",
        "epoch": 1,
        "low": 1,
        "end": 1,
        "low_time": None,
        "end_time": None,
    }
    await admin.publish("a", "one")
    await asyncio.sleep(0.002)
    await admin.publish("a", "two")
    shown = (await admin.alice.get(SPAN)).json()
    assert (shown["low"], shown["end"]) == (1, 3)
    assert empty["end_time"] is None and shown["low_time"] < shown["end_time"]


async def test_stored_frames_come_as_they_are(admin: Rest) -> None:
    await admin.publish("a", *map(str, range(10)))
    reply = await admin.alice.get(BATCHES)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/vnd.mom.journal"
    assert reply.headers["mom-journal"] == f"{admin.journal.tag:x}/1"
    assert reply.headers["mom-journal-end"] == "11"
    assert reply.headers["cache-control"] == "no-store"
    assert bodies(reply.content) == [b"%d" % number for number in range(10)]
    assert reply.content == (await admin.alice.get(BATCHES, params={"from": 1, "to": 11})).content


async def test_frames_that_overlap_the_range_come_and_no_others(admin: Rest) -> None:
    items = [{"body": str(number)} for number in range(4)]
    for _ in range(3):
        assert (await admin.alice.post("/queues/a/messages/batch", json=items)).status_code == 200
    for first, end, batches in (
        (1, 13, 3),
        (1, 2, 1),
        (4, 6, 2),
        (5, 9, 1),
        (8, 9, 1),
        (6, 6, 0),
        (13, 13, 0),
    ):
        reply = await admin.alice.get(BATCHES, params={"from": first, "to": end})
        assert reply.status_code == 200
        assert len(list(codec.frames_of(reply.content))) == batches, (first, end)


async def test_a_reader_goes_on_behind_what_it_has_read(admin: Rest) -> None:
    expected = [b"%d" % number * 100 for number in range(50)]
    await admin.publish("a", *(body.decode() for body in expected))
    found: list[bytes] = []
    position, replies = 1, 0
    while position < 51:
        content = (await admin.alice.get(BATCHES, params={"from": position, "max_bytes": 1000})).content
        frames = list(codec.frames_of(content))
        assert frames and len(content) <= 1000
        found += bodies(content)
        position, replies = frames[-1][1].next_position, replies + 1
    assert (found, position) == (expected, 51)
    assert replies > 10


async def test_a_long_reply_is_sent_in_chunks(admin: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_app.net.rest.journal.frames.CHUNK_BYTES", 1000)
    expected = [b"%d" % number * 100 for number in range(100)]
    await admin.publish("a", *(body.decode() for body in expected))
    asked: list[int] = []
    read_log = admin.journal.read_log

    def noted(position: int, max_bytes: int, found: LogFound) -> None:
        asked.append(max_bytes)
        read_log(position, max_bytes, found)

    monkeypatch.setattr(admin.journal, "read_log", noted)
    assert bodies((await admin.alice.get(BATCHES)).content) == expected
    assert len(asked) > 10 and max(asked) == 1000


async def test_what_is_no_longer_stored_is_refused_with_where_the_log_begins(admin: Rest) -> None:
    await admin.publish("a", "one", "two")
    low = await let_go(admin)
    await admin.publish("a", "three")
    for parameters in ({"from": 1}, {"from": low - 1}, {"from": low, "to": 1}):
        reply = await admin.alice.get(BATCHES, params=parameters)
        assert refusal(reply) == (410, "history-gone")
        assert (reply.json()["low"], reply.json()["end"]) == (low, low + 1)
    assert bodies((await admin.alice.get(BATCHES)).content) == [b"three"]


async def test_positions_that_were_never_stored_are_refused(admin: Rest) -> None:
    await admin.publish("a", "one")
    for parameters in ({"from": 3}, {"from": 1, "to": 3}):
        reply = await admin.alice.get(BATCHES, params=parameters)
        assert refusal(reply) == (409, "conflict")
        assert (reply.json()["low"], reply.json()["end"]) == (1, 2)
    for wrong in ({"from": 2, "to": 1}, {"from": -1}, {"to": "x"}, {"max_bytes": 0}, {"since": 1}):
        assert refusal(await admin.alice.get(BATCHES, params=wrong)) == (400, "invalid"), wrong


async def test_history_that_is_let_go_meanwhile_ends_a_reply_and_refuses_the_next(
    admin: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin.publish("a", *map(str, range(10)))
    read_log = admin.journal.read_log

    def first_alone(position: int, max_bytes: int, found: LogFound) -> None:
        read_log(position, 1, found)
        admin.journal.storage.batches = admin.journal.storage.batches[5:]

    monkeypatch.setattr(admin.journal, "read_log", first_alone)
    reply = await admin.alice.get(BATCHES)
    assert (reply.status_code, bodies(reply.content)) == (200, [b"0"])
    monkeypatch.undo()
    assert refusal(await admin.alice.get(BATCHES, params={"from": 2})) == (410, "history-gone")


@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [
        (Busy("no descriptors"), 503, "busy"),
        (JournalDamaged("log-1.seg: the batch is damaged"), 500, "internal"),
    ],
)
async def test_a_log_that_cannot_be_read_says_why(
    admin: Rest, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, problem: str
) -> None:
    await admin.publish("a", "one")
    monkeypatch.setattr(admin.journal, "read_log", lambda position, size, found: found(None, error))
    reply = await admin.alice.get(BATCHES)
    assert refusal(reply) == (status, problem)
    assert reply.json()["detail"] == str(error)
    assert ("retry-after" in reply.headers) is (status == 503)


async def test_the_position_of_a_time(admin: Rest) -> None:
    journal, times = admin.journal, [0, 10, 20, 20, 30, 40]
    await admin.publish("a", *map(str, times))
    start_us = 1_800_000_000_000_000
    journal.storage.batches = [
        replace(batch, time_us=start_us + 1_000_000 * offset)
        for batch, offset in zip(journal.storage.batches, times, strict=True)
    ]
    for offset, position in ((-5, 1), (0, 1), (1, 2), (10, 2), (15, 3), (20, 3), (21, 5), (40, 6), (41, 7)):
        time = f"2027-01-15T08:{offset // 60 % 60:02}:{offset % 60:02}Z"
        reply = await admin.alice.get(POSITION, params={"time": time.replace("08:59", "07:59")})
        assert reply.status_code == 200, reply.text
        shown = reply.json()
        assert (shown["position"], shown["low"], shown["end"]) == (position, 1, 7), offset
    assert shown["time"] is None
    for wrong in ({}, {"time": "yesterday"}, {"time": "2027-01-15T08:00:00"}):
        assert refusal(await admin.alice.get(POSITION, params=wrong)) == (400, "invalid")


async def test_only_so_many_replies_are_sent_at_once(admin: Rest) -> None:
    await admin.publish("a", "one")
    admin.journal.hold_reads = True
    readers = [asyncio.ensure_future(admin.alice.get(BATCHES)) for _ in range(MAX_READERS)]
    await admin.until(lambda: len(admin.journal._pending_reads) == MAX_READERS)
    refused = await admin.alice.get(BATCHES)
    assert refusal(refused) == (503, "busy")
    assert int(refused.headers["retry-after"]) > 0
    admin.journal.hold_reads = False
    admin.journal.release_reads()
    assert {reply.status_code for reply in await asyncio.gather(*readers)} == {200}
    assert (await admin.alice.get(BATCHES)).status_code == 200


async def test_administrators_alone_may_read_it(make_rest: MakeRest) -> None:
    rest = make_rest()
    paths = (SPAN, BATCHES, f"{POSITION}?time=2027-01-15T08:00:00Z")
    for path in paths:
        reply = await rest.alice.get(path)
        assert refusal(reply) == (403, "not-allowed")
        assert reply.json()["right"] == "journal:read"
        assert (await rest.anonymous.get(path)).status_code == 401
    administered(rest)
    for path in paths:
        assert (await rest.alice.get(path)).status_code == 200
        assert (await rest.bob.get(path)).status_code == 403


@pytest.mark.parametrize(
    ("right", "status"), [("journal:read", 200), ("administer", 403), ("read", 403), ("manage", 403)]
)
async def test_a_token_of_an_administrator_needs_the_right(rest: Rest, right: str, status: int) -> None:
    administered(rest, (Grant(frozenset({right}), (">",)),))
    assert (await rest.alice.get(SPAN)).status_code == status


async def test_a_broker_that_has_ended_does_not_show_the_journal(admin: Rest) -> None:
    await admin.publish("a", "one")
    admin.journal.failure = OSError("no space")
    second = asyncio.ensure_future(admin.publish("a", "two"))
    await admin.until(lambda: admin.engine.ended is not None)
    second.cancel()
    for path in (SPAN, BATCHES):
        assert refusal(await admin.alice.get(path)) == (503, "not-active")


async def test_reading_is_recorded_in_the_audit_log(admin: Rest) -> None:
    await admin.publish("a", "1", "2", "3")
    await admin.alice.get(BATCHES)
    (action,) = admin.actions.take()
    assert (action.action, action.kind, action.key, action.facts) == (
        "read",
        "journal",
        "mom",
        {"messages": 3},
    )


class Reading(Stream):
    """A client that takes the frames of a reply one chunk at a time."""

    def __init__(self, rest: Rest) -> None:
        self.taken = asyncio.Event()
        super().__init__(rest, "/api/v1/journal/batches")

    async def _send(self, event: dict[str, Any]) -> None:
        await super()._send(event)
        if event["type"] != "http.response.start":
            await self.taken.wait()


@pytest.fixture
async def reading(admin: Rest, monkeypatch: pytest.MonkeyPatch) -> Reading:
    """A reader of ten messages that has not taken the first of them."""
    monkeypatch.setattr("broker_app.net.rest.journal.frames.CHUNK_BYTES", 1)
    await admin.publish("a", *map(str, range(10)))
    reading = Reading(admin)
    await admin.until(lambda: bool(reading.text))
    return reading


async def test_frames_are_read_no_faster_than_the_client_takes_them(admin: Rest, reading: Reading) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(bodies(reading.text)) == 1
    reading.taken.set()
    await reading.task
    assert (len(bodies(reading.text)), reading.ended) == (10, True)


async def test_a_reply_ends_when_the_node_stops(admin: Rest, reading: Reading) -> None:
    admin.rest_api.stop()
    reading.taken.set()
    await reading.task
    assert (len(bodies(reading.text)), reading.ended) == (1, True)


async def test_a_client_that_leaves_is_not_sent_the_rest(admin: Rest, reading: Reading) -> None:
    reading._gone.set_result({"type": "http.disconnect"})
    await asyncio.sleep(0)
    reading.taken.set()
    await reading.task
    assert len(bodies(reading.text)) < 10


async def test_a_client_that_takes_nothing_is_given_up(admin: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_app.net.rest.journal.frames.CHUNK_S", 0.01)
    await admin.publish("a", *map(str, range(10)))
    reading = Reading(admin)
    await reading.task
    assert not reading.ended
    for _ in range(MAX_READERS):
        assert (await admin.alice.get(BATCHES)).status_code == 200, "its place is free again"
