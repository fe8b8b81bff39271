"""Limits of a destination, and what happens at them: one test for each row of the tables."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import OVERHEAD_BYTES, Envelope
from broker_app.core.policy import (
    DEAD_LETTERS_POLICY,
    FLOW_CONTROL,
    REJECT_NEWEST,
    REMOVE_LOW_PRIORITY,
    REMOVE_OLDEST,
    DestinationPolicy,
    Policies,
)
from tests.core.stage import Client, Stage

Q = "/queue/a"


def stage_with(*, address: str = Q, limits: dict[str, Any] | None = None, **rules: Any) -> Stage:
    """A stage on which `address` has these rules."""
    stage = Stage(**(limits or {}))
    configure(stage, address, **rules)
    return stage


def configure(stage: Stage, address: str = Q, **rules: Any) -> None:
    stage.decide(c.Reconfigure(Policies(exact={address: DestinationPolicy(**rules)})))


def waiting(stage: Stage, address: str = Q) -> list[bytes]:
    """The bodies that wait in a queue, in order of delivery; all of them must be in memory."""
    return [message.body for lane in stage.queue(address).lanes for message in lane.in_memory()]


def send(client: Client, *bodies: bytes, address: str = Q, **facts: Any) -> list[object]:
    """Publish in one run; the tokens of the answers."""
    envelope = Envelope(address, **facts)
    entries = [(envelope, body, object()) for body in bodies]
    client.stage.decide(c.Publish(client.peer, entries))
    return [token for _, _, token in entries]


def accepted(client: Client) -> list[object]:
    return [token for token, _ in client.accepted]


def codes(client: Client) -> list[str]:
    return [refusal.code for _, refusal in client.refused]


# ---------------------------------------------------------------------- what is limited


def test_the_number_of_messages_counts_what_waits_and_what_is_unsettled() -> None:
    stage = stage_with(max_messages=2, limit_behavior=REJECT_NEWEST)
    client = stage.client()
    client.publish(Q, b"1")
    client.subscribe(Q, credit=1)
    client.publish(Q, b"2")
    with pytest.raises(Refused, match=r"queue-full: /queue/a is full: it holds at most 2 messages"):
        client.publish(Q, b"3")
    client.settle(1)
    client.publish(Q, b"3")
    assert stage.queue(Q).depth + stage.queue(Q).unsettled == 2


def test_the_bytes_are_those_of_the_bodies() -> None:
    stage = stage_with(max_bytes=10, limit_behavior=REJECT_NEWEST)
    client = stage.client()
    client.publish(Q, b"12345", block=b"long:header\n" * 10)
    client.publish(Q, b"12345")
    with pytest.raises(Refused, match="at most 10 bytes"):
        client.publish(Q, b"6")
    client.publish(Q, b"")
    client.subscribe(Q, c.AUTO, credit=1)
    client.publish(Q, b"1234567890")


def test_a_message_may_be_too_large_for_its_queue() -> None:
    client = stage_with(max_message_bytes=3).client()
    client.publish(Q, b"123")
    with pytest.raises(Refused, match=r"too-large: the body has 4 bytes; /queue/a takes at most 3"):
        client.publish(Q, b"1234")


def test_a_message_larger_than_all_a_queue_may_hold_is_refused_at_once() -> None:
    client = stage_with(max_bytes=3, limit_behavior=FLOW_CONTROL).client()
    with pytest.raises(Refused, match="too-large"):
        client.publish(Q, b"1234")


def test_a_message_may_be_too_large_for_its_topic() -> None:
    client = stage_with(address="/topic/t", max_message_bytes=3).client()
    client.subscribe("/topic/t", c.AUTO)
    client.publish("/topic/t", b"123")
    with pytest.raises(Refused, match="too-large"):
        client.publish("/topic/t", b"1234")
    assert client.take() == [b"123"]


@pytest.mark.parametrize("address", ["/queue/a", "/topic/a"])
def test_producers_are_counted_and_refused(address: str) -> None:
    stage = stage_with(address=address, max_producers=2)
    first, second, third = (stage.client() for _ in range(3))
    first.publish(address)
    second.publish(address)
    first.publish(address)
    with pytest.raises(Refused, match="too-many"):
        third.publish(address)
    first.disconnect()
    third.publish(address)


def test_a_client_that_has_sent_nothing_for_a_minute_is_no_producer_any_more() -> None:
    stage = stage_with(max_producers=1)
    first, second = stage.client(), stage.client()
    first.publish(Q)
    stage.pass_time(59_000)
    with pytest.raises(Refused):
        second.publish(Q)
    stage.pass_time(1_000)
    second.publish(Q)


@pytest.mark.parametrize("address", ["/queue/a", "/topic/a"])
def test_consumers_are_counted_and_refused(address: str) -> None:
    stage = stage_with(address=address, max_consumers=1)
    first, second = stage.client(), stage.client()
    first.subscribe(address)
    with pytest.raises(Refused, match="too-many"):
        second.subscribe(address)
    first.unsubscribe()
    second.subscribe(address)


# ---------------------------------------------------------------------- REJECT_NEWEST


def test_a_message_that_is_not_persistent_is_dropped_silently_and_counted() -> None:
    stage = stage_with(max_messages=1, limit_behavior=REJECT_NEWEST)
    client = stage.client()
    client.publish(Q, b"1")
    client.publish(Q, b"2", persistent=False)
    assert waiting(stage) == [b"1"]
    assert stage.broker.turn.counters["discarded"] == stage.broker.turn.counters["refused"] == 1
    assert stage.queues[Q].counters.discarded == 1


# ---------------------------------------------------------------------- REMOVE_OLDEST, REMOVE_LOW_PRIORITY


def test_the_oldest_makes_room_and_goes_to_the_dead_letters() -> None:
    stage = stage_with(max_messages=2, limit_behavior=REMOVE_OLDEST)
    client = stage.client()
    for body in (b"1", b"2", b"3"):
        client.publish(Q, body)
    assert waiting(stage) == [b"2", b"3"]
    client.subscribe("/queue/a.dead")
    ((_, _, dead),) = client.got
    assert dead.body == b"1"
    assert b"dead-reason:OLDEST\n" in dead.envelope.block


def test_messages_that_make_room_are_in_the_dead_letter_queue_of_the_broker() -> None:
    stage = Stage(name="b1")
    limited = DestinationPolicy(max_messages=5, limit_behavior=REMOVE_OLDEST, dead_letters="mq.sys.dmq")
    stage.decide(c.Reconfigure(Policies(DestinationPolicy(dead_letters="mq.sys.dmq"), {Q: limited})))
    client = stage.client()
    for number in range(1, 9):
        client.publish(Q, b"%d" % number)
    assert waiting(stage) == [b"4", b"5", b"6", b"7", b"8"]
    client.subscribe("/queue/mq.sys.dmq")
    dead = [message for _, _, message in client.got]
    assert [message.body for message in dead] == [b"1", b"2", b"3"]
    for message in dead:
        lines = message.envelope.block.decode().splitlines()
        assert {"origin:/queue/a", "dead-reason:OLDEST", "dead-broker:b1"} <= set(lines)


def test_the_oldest_is_the_oldest_of_all_priorities() -> None:
    stage = stage_with(max_messages=2, limit_behavior=REMOVE_OLDEST)
    client = stage.client()
    for priority, body in ((9, b"1"), (4, b"2"), (0, b"3")):
        stage.pass_time(1)
        client.publish(Q, body, priority=priority)
    assert waiting(stage) == [b"2", b"3"]


def test_the_lowest_priority_makes_room_be_it_the_newest() -> None:
    stage = stage_with(max_messages=2, limit_behavior=REMOVE_LOW_PRIORITY)
    client = stage.client()
    for priority, body in ((4, b"1"), (4, b"2"), (0, b"3"), (9, b"4")):
        client.publish(Q, body, priority=priority)
    assert waiting(stage) == [b"4", b"2"]
    client.subscribe("/queue/a.dead", c.AUTO)
    assert sorted(client.take()) == [b"1", b"3"]


def test_without_dead_letters_what_makes_room_is_discarded_and_counted() -> None:
    stage = stage_with(max_bytes=3, limit_behavior=REMOVE_OLDEST, use_dead_letters=False)
    client = stage.client()
    for body in (b"11", b"22", b"333"):
        client.publish(Q, body)
    assert waiting(stage) == [b"333"]
    assert "/queue/a.dead" not in stage.queues
    assert stage.broker.turn.counters["discarded"] == 2


def test_a_message_that_makes_room_is_read_back_when_it_is_not_in_memory() -> None:
    stage = stage_with(max_messages=2, limit_behavior=REMOVE_OLDEST)
    client = stage.client()
    for body in (b"1", b"2"):
        client.publish(Q, body)
    stage.restart()
    configure(stage, max_messages=2, limit_behavior=REMOVE_OLDEST)
    client = stage.client()
    client.publish(Q, b"3")
    client.publish(Q, b"4")
    client.subscribe(Q, c.AUTO, id="1")
    client.subscribe("/queue/a.dead", c.AUTO, id="2")
    assert client.take() == [b"3", b"4", b"1", b"2"]


def test_a_message_that_is_unsettled_is_never_taken_away() -> None:
    stage = stage_with(max_messages=1, limit_behavior=REMOVE_OLDEST)
    client = stage.client()
    client.subscribe(Q)
    send(client, b"1", b"2", b"3")
    assert client.take() == [b"1", b"2", b"3"]
    client.settle(1, 2, 3)


def test_dead_letters_are_bounded_and_not_dead_lettered_again() -> None:
    stage = stage_with(address="/queue/a.dead", max_messages=2, limit_behavior=FLOW_CONTROL)
    client = stage.client()
    client.subscribe(Q)
    for number in range(3):
        client.publish(Q, b"%d" % number)
        client.reject(client.tags[0])
    assert waiting(stage, "/queue/a.dead") == [b"1", b"2"]
    assert list(stage.queues) == ["/queue/a.dead", Q]


def test_dead_letters_have_a_bound_without_any_policy() -> None:
    assert Policies().of("/queue/a.dead") is DEAD_LETTERS_POLICY
    assert DEAD_LETTERS_POLICY.limit_behavior == REMOVE_OLDEST
    assert DEAD_LETTERS_POLICY.max_messages and DEAD_LETTERS_POLICY.max_bytes


# ---------------------------------------------------------------------- FLOW_CONTROL


def test_a_message_that_finds_no_room_waits_and_is_answered_when_it_is_in() -> None:
    stage = stage_with(max_messages=2)
    client, consumer = stage.client(), stage.client()
    tokens = send(client, b"1", b"2", b"3", b"4")
    assert accepted(client) == tokens[:2]
    consumer.subscribe(Q, credit=1)
    assert accepted(client) == tokens[:2]
    consumer.settle(1)
    assert accepted(client) == tokens[:3]
    consumer.settle(2)
    assert accepted(client) == tokens
    consumer.settle(3)
    consumer.settle(4)
    assert consumer.take() == [b"1", b"2", b"3", b"4"]


def test_consumers_that_settle_nothing_make_room_too() -> None:
    stage = stage_with(max_messages=1)
    client, consumer = stage.client(), stage.client()
    tokens = send(client, b"1", b"2", b"3", b"4")
    consumer.subscribe(Q, c.AUTO)
    assert consumer.take() == [b"1", b"2", b"3", b"4"]
    assert accepted(client) == tokens


def test_a_client_that_comes_later_is_blocked_though_a_smaller_one_would_fit() -> None:
    stage = stage_with(max_bytes=10)
    first, second, consumer = (stage.client() for _ in range(3))
    send(first, b"12345678")
    send(first, b"abc")
    send(second, b"x")
    assert waiting(stage) == [b"12345678"]
    consumer.subscribe(Q, c.AUTO)
    assert consumer.take() == [b"12345678", b"abc", b"x"]


def test_messages_to_other_destinations_go_on() -> None:
    stage = stage_with(max_messages=1)
    client = stage.client()
    send(client, b"1", b"2")
    client.publish("/queue/b", b"3")
    assert waiting(stage, "/queue/b") == [b"3"]


def test_a_message_that_waited_too_long_is_refused() -> None:
    stage = stage_with(max_messages=1, limits={"blocked_timeout_ms": 5_000})
    client = stage.client()
    send(client, b"1", b"2")
    stage.pass_time(4_000)
    (late,) = send(client, b"3")
    stage.pass_time(1_000)
    assert codes(client) == ["queue-full"]
    stage.pass_time(4_000)
    assert codes(client) == ["queue-full", "queue-full"]
    assert client.refused[1][0] is late
    assert not stage.broker.admission.blocked.bytes
    assert stage.broker.turn.counters["refused"] == 2


def test_a_peer_may_have_a_shorter_timeout_than_others() -> None:
    stage = stage_with(max_messages=1)
    client, hasty = stage.client(), stage.client()
    hasty.peer.blocked_timeout_ms = 2_000
    send(client, b"1", b"2")
    send(hasty, b"3")
    stage.pass_time(2_000)
    assert (codes(client), codes(hasty)) == ([], ["queue-full"])


def test_a_client_that_has_much_waiting_is_throttled_until_half_of_it_is_in() -> None:
    stage = stage_with(max_messages=1, limits={"blocked_per_peer": 4 * (OVERHEAD_BYTES + 1)})
    client, consumer = stage.client(), stage.client()
    send(client, b"1", b"2", b"3", b"4", b"5")
    assert not client.throttled
    send(client, b"6")
    assert client.throttled
    consumer.subscribe(Q, credit=1)
    consumer.settle(1)
    consumer.settle(2)
    assert client.throttled
    consumer.settle(3)
    assert not client.throttled


def test_a_client_that_has_deliveries_to_settle_is_not_throttled_and_can_make_room_itself() -> None:
    stage = stage_with(max_messages=2, limits={"blocked_per_peer": 1})
    client = stage.client()
    client.subscribe(Q, credit=1)
    tokens = send(client, *(b"%d" % number for number in range(8)))
    assert not client.throttled
    for tag in range(1, 9):
        client.settle(tag)
    assert client.take() == [b"%d" % number for number in range(8)]
    assert accepted(client)[-1] is not None and set(tokens) <= set(accepted(client))


def test_a_message_that_goes_beyond_the_share_of_a_peer_is_refused() -> None:
    stage = stage_with(max_messages=1, limits={"blocked_bytes": 8 * (OVERHEAD_BYTES + 1)})
    client, other = stage.client(), stage.client()
    send(client, *(b"%d" % number for number in range(8)))
    assert codes(client) == ["queue-full"] * 3
    send(other, *(b"%d" % number for number in range(5)))
    assert codes(other) == ["queue-full"]
    assert stage.broker.admission.blocked.bytes <= stage.limits.blocked_bytes


def test_a_disconnect_is_answered_when_all_messages_are_admitted() -> None:
    stage = stage_with(max_messages=1)
    client, consumer = stage.client(), stage.client()
    send(client, b"1", b"2")
    token = object()
    stage.decide(c.Disconnect(client.peer, token))
    assert token not in accepted(client)
    consumer.subscribe(Q, c.AUTO)
    assert consumer.take() == [b"1", b"2"]
    assert accepted(client)[-1] is token


def test_a_message_that_waits_of_a_client_that_lost_its_connection_is_dropped() -> None:
    stage = stage_with(max_messages=1)
    client, consumer = stage.client(), stage.client()
    send(client, b"1", b"2")
    client.disconnect()
    consumer.subscribe(Q, c.AUTO)
    assert consumer.take() == [b"1"]
    assert stage.broker.admission.blocked.by_peer == {}


def test_removing_the_limit_of_a_queue_admits_all_blocked_messages() -> None:
    stage = stage_with(max_messages=1)
    client = stage.client()
    send(client, b"1", b"2", b"3")
    stage.decide(c.Reconfigure(Policies()))
    assert waiting(stage) == [b"1", b"2", b"3"]
    assert stage.queue(Q).limit_usage is None


def test_a_removed_queue_is_made_again_by_what_waits_for_it() -> None:
    stage = stage_with(max_messages=1)
    client = stage.client()
    send(client, b"1", b"2")
    client.do(c.DeleteQueue(client.peer, Q, force=True))
    assert waiting(stage) == [b"2"]


# ---------------------------------------------------------------------- new limits, transactions, restarts


def test_new_limits_apply_to_existing_queues() -> None:
    stage = Stage()
    client = stage.client()
    client.subscribe(Q, credit=1)
    for body in (b"11", b"22", b"33"):
        client.publish(Q, body)
    configure(stage, max_bytes=6, limit_behavior=REJECT_NEWEST)
    with pytest.raises(Refused):
        client.publish(Q, b"4")
    client.settle(1)
    client.publish(Q, b"44")
    configure(stage, max_messages=1, limit_behavior=REMOVE_OLDEST)
    assert waiting(stage) == []
    assert client.tags == [2]


def test_a_purge_makes_room() -> None:
    stage = stage_with(max_bytes=4)
    client = stage.client()
    tokens = send(client, b"1111", b"2222", b"3333")
    client.purge(Q)
    assert waiting(stage) == [b"2222"]
    assert tokens[1] in accepted(client) and tokens[2] not in accepted(client)


def test_bytes_are_estimated_after_a_restart_until_they_were_read_back() -> None:
    stage = stage_with(max_bytes=10, limit_behavior=REJECT_NEWEST)
    client = stage.client()
    client.publish(Q, b"12345")
    client.publish(Q, b"123")
    stage.restart()
    configure(stage, max_bytes=10, limit_behavior=REJECT_NEWEST)
    client = stage.client()
    client.subscribe(Q, credit=1)
    with pytest.raises(Refused):
        client.publish(Q, b"123")
    client.publish(Q, b"12")
    client.settle(1)
    client.settle(2)
    client.settle(3)
    assert stage.queue(Q).limit_usage.estimated_bytes == 0


@pytest.mark.parametrize("behavior", [FLOW_CONTROL, REJECT_NEWEST])
def test_a_transaction_is_admitted_whole_or_not_at_all(behavior: str) -> None:
    stage = stage_with(max_messages=2, limit_behavior=behavior)
    client = stage.client()
    client.publish(Q, b"1")
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", client.sending(Q, b"2", b"3")))
    client.do(c.Enlist(client.peer, "t", client.sending("/queue/b", b"4")))
    with pytest.raises(Refused, match="queue-full"):
        client.do(c.Commit(client.peer, "t"))
    assert waiting(stage) == [b"1"]
    assert "/queue/b" not in stage.queues


def test_a_transaction_does_not_overtake_what_waits_blocked() -> None:
    stage = stage_with(max_bytes=4)
    client = stage.client()
    send(client, b"111")
    send(client, b"22")
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", client.sending(Q, b"3")))
    with pytest.raises(Refused, match="queue-full"):
        client.do(c.Commit(client.peer, "t"))


def test_a_transaction_makes_room_as_single_messages_do() -> None:
    stage = stage_with(max_messages=2, limit_behavior=REMOVE_OLDEST)
    client = stage.client()
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", client.sending(Q, b"1", b"2", b"3")))
    client.do(c.Commit(client.peer, "t"))
    assert waiting(stage) == [b"2", b"3"]


# ---------------------------------------------------------------------- the broker as a whole


def test_all_queues_together_hold_so_many_messages() -> None:
    stage = Stage(max_messages=2)
    client, consumer = stage.client(), stage.client()
    client.publish("/queue/a", b"1")
    client.publish("/queue/b", b"2")
    (token,) = send(client, b"3", address="/queue/c")
    assert token not in accepted(client)
    consumer.subscribe("/queue/a", c.AUTO)
    assert token in accepted(client)
    assert waiting(stage, "/queue/c") == [b"3"]


def test_all_queues_together_hold_so_many_bytes() -> None:
    stage = Stage(max_bytes=3 * OVERHEAD_BYTES)
    client = stage.client()
    for _ in range(4):
        send(client, b"x")
        stage.pass_time(1)
    assert len(accepted(client)) == 3


def test_a_full_broker_refuses_after_a_while() -> None:
    stage = Stage(max_messages=1, blocked_timeout_ms=2_000)
    client = stage.client()
    client.publish(Q, b"1")
    send(client, b"2")
    stage.pass_time(2_000)
    assert codes(client) == ["queue-full"]


def test_without_space_producers_wait_and_are_refused_while_consumers_go_on() -> None:
    stage = Stage(blocked_timeout_ms=2_000)
    client, consumer = stage.client(), stage.client()
    client.publish(Q, b"1")
    stage.decide(c.StoreSpace(0))
    (token,) = send(client, b"2")
    consumer.subscribe(Q)
    consumer.settle(1)
    assert consumer.take() == [b"1"]
    stage.pass_time(2_000)
    assert codes(client) == ["store-full"]
    assert client.refused[0][0] is token


def test_what_comes_when_there_has_been_no_space_for_as_long_as_a_message_waits_is_refused_at_once() -> None:
    stage = Stage(blocked_timeout_ms=2_000)
    client = stage.client()
    stage.decide(c.StoreSpace(0))
    send(client, b"1")
    stage.pass_time(2_000)
    send(client, b"2", b"3")
    assert codes(client) == ["store-full"] * 3
    stage.decide(c.StoreSpace(None), c.StoreSpace(0))
    send(client, b"4")
    assert len(codes(client)) == 3, "there was space meanwhile, so it waits"


def test_with_space_again_what_waited_is_stored_in_order() -> None:
    stage = Stage()
    client = stage.client()
    stage.decide(c.StoreSpace(0))
    tokens = send(client, b"1", b"2")
    stage.decide(c.StoreSpace(None), c.Publish(client.peer, [(Envelope(Q), b"3", None)]))
    assert waiting(stage) == [b"1", b"2", b"3"]
    assert accepted(client) == tokens


def test_what_has_waited_as_long_as_it_may_is_stored_where_there_is_space_by_then() -> None:
    """Looking for space and refusing what is overdue are due in the same turn, that of the clock."""
    stage = Stage(blocked_timeout_ms=2_000)
    client = stage.client()
    stage.decide(c.StoreSpace(0))
    tokens = send(client, b"1", b"2")
    stage.now_us += 2_000_000
    stage.decide(c.StoreSpace(OVERHEAD_BYTES + 1))
    assert (codes(client), accepted(client)) == (["store-full"], tokens[:1])


def test_no_more_is_stored_than_there_is_space_for() -> None:
    stage = Stage()
    client = stage.client()
    stage.decide(c.StoreSpace(0))
    tokens = send(client, b"1", b"2", b"3")
    stage.decide(c.StoreSpace(OVERHEAD_BYTES + 1))
    assert accepted(client) == tokens[:1]


def test_answers_and_the_brokers_own_topics_need_no_space() -> None:
    stage = Stage()
    client, server = stage.client(), stage.client()
    client.subscribe("/temp-queue/answers", c.AUTO, id="1")
    client.subscribe("/topic/$mom.stats", c.AUTO, id="2")
    stage.decide(c.StoreSpace(0))
    server.publish("/temp-queue/answers", b"1")
    server.publish("/topic/$mom.stats", b"2")
    assert sorted(client.take()) == [b"1", b"2"]


def test_a_transaction_needs_space_when_it_is_committed() -> None:
    stage = Stage()
    client = stage.client()
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", client.sending(Q, b"1")))
    stage.decide(c.StoreSpace(0))
    with pytest.raises(Refused, match="store-full"):
        client.do(c.Commit(client.peer, "t"))


def test_a_transaction_that_was_refused_for_lack_of_space_leaves_nothing_behind() -> None:
    stage = Stage()
    client = stage.client()
    stage.decide(c.StoreSpace(0))
    action = c.Enlist(client.peer, "t", client.sending(Q, b"1"))
    stage.decide(c.Begin(client.peer, "t"), action, c.Commit(client.peer, "t", 1))
    assert codes(client) == ["store-full"]
    client.disconnect()
    left = weakref.ref(client)
    del client, action
    gc.collect()
    assert left() is None


def test_memory_has_levels_at_which_messages_wait_and_are_refused() -> None:
    one = OVERHEAD_BYTES
    stage = Stage(memory_bytes=one, transient_bytes=100 * one, blocked_timeout_ms=5_000)
    client = stage.client()
    for name in "1234":
        stage.client(name).subscribe(f"/temp-queue/{name}", credit=1)
    seen = []
    for number in range(103):
        send(client, b"", address=f"/temp-queue/{number % 4 + 1}")
        stage.pass_time(1)
        seen.append(stage.broker.resource_alarms.memory_level)
    assert [seen.count(level) for level in ("green", "yellow", "orange")] == [84, 10, 9]
    assert len(accepted(client)) == 4 + 91  # handed out, and what was sent before the level was orange
    stage.broker.store.memory_bytes += 10 * one
    send(client, b"", address=Q)
    assert stage.broker.resource_alarms.memory_level == "red"
    assert codes(client) == ["busy"]


def test_one_connection_and_one_user_have_a_share_of_the_memory_that_messages_live_in() -> None:
    one = OVERHEAD_BYTES + len(b"h:1\n")
    stage = Stage(memory_bytes=one, transient_bytes=16 * one)
    sender = stage.client("other")

    def waiting() -> int:
        return sum(queue.depth for queue in stage.queues.values() if not queue.durable)

    mine = [stage.client("anna") for _ in range(4)]
    for number, client in enumerate(mine):
        client.subscribe(f"/temp-queue/{number}", c.INDIVIDUAL, credit=1)
    for number, client in enumerate(mine):
        for _ in range(20):
            sender.publish(f"/temp-queue/{number}", b"", block=b"h:1\n", persistent=False)
        assert waiting() <= 8 + 4, "the user's half, and a fourth for connections that come to it late"
        assert client.peer.account is not None
        assert client.peer.account.waiting <= 4 * one
    assert all(client.closed[0].code == "slow-consumer" for client in mine)
    assert stage.broker.resource_alarms.memory_level == "green"
    bob = stage.client("bob")
    bob.subscribe("/topic/t", credit=1)
    bob.pause()
    for number in range(3):
        sender.publish("/topic/t", b"%d" % number, block=b"h:1\n")
    bob.resume()
    assert bob.take()[:1] == [b"0"] and not bob.closed
    for client in mine:
        client.disconnect()
    assert stage.broker.accounts.users.keys() == {"bob"}


# ---------------------------------------------------------------------- durable subscriptions

NAMED = "/topic-subscription/"


def keep(client: Client, name: str) -> None:
    client.subscribe("/topic/t", id=name, name=name, durable=True, credit=1)


def test_a_publish_to_a_topic_waits_for_the_fullest_of_its_durable_subscriptions() -> None:
    stage = Stage()
    one, other, client = stage.client(), stage.client(), stage.client()
    keep(one, "one")
    keep(other, "other")
    stage.decide(
        c.Reconfigure(
            Policies(
                exact={
                    NAMED + "one": DestinationPolicy(max_messages=2),
                    NAMED + "other": DestinationPolicy(max_messages=1),
                }
            )
        )
    )
    tokens = send(client, *(b"%d" % number for number in range(5)), address="/topic/t")
    assert accepted(client) == tokens[:1]
    for tag in range(1, 6):
        one.settle(tag)
        other.settle(tag)
    assert one.take() == other.take() == [b"%d" % number for number in range(5)]
    assert accepted(client) == tokens


@pytest.fixture
def waiting_in_two_lines() -> tuple[Client, Client, list[bytes]]:
    """Readers `one` and `other` of a topic, and what was sent to it: the first came in, the second waits for
    `other`, the third for `one`."""
    stage = Stage()
    one, other = stage.client(), stage.client()
    keep(one, "one")
    keep(other, "other")
    policies = {
        NAMED + "one": DestinationPolicy(max_bytes=10),
        NAMED + "other": DestinationPolicy(max_messages=1),
    }
    stage.decide(c.Reconfigure(Policies(exact=policies)))
    sent = [b"8 bytes.", b"1", b"9 bytes.."]
    send(stage.client(), *sent, address="/topic/t")
    return one, other, sent


def settle_three(one: Client, other: Client) -> None:
    for tag in (1, 2, 3):
        other.settle(tag)
        one.settle(tag)


def test_messages_to_a_topic_are_admitted_in_order_though_they_waited_for_different_subscriptions(
    waiting_in_two_lines: tuple[Client, Client, list[bytes]],
) -> None:
    one, other, sent = waiting_in_two_lines
    settle_three(one, other)
    assert one.take() == other.take() == sent


def test_messages_to_a_topic_are_admitted_in_order_when_all_limits_are_removed(
    waiting_in_two_lines: tuple[Client, Client, list[bytes]],
) -> None:
    one, other, sent = waiting_in_two_lines
    one.stage.decide(c.Reconfigure(Policies()))
    settle_three(one, other)
    assert one.take() == other.take() == sent


def test_a_publish_to_a_topic_is_refused_where_a_durable_subscription_refuses_the_newest() -> None:
    stage = Stage()
    reader, client = stage.client(), stage.client()
    keep(reader, "one")
    policy = DestinationPolicy(max_messages=1, limit_behavior=REJECT_NEWEST)
    stage.decide(c.Reconfigure(Policies(exact={NAMED + "one": policy})))
    client.publish("/topic/t", b"1")
    with pytest.raises(Refused, match="queue-full"):
        client.publish("/topic/t", b"2")


def test_a_durable_subscription_makes_room_by_removing_its_oldest() -> None:
    stage = Stage()
    reader, client = stage.client(), stage.client()
    keep(reader, "one")
    reader.disconnect()
    policy = DestinationPolicy(max_messages=1, limit_behavior=REMOVE_OLDEST)
    stage.decide(c.Reconfigure(Policies(exact={NAMED + "one": policy})))
    send(client, b"1", b"2", address="/topic/t")
    assert waiting(stage, NAMED + "one") == [b"2"]


@pytest.mark.parametrize("behavior", [FLOW_CONTROL, REJECT_NEWEST])
def test_a_transaction_to_a_topic_is_admitted_whole_or_not_at_all(behavior: str) -> None:
    stage = Stage(policy=DestinationPolicy(max_messages=2, limit_behavior=behavior))
    reader, client = stage.client(), stage.client()
    keep(reader, "one")
    client.publish("/topic/t", b"1")
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", client.sending("/topic/t", b"2", b"3")))
    with pytest.raises(Refused, match=r"queue-full.*/topic-subscription/one"):
        client.do(c.Commit(client.peer, "t"))
    assert reader.take() == [b"1"]
    assert stage.queue(NAMED + "one").depth == 0
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", client.sending("/topic/t", b"2")))
    client.do(c.Enlist(client.peer, "t", client.sending("/topic/other", b"", b"", b"")))
    client.do(c.Commit(client.peer, "t"))
    assert stage.queue(NAMED + "one").depth == 1


def test_a_transaction_of_a_producer_too_many_is_refused_whole() -> None:
    stage = Stage()
    one, other = stage.client(), stage.client()
    stage.decide(c.Reconfigure(Policies(exact={"/topic/t": DestinationPolicy(max_producers=1)})))
    one.publish("/topic/t")
    other.do(c.Begin(other.peer, "t"))
    other.do(c.Enlist(other.peer, "t", other.sending("/topic/t", b"1")))
    other.do(c.Enlist(other.peer, "t", other.sending(Q, b"1")))
    with pytest.raises(Refused, match="too-many"):
        other.do(c.Commit(other.peer, "t"))
    assert Q not in stage.queues


def test_acknowledgements_of_a_transaction_make_room_for_the_next_one() -> None:
    stage = stage_with(max_messages=1)
    client = stage.client()
    client.subscribe(Q)
    client.publish(Q, b"1")
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", c.Settle(client.peer, (1,), False)))
    client.do(c.Enlist(client.peer, "t", client.sending(Q, b"2")))
    with pytest.raises(Refused, match="queue-full"):
        client.do(c.Commit(client.peer, "t"))
    client.settle(1)
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", client.sending(Q, b"2")))
    client.do(c.Commit(client.peer, "t"))
    assert client.take() == [b"1", b"2"]
