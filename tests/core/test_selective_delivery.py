"""Consumers with selectors: which messages they receive, in which order, from memory and from the journal."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability.snapshot import take_snapshot
from tests.core.stage import Client, Stage

A = "/queue/a"


def send(client: Client, *colours: str, address: str = A, **facts: Any) -> None:
    """Messages whose body is their number, in the colours given."""
    for colour in colours:
        client.stage.serial = serial = getattr(client.stage, "serial", 0) + 1  # type: ignore[attr-defined]
        client.publish(address, b"%d" % serial, block=b"colour:%b\n" % colour.encode(), **facts)


def red(client: Client, **facts: Any) -> None:
    client.subscribe(A, selector="colour = 'red'", **facts)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def deep() -> Stage:
    """A broker that holds two messages of a lane in memory and reads two at a time."""
    return Stage(window=2, fetch_messages=2)


def test_a_consumer_gets_what_its_selector_matches_and_the_rest_waits(stage: Stage) -> None:
    client = stage.client()
    send(client, "blue", "red", "blue")
    red(client)
    send(client, "blue", "red")
    assert client.take() == [b"2", b"5"]
    client.subscribe(A, id="all")
    assert client.take() == [b"1", b"3", b"4"]


def test_a_selector_that_is_none_is_refused_and_nothing_begins(stage: Stage) -> None:
    client = stage.client()
    with pytest.raises(Refused, match="line 1 column 9") as refused:
        client.subscribe(A, selector="colour == 'red'")
    assert refused.value.code == "invalid-selector"
    assert A not in stage.queues
    assert not client.peer.subscriptions


def test_consumers_with_one_selector_take_turns_within_their_credit(stage: Stage) -> None:
    one, two = stage.client(), stage.client()
    red(one, credit=2)
    red(two, credit=9)
    send(one, *["red"] * 5)
    assert one.take() == [b"1", b"3"]
    assert two.take() == [b"2", b"4", b"5"]


def test_a_message_that_comes_back_goes_to_its_old_place(stage: Stage) -> None:
    client, other = stage.client(), stage.client()
    red(client, credit=1)
    send(client, "red", "blue", "red")
    assert client.take() == [b"1"]
    client.give_back(1)
    assert client.take_attempts() == [(b"1", 1)]
    client.disconnect()
    other.subscribe(A)
    assert other.take_attempts() == [(b"1", 2), (b"2", 0), (b"3", 0)]


def test_higher_priorities_go_first(stage: Stage) -> None:
    client = stage.client()
    send(client, "red", priority=1)
    send(client, "blue", "red", priority=7)
    red(client)
    assert client.take() == [b"3", b"1"]


def test_a_message_that_has_expired_is_not_picked(stage: Stage) -> None:
    client = stage.client()
    send(client, "red", ttl_ms=100)
    send(client, "red")
    stage.now_us += 200_000
    red(client)
    assert client.take() == [b"2"]


def test_a_paused_consumer_gets_nothing_until_it_resumes(stage: Stage) -> None:
    client = stage.client()
    red(client)
    client.pause()
    send(client, "red")
    assert client.take() == []
    client.resume()
    assert client.take() == [b"1"]


def test_a_temporary_queue_has_selectors_too(stage: Stage) -> None:
    client = stage.client()
    client.subscribe("/temp-queue/t", c.AUTO, selector="colour = 'red'")
    send(client, "blue", "red", address="/temp-queue/t")
    assert client.take() == [b"2"]


def test_matches_are_found_anywhere_in_a_backlog_that_is_outside_memory(deep: Stage) -> None:
    client = deep.client()
    send(client, *["blue"] * 20, "red", *["blue"] * 20, "red")
    red(client, credit=1)
    assert client.take() == [b"21"]
    client.settle(*client.tags)
    assert client.take() == [b"42"]
    assert sum(1 for lane in deep.queue(A).lanes for _ in lane.in_memory()) <= 4
    client.subscribe(A, id="all", credit=100)
    assert client.take() == [b"%d" % n for n in range(1, 42) if n != 21]


def test_a_backlog_is_read_once_for_all_that_come_together(deep: Stage) -> None:
    client = deep.client()
    send(client, *["blue", "red", "green"] * 10)
    deep.loading = False
    deep.decide(
        *(
            c.Subscribe(client.peer, colour, A, c.INDIVIDUAL, selector=f"colour = '{colour}'")
            for colour in ("red", "green", "black")
        )
    )
    reads = 0
    while deep.fetches:
        reads += len(deep.fetches[0].positions)
        deep.decide(deep.loaded(deep.fetches.pop(0)))
    assert len(client.take()) == 20
    assert reads <= 30 + 20  # once to look, and once more for what had no credit or body at that time


def test_nothing_is_read_again_for_what_is_published_or_acknowledged(deep: Stage) -> None:
    client = deep.client()
    send(client, *["blue"] * 30)
    red(client)
    deep.loading = False
    send(client, *["blue", "red"] * 5)
    assert len(client.take()) == 5, "what is published is handed out before it leaves memory"
    client.settle(*client.tags)
    assert not deep.fetches


def test_a_message_that_was_picked_is_redelivered_after_a_crash_and_what_was_not_is_not(deep: Stage) -> None:
    client = deep.client()
    send(client, "blue", "blue", "red", "blue", "red", "blue")
    red(client)
    assert client.take() == [b"3", b"5"]
    client.settle(client.tags[0])
    snapshot, before = deep.take_snapshot(), len(deep.batches)
    assert take_snapshot(deep.recovered(snapshot, before)) == take_snapshot(deep.recovered()) == snapshot
    deep.restart()
    client = deep.client()
    client.subscribe(A)
    assert client.take_attempts() == [(b"1", 0), (b"2", 0), (b"4", 0), (b"5", 1), (b"6", 0)]


def test_attempts_survive_leaving_memory(deep: Stage) -> None:
    client = deep.client()
    send(client, *["blue"] * 10, "red")
    red(client, credit=1)
    for _ in range(3):
        client.give_back(*client.tags)
    client.disconnect()
    queue = deep.queue(A)
    deep.pass_time(32_000)
    deep.pass_time(2_000)
    assert queue.selective is None
    client = deep.client()
    client.subscribe(A)
    assert client.take_attempts() == [*((b"%d" % n, 0) for n in range(1, 11)), (b"11", 4)]


def test_a_queue_returns_to_fast_dispatch_in_order(deep: Stage) -> None:
    client, other = deep.client(), deep.client()
    send(client, *["blue"] * 10, *["red"] * 4)
    red(client, credit=3)
    assert client.take() == [b"11", b"12", b"13"]
    client.unsubscribe(keep_unsettled=True)
    deep.pass_time(32_000)
    deep.pass_time(2_000)
    assert deep.queue(A).selective is None
    client.disconnect()
    other.subscribe(A)
    assert other.take() == [b"%d" % n for n in range(1, 15)]
    deep.restart()
    other = deep.client()
    other.subscribe(A)
    assert other.take_attempts() == [(b"%d" % n, 2 if 11 <= n <= 13 else 1) for n in range(1, 15)]


def test_polling_with_one_selector_looks_through_a_backlog_once(deep: Stage) -> None:
    client = deep.client()
    send(client, *["blue"] * 40)
    red(client, credit=1)
    client.unsubscribe()
    deep.pass_time(5_000)
    deep.loading = False
    red(client, credit=1)
    assert not deep.fetches


def test_a_selection_knows_only_so_much_ahead() -> None:
    deep = Stage(window=2, fetch_messages=2, known_matches=4)
    client, other = deep.client(), deep.client()
    send(client, *["red"] * 30)
    red(client, credit=1)
    other.subscribe(A, selector="colour = 'red' AND TRUE", credit=1)
    seen = []
    while client.tags or other.tags:
        for each in (client, other):
            seen += each.take()
            each.settle(*each.tags)
            cursors = [one for lane in deep.queue(A).lanes for one in lane.scan.match_cursors.values()]
            assert all(len(one.matches) <= 4 for one in cursors if one.scan_cursor)
    assert sorted(seen, key=int) == [b"%d" % n for n in range(1, 31)]


def test_a_message_that_is_in_memory_is_checked_in_turns() -> None:
    stage = Stage(scan_batch=3)
    client = stage.client()
    send(client, *["blue"] * 10, "red")
    red(client)
    assert client.take() == [b"11"]


def test_a_purge_takes_what_was_found(deep: Stage) -> None:
    client = deep.client()
    send(client, *["blue"] * 5, *["red"] * 5)
    red(client, credit=1)
    client.purge(A)
    client.settle(*client.tags)
    send(client, "red")
    assert client.take() == [b"6", b"11"]


def test_topics_filter_for_each_subscriber_and_render_equal_ones_together(stage: Stage) -> None:
    producer = stage.client()
    clients = [stage.client() for _ in range(4)]
    texts = ("", "colour = 'red'", "colour = 'red'", "colour = 'blue'")
    for client, text in zip(clients, texts, strict=True):
        client.subscribe("/topic/t", c.AUTO, render_key="look", selector=text)
    single = stage.client()
    single.subscribe("/topic/*", selector="colour = 'red'")
    outcome = stage.decide(
        producer.sending("/topic/t", b"1", block=b"colour:red\n"),
        producer.sending("/topic/t", b"2", block=b"colour:green\n"),
    )
    assert len(outcome.fanouts) == 2
    assert [client.take() for client in (*clients, single)] == [[b"1", b"2"], [b"1"], [b"1"], [], [b"1"]]


def test_a_selective_subscription_to_a_topic_that_pauses_misses_nothing_it_wants(stage: Stage) -> None:
    client = stage.client()
    client.subscribe("/topic/t", c.AUTO, render_key="look", selector="colour = 'red'")
    client.pause()
    send(client, "red", "blue", "red", address="/topic/t")
    client.resume()
    send(client, "red", address="/topic/t")
    assert client.take() == [b"1", b"3", b"4"]


def test_numbers_priorities_and_times_of_messages_select(stage: Stage) -> None:
    client = stage.client()
    client.publish(A, b"1", block=b"weight:9.5\n", priority=2)
    client.publish(A, b"2", block=b"weight:10\n", priority=2)
    client.subscribe(A, selector="weight < 10 AND JMSPriority = 2 AND JMSTimestamp > 0")
    assert client.take() == [b"1"]


def test_long_scans_of_messages_are_cut_into_turns(stage: Stage) -> None:
    sender, reader = stage.client(), stage.client()
    for number in range(50):
        sender.publish(A, b"%d" % number, block=b"h:%b\n" % (b"a" * 16_000))
    stage.loading = False
    reader.subscribe(A, selector="h LIKE '%_" + "a" * 200 + "b%'")
    turns = 0
    while stage.fetches:
        stage.decide(stage.loaded(stage.fetches.pop(0)))
        turns += 1
    assert turns >= 10, "each looks at a few of them"
    sender.publish(A, b"last", block=b"h:%bb\n" % (b"a" * 300))
    assert reader.take() == [b"last"]


def test_the_searches_in_the_selectors_of_a_user_are_bounded() -> None:
    stage = Stage(searches_per_user=3)
    anna, again, bob = stage.client("anna"), stage.client("anna"), stage.client("bob")
    anna.subscribe(A, selector="h LIKE '%x_y%'")
    anna.subscribe("/topic/t", id="2", selector="h LIKE '%x%' AND h LIKE 'x%' AND h LIKE '%x'")
    named: dict[str, Any] = {"name": "n", "durable": True}
    for facts in ({}, named):
        with pytest.raises(Refused, match="the maximum") as refused:
            again.subscribe("/topic/t", selector="h LIKE '%z%'", **facts)
        assert refused.value.code == "too-many"
    bob.subscribe("/topic/t", selector="h LIKE '%z%'", name="n", durable=True)
    bob.unsubscribe()
    with pytest.raises(Refused, match="the maximum"):
        bob.subscribe("/topic/t", selector="h LIKE '%a%b%c%'")
    anna.unsubscribe()
    again.subscribe("/topic/t", selector="h LIKE '%x_y%'")


def test_the_texts_of_a_connections_subscriptions_are_bounded() -> None:
    stage = Stage(subscription_bytes_per_peer=1_000)
    client = stage.client()
    client.subscribe(A, id="x" * 500)
    with pytest.raises(Refused, match="1000 characters together") as refused:
        client.subscribe(A, selector="h = '" + "x" * 500 + "'")
    assert refused.value.code == "too-many"
    client.unsubscribe("x" * 500)
    client.subscribe(A, selector="h = '" + "x" * 500 + "'")
    assert client.peer.account is not None and 500 < client.peer.account.text_bytes < 600
