"""Regressions found by storms and by review: one numbered scenario each, the simplest first."""

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.inspection.views import in_memory
from tests.core.stage import Stage


def test_scenario_01_a_used_up_credit_cost_the_next_consumer_its_turn() -> None:
    stage = Stage()
    first, second, third = (stage.client() for _ in range(3))
    first.subscribe("/queue/a", credit=1)
    second.subscribe("/queue/a")
    third.subscribe("/queue/a")
    stage.decide(first.sending("/queue/a", b"1", b"2"))
    assert [client.take() for client in (first, second, third)] == [[b"1"], [b"2"], []]


def test_scenario_02_a_transaction_that_settled_cumulatively_twice_was_half_done() -> None:
    stage = Stage()
    client = stage.client()
    client.publish("/queue/a", b"1")
    client.subscribe("/queue/a", c.CLIENT)
    client.do(c.Begin(client.peer, "t"))
    for _ in range(2):
        client.do(c.Enlist(client.peer, "t", c.Settle(client.peer, [1], cumulative=True)))
    with pytest.raises(Refused, match="rolled back"):
        client.do(c.Commit(client.peer, "t"))
    assert client.tags == [1]


def test_scenario_03_resuming_a_queue_consumer_during_a_scan_failed() -> None:
    client = Stage().client()
    client.subscribe("/queue/a", c.AUTO, render_key="look")
    client.pause()
    client.resume()


def test_scenario_04_expired_messages_were_sent_to_topics() -> None:
    stage = Stage()
    client = stage.client()
    client.subscribe("/topic/t", c.AUTO, render_key="look")
    client.publish("/topic/t", b"1", expires_ms=stage.now_ms - 1)
    assert client.take() == []


def test_scenario_05_a_wildcard_saw_temporary_topics() -> None:
    client = Stage().client()
    client.subscribe("/topic/#", c.AUTO, render_key="look")
    client.publish("/temp-topic/t", b"1")
    assert client.take() == []


def test_scenario_06_another_client_deleted_a_temporary_queue_when_it_disconnected() -> None:
    stage = Stage()
    owner, stranger = stage.client(), stage.client()
    owner.subscribe("/temp-queue/t", c.AUTO)
    with pytest.raises(Refused):
        stranger.subscribe("/temp-queue/t", c.AUTO)
    stranger.disconnect()
    owner.publish("/temp-queue/t", b"1")
    assert owner.take() == [b"1"]


def test_scenario_07_a_pause_within_a_batch_turned_the_order_round() -> None:
    stage = Stage()
    client = stage.client()
    client.subscribe("/topic/t", c.AUTO, render_key="look")
    one, two = client.sending("/topic/t", b"1"), client.sending("/topic/t", b"2")
    stage.decide(one, c.Pause(client.peer), two, c.Resume(client.peer))
    assert client.take() == [b"1", b"2"]


def test_scenario_08_an_unsubscribed_client_got_messages_published_earlier_in_the_batch() -> None:
    stage = Stage()
    client = stage.client()
    client.subscribe("/topic/t", c.AUTO, render_key="look")
    stage.decide(client.sending("/topic/t", b"1"), c.Unsubscribe(client.peer, "1"))
    assert client.take() == []


def test_scenario_09_the_offset_of_an_empty_lane_made_equal_brokers_differ() -> None:
    stage = Stage()
    client = stage.client()
    client.subscribe("/queue/a")
    client.publish("/queue/a", b"1")
    client.settle(1)
    snapshot, before = stage.take_snapshot(), len(stage.batches)
    client.unsubscribe()
    client.publish("/queue/a", b"2")
    assert take_snapshot(stage.recovered(snapshot, before)) == stage.take_snapshot()


def test_scenario_10_a_message_returned_after_its_expiry_was_never_swept() -> None:
    stage = Stage()
    client = stage.client()
    client.publish("/queue/a", b"1", ttl_ms=100)
    client.subscribe("/queue/a")
    stage.pass_time(1_000)
    client.disconnect()
    stage.pass_time(1_000)
    assert stage.queue("/queue/a").depth == 0


def test_scenario_11_a_message_that_was_passed_over_was_listed_after_a_returned_one() -> None:
    stage = Stage()
    chooser, other = stage.client(), stage.client()
    chooser.publish("/queue/a", b"1", block=b"colour:red\n")
    chooser.publish("/queue/a", b"2", block=b"colour:blue\n")
    chooser.subscribe("/queue/a", selector="colour = 'blue'")
    assert chooser.take() == [b"2"]
    chooser.unsubscribe(keep_unsettled=True)
    stage.pass_time(60_000)  # the queue has plain delivery again
    chooser.give_back(1)
    assert [message.body for message in in_memory(stage.queue("/queue/a"))] == [b"1", b"2"]
    other.subscribe("/queue/a")
    assert other.take() == [b"1", b"2"]
