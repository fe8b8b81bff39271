"""The cost of a turn: commands are linear in their number, and a turn stops at its deadline."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

import pytest

from broker_app.base import deadline
from broker_app.base.deadline import TURN_S, Deadline
from broker_app.core import broker, subscriptions
from broker_app.core import commands as c
from broker_app.core.delivery import deliveries, dispatcher
from broker_app.core.message import Envelope
from broker_app.core.outcome import Outcome
from broker_app.core.policy import DestinationPolicy
from broker_app.core.publishing import admission
from broker_app.core.storage import message_store, sweeper
from tests.core.flood import flood
from tests.core.stage import Client, Stage
from tests.core.storm import storm
from tests.support.chance import rounds

#: how much more six times as many commands may cost; it is 36 where each costs the number of all
LINEAR = 18


def cost_s(client: Client, run: Sequence[c.Command]) -> float:
    """The processor time of a run, without that of other threads and of the garbage of the whole process."""
    gc.disable()
    try:
        began = time.thread_time()
        client.stage.decide(*run)
        return time.thread_time() - began
    finally:
        gc.enable()


def costs_s(
    address: str,
    many: int,
    *,
    by_disconnect: bool = False,
    shuffled: bool = False,
    exclusive: bool = False,
    messages: int = 0,
    limit: int = 0,
) -> tuple[float, float]:
    """The processor time to subscribe so many times, and to end these subscriptions; the least of five."""
    found, ack = [], c.INDIVIDUAL if messages else c.AUTO
    for _ in range(5):
        client = Stage(policy=DestinationPolicy(max_consumers=limit)).client()
        begin = [
            c.Subscribe(client.peer, str(id), address, ack, render_key=id, exclusive=exclusive and id % 2 > 0)
            for id in range(many)
        ]
        end = [c.Unsubscribe(client.peer, str(id)) for id in range(many)]
        if shuffled:
            Random(1).shuffle(end)
        begun = cost_s(client, begin)
        client.stage.decide(client.sending(address, *[b"x"] * messages))
        assert len(client.peer.subscriptions) == many
        found.append((begun, cost_s(client, [c.Disconnect(client.peer)] if by_disconnect else end)))
        assert not client.peer.subscriptions
    return min(begun for begun, _ in found), min(ended for _, ended in found)


@pytest.mark.parametrize(("by_disconnect", "limit"), [(False, 0), (True, 0), (False, 10_000)])
def test_a_subscription_costs_the_same_however_many_the_topic_has(by_disconnect: bool, limit: int) -> None:
    few, many = (
        costs_s("/topic/a", number, by_disconnect=by_disconnect, limit=limit) for number in (500, 3_000)
    )
    assert many[0] < LINEAR * few[0]
    assert many[1] < LINEAR * few[1]


@pytest.mark.parametrize("exclusive", [False, True])
def test_consumers_of_a_queue_end_at_the_same_cost_in_any_order(exclusive: bool) -> None:
    few, many = (costs_s("/queue/a", number, shuffled=True, exclusive=exclusive) for number in (500, 3_000))
    assert many[1] < LINEAR * few[1]


def test_consumers_with_unsettled_deliveries_end_at_the_same_cost_however_many_there_are() -> None:
    few, many = (costs_s("/queue/a", number, shuffled=True, messages=number) for number in (500, 3_000))
    assert many[1] < LINEAR * few[1]


def each_look(seconds: float) -> Deadline:
    """A deadline whose clock is so much later at each look."""
    looks = count()
    return Deadline(lambda: next(looks) * seconds)


def turns(stage: Stage, *run: c.Command) -> list[Outcome]:
    """The outcomes of all turns in which `run` is carried out, each look at the clock 2 ms after the last."""
    outcomes: list[Outcome] = []
    slow = each_look(0.4 * TURN_S)
    while not outcomes or stage.broker.is_behind:
        slow.begin()
        outcomes.append(stage.broker.decide(() if outcomes else run, stage.now_us, None, slow))
        stage._commit(outcomes[-1])
        stage._let_out(outcomes[-1])
    return outcomes


def test_commands_that_are_left_at_the_deadline_are_carried_out_in_order_in_the_next_turn() -> None:
    stage = Stage()
    client = stage.client()
    run = [client.sending("/queue/a", b"%d" % number) for number in range(100)]
    assert len(turns(stage, *run)) > 5
    taker = stage.client()
    taker.subscribe("/queue/a", c.AUTO, credit=1_000)
    assert [message.body for _, _, message in taker.got] == [b"%d" % number for number in range(100)]


def test_what_a_durable_subscription_is_sent_can_be_left_for_the_next_turn() -> None:
    stage = Stage()
    client = stage.client()
    client.subscribe("/topic/a", name="mine", durable=True)
    (named,) = stage.broker.destinations.named.values()
    backlog = stage.broker.backlog
    backlog.add([c.DeliverTo(named, [(Envelope("/topic/a", b""), b"1")])])
    stage.decide()
    assert [message.body for _, _, message in client.got] == [b"1"]


def test_a_peer_that_asks_for_much_delays_no_other() -> None:
    stage = Stage()
    greedy, modest = stage.client(), stage.client()
    slow = each_look(0.4 * TURN_S)
    slow.begin()
    asked = [greedy.sending("/queue/a", b"%d" % number) for number in range(1_000)]
    stage.broker.decide(asked, stage.now_us, None, slow)
    assert stage.broker.is_behind
    slow.begin()
    stage._let_out(stage.broker.decide([c.Answer(modest.peer, "mine")], stage.now_us, None, slow))
    assert stage.broker.is_behind
    assert [token for token, _ in modest.accepted] == ["mine"]


def test_many_messages_for_many_slow_readers_are_copied_in_several_turns() -> None:
    stage, readers = Stage(), 20
    for _ in range(readers):
        reader = stage.client()
        reader.subscribe("/topic/t", c.INDIVIDUAL, credit=1)
    sender = stage.client()
    outcomes = turns(stage, c.Publish(sender.peer, [(Envelope("/topic/t"), b"x", n) for n in range(100)]))
    assert len(outcomes) > 5
    assert [token for token, _ in sender.accepted] == list(range(100))
    assert stage.broker.turn.counters["published"] == 100
    waiting = [s.queue.depth for s in stage.broker.destinations.topics.match("t").singles]
    assert waiting == [99] * readers


def test_a_long_queue_is_delivered_in_several_turns_and_other_queues_are_not_last() -> None:
    stage = Stage()
    greedy, modest = stage.client(), stage.client()
    for client, address in ((greedy, "/queue/a"), (modest, "/queue/b")):
        client.subscribe(address, c.AUTO, credit=10_000)
    stage.decide(c.Pause(greedy.peer), c.Pause(modest.peer))
    stage.decide(stage.client().sending("/queue/a", *[b"x"] * 4_000))
    stage.decide(stage.client().sending("/queue/b", b"y"))
    first, *others = turns(stage, c.Resume(greedy.peer), c.Resume(modest.peer))
    assert len(others) > 3
    assert len(greedy.got) == 4_000
    assert modest.peer in first.touched


def test_a_session_with_many_subscriptions_pauses_resumes_and_ends_in_several_turns() -> None:
    stage = Stage()
    slow, other = stage.client(), stage.client()
    for number in range(200):
        stage.decide(c.Subscribe(slow.peer, f"q{number}", f"/queue/{number}", credit=1))
    for number in range(200, 300):
        stage.decide(c.Subscribe(slow.peer, f"t{number}", f"/topic/{number}"))
    assert len(turns(stage, c.Pause(slow.peer))) > 5
    stage.decide(other.sending("/queue/7", b"x"), other.sending("/topic/207", b"y"))
    assert slow.got == []
    assert len(turns(stage, c.Resume(slow.peer))) > 5
    assert sorted(message.body for _, _, message in slow.got) == [b"x", b"y"]
    assert stage.queue("/queue/8").available
    assert len(turns(stage, c.Pause(slow.peer), c.Disconnect(slow.peer))) > 10
    assert not slow.peer.subscriptions


def test_a_session_with_many_subscriptions_and_deliveries_ends_in_several_turns() -> None:
    stage = Stage()
    leaving, other = stage.client(), stage.client()
    stage.decide(stage.client().sending("/queue/a", *[b"x"] * 100))
    leaving.subscribe("/queue/a", c.INDIVIDUAL, credit=100)
    for number in range(100):
        stage.decide(c.Subscribe(leaving.peer, f"t{number}", f"/topic/{number}"))
    other.subscribe("/queue/a", c.AUTO, credit=100)
    outcomes = turns(stage, c.Disconnect(leaving.peer, receipt="bye"))
    assert len(outcomes) > 30  # after each subscription, for which much may wait
    assert leaving.accepted[-1][0] == "bye"
    assert not (leaving.peer.subscriptions or leaving.peer.unsettled)
    assert len(other.got) == 100


def test_a_cumulative_acknowledgement_of_many_deliveries_takes_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries, "MOST_TAGS", 10)
    stage = Stage()
    client = stage.client()
    stage.decide(stage.client().sending("/queue/a", *[b"x"] * 100))
    client.subscribe("/queue/a", c.CLIENT, credit=100)
    last = client.got[-1][1]
    outcomes = turns(stage, c.Settle(client.peer, [last], cumulative=True, receipt="all"))
    assert len(outcomes) > 3
    assert client.accepted[-1][0] == "all"
    assert not client.peer.unsettled


def test_many_deliveries_are_refused_in_several_turns() -> None:
    stage = Stage()
    client, other = stage.client(), stage.client()
    stage.decide(stage.client().sending("/queue/a", *[b"x"] * 400))
    client.subscribe("/queue/a", c.CLIENT, credit=400)
    last = client.got[-1][1]
    stage.decide(c.Subscribe(other.peer, "1", "/queue/a", c.INDIVIDUAL, credit=1_000))
    outcomes = turns(
        stage, c.Pause(client.peer), c.Return(client.peer, [last], cumulative=True, receipt="all")
    )
    assert len(outcomes) > 3
    assert client.accepted[-1][0] == "all"
    assert not client.peer.unsettled
    assert len(other.peer.unsettled) == 400


def test_a_subscription_with_many_deliveries_ends_in_several_turns() -> None:
    stage = Stage()
    client, other = stage.client(), stage.client()
    stage.decide(stage.client().sending("/queue/a", *[b"x"] * 400))
    client.subscribe("/queue/a", c.INDIVIDUAL, credit=400)
    (id,) = client.peer.subscriptions
    other.subscribe("/queue/a", c.INDIVIDUAL, credit=1_000)
    outcomes = turns(stage, c.Unsubscribe(client.peer, id, receipt="end"))
    assert len(outcomes) > 3
    assert client.accepted[-1][0] == "end"
    assert not client.peer.unsettled
    assert len(other.peer.unsettled) == 400


def test_many_leases_end_in_several_turns() -> None:
    stage = Stage()
    client = stage.client()
    stage.decide(stage.client().sending("/queue/a", *[b"x"] * 400))
    client.subscribe("/queue/a", c.INDIVIDUAL, credit=400, lease_ms=1_000)
    stage.decide(c.Pause(client.peer))
    left = lefts(stage, lambda: len(client.peer.unsettled))
    assert len(left) > 3
    assert (left[-1], stage.queue("/queue/a").depth) == (0, 400)


@pytest.mark.parametrize("mixed", [False, True])
def test_many_messages_expire_in_several_turns(mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "EXPIRED_AT_ONCE", 30)
    stage = Stage()
    client = stage.client()
    at_ms = stage.now_us // 1000 + 500
    for number in range(400):
        kept = mixed and number % 2 == 0
        stage.decide(client.sending("/queue/a", b"x", expires_ms=0 if kept else at_ms))
    left = lefts(stage, lambda: stage.queue("/queue/a").depth)
    assert len(left) > 3
    assert left[-1] == (200 if mixed else 0)
    assert stage.broker.turn.counters["expired"] == 400 - left[-1]


def lefts(stage: Stage, left: Callable[[], int]) -> list[int]:
    """Return what is left after each turn in which something is done, for two seconds."""
    found = [left()]
    slow = each_look(0.4 * TURN_S)
    ends_us = stage.now_us + 2_000_000
    stage.now_us += 1_000_000
    while stage.now_us < ends_us:
        slow.begin()
        outcome = stage.broker.decide((), stage.now_us, None, slow)
        stage._commit(outcome)
        stage._let_out(outcome)
        found += [left()] if left() != found[-1] else []
        stage.now_us += 10_000
    return found


@pytest.mark.parametrize("kind", ["purge", "delete", "forget"])
def test_a_queue_with_many_messages_is_emptied_in_several_turns(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_store, "PURGED_AT_ONCE", 10)
    stage = Stage()
    client = stage.client()
    client.subscribe("/topic/a", name="mine", durable=True)
    (named,) = stage.broker.destinations.named.values()
    (id,) = client.peer.subscriptions
    stage.decide(c.Unsubscribe(client.peer, id))
    address = "/topic/a" if kind == "forget" else "/queue/a"
    stage.decide(client.sending(address, *[b"x"] * 100))
    runs: dict[str, Sequence[c.Command]] = {
        "purge": [c.Purge(client.peer, address, "done")],
        "delete": [c.DeleteQueue(client.peer, address, force=True, receipt="done")],
        "forget": [c.DeleteSubscription(client.peer, "mine", receipt="done")],
    }
    slow, outcome, count, run = each_look(0.4 * TURN_S), None, 0, runs[kind]
    while outcome is None or stage.broker.is_behind:
        slow.begin()
        outcome, run, count = stage.broker.decide(run, stage.now_us, outcome, slow), (), count + 1
    stage._commit(outcome)
    stage._let_out(outcome)
    assert count > 3
    assert client.accepted[-1][0] == "done"
    assert len(outcome.freed) == 100
    queue = named.queue if kind == "forget" else stage.broker.destinations.queues.get(address)
    assert queue is None or not queue.depth


def test_nothing_comes_between_the_check_of_a_transaction_and_its_commands() -> None:
    """A lease that ends, an alarm and a message of another would make what was checked untrue."""
    stage = Stage()
    client, other = stage.client(), stage.client()
    stage.decide(other.sending("/queue/a", *[b"x"] * 20))
    stage.decide(c.Subscribe(client.peer, "1", "/queue/a", c.INDIVIDUAL, lease_ms=1))
    stage.decide(c.Begin(client.peer, "t"))
    for _, tag, _ in client.got:
        stage.decide(c.Enlist(client.peer, "t", c.Settle(client.peer, [tag])))
    slow, outcome, now_us = each_look(0.4 * TURN_S), None, stage.now_us
    run: Sequence[c.Command] = [c.Commit(client.peer, "t", "all"), c.Answer(other.peer, "mine")]
    turns = 0
    while outcome is None or stage.broker.is_behind:
        slow.begin()
        outcome, run, now_us = stage.broker.decide(run, now_us, outcome, slow), (), now_us + 1_000_000
        turns += 1
        assert stage.broker.backlog.in_steps or not stage.queue("/queue/a").unsettled
    stage._commit(outcome)
    stage._let_out(outcome)
    assert turns > 5
    assert [token for token, _ in client.accepted] == ["all"]
    assert [token for token, _ in other.accepted][-1] == "mine"


@pytest.mark.parametrize("blow", [storm, flood])
def test_the_laws_hold_however_often_a_turn_is_interrupted(
    blow: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, steps in (
        (deadline, {"_STEPS": 1}),
        (broker, {"_COMMANDS": 0}),
        (admission, {"MOST_ENTRIES": 1, "MOST_COPIES": 0}),
        (deliveries, {"MOST_TAGS": 1, "RETURNED_AT_ONCE": 1}),
        (subscriptions, {"RETURNED_AT_ONCE": 1}),
        (message_store, {"PURGED_AT_ONCE": 1}),
        (sweeper, {"EXPIRED_AT_ONCE": 1}),
        (dispatcher, {"_QUEUES": 1, "_MESSAGES": 1}),
    ):
        for name, value in steps.items():
            monkeypatch.setattr(place, name, value)
    for number in rounds(5, 20):
        blow(1 + 2 * number)
