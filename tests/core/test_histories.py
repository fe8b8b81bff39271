"""Histories of topics: messages retained and trimmed, and subscriptions that replay them."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.model import Subscription
from broker_app.core.policy import DestinationPolicy, Policies
from tests.core.stage import START_US, Client, Stage, read

EU, US, OTHER = "/topic/prices.eu", "/topic/prices.us", "/topic/other"
KEPT = DestinationPolicy(retention_ms=60_000)
START_MS = START_US // 1000


def keep(stage: Stage, policy: DestinationPolicy = KEPT, prefix: str = "/topic/prices.") -> None:
    stage.decide(c.Reconfigure(Policies(prefixes={prefix: policy})))


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    keep(stage)
    return stage


def listen(stage: Stage, start: str, address: str = EU, **facts: Any) -> Client:
    client = stage.client()
    client.subscribe(address, facts.pop("ack", c.AUTO), start=start, **facts)
    return client


def send(stage: Stage, *bodies: bytes, to: str = EU, **facts: Any) -> list[int]:
    """Publish one by one; the positions."""
    sender = stage.client()
    return [sender.publish(to, body, **facts).position for body in bodies]


def replaying(client: Client) -> bool:
    (subscription,) = client.peer.subscriptions.values()
    return subscription.replay is not None


class TestStarts:
    def test_first_is_all_retained_messages_and_then_new_ones(self, stage: Stage) -> None:
        send(stage, b"1", b"2")
        client = listen(stage, "first")
        send(stage, b"3")
        assert client.take() == [b"1", b"2", b"3"]
        assert not replaying(client)

    def test_last_is_the_newest_of_each_topic_and_then_new_ones(self, stage: Stage) -> None:
        send(stage, b"1", b"2")
        send(stage, b"3", to=US)
        send(stage, b"4")
        client = listen(stage, "last", "/topic/prices.*")
        send(stage, b"5", to=US)
        assert client.take() == [b"3", b"4", b"5"]

    def test_the_newest_of_a_topic_does_not_come_when_its_retention_ends_before_it_is_read(self) -> None:
        stage = Stage(fetch_messages=1)
        keep(stage)
        send(stage, b"1")
        send(stage, b"2", to=US)
        stage.loading = False
        client = listen(stage, "last", "/topic/prices.*")
        stage.pass_time(70_000)
        stage.loading = True
        stage.load()
        send(stage, b"3", to=US)
        assert client.take() == [b"1", b"3"]
        assert not replaying(client)

    def test_now_is_new_messages_only(self, stage: Stage) -> None:
        send(stage, b"1")
        client = listen(stage, "now")
        send(stage, b"2")
        assert client.take() == [b"2"]

    def test_a_position_is_where_the_replay_begins(self, stage: Stage) -> None:
        positions = send(stage, b"1", b"2", b"3")
        assert listen(stage, f"seq:{positions[1]}").take() == [b"2", b"3"]
        assert listen(stage, f"seq:{positions[1] + 1}").take() == [b"3"]
        assert listen(stage, f"seq:{stage.broker.turn.next_position}").take() == []
        with pytest.raises(Refused, match="beyond the end") as refused:
            listen(stage, f"seq:{stage.broker.turn.next_position + 1}")
        assert refused.value.code == "invalid"

    def test_a_time_is_inclusive_to_the_millisecond(self, stage: Stage) -> None:
        for body in (b"1", b"2", b"3"):
            send(stage, body)
            stage.pass_time(10)
        assert listen(stage, f"time:{START_MS + 10}").take() == [b"2", b"3"]
        assert listen(stage, f"time:{START_MS + 11}").take() == [b"3"]
        assert listen(stage, f"time:{START_MS + 99_999}").take() == []

    @pytest.mark.parametrize(
        "start", ["", "1st", "seq:", "seq:x", "seq:-1", "time:x", "time:", "first:1", "seq:²"]
    )
    def test_a_start_that_cannot_be_parsed_is_refused(self, stage: Stage, start: str) -> None:
        if not start:
            return
        with pytest.raises(Refused) as refused:
            listen(stage, start)
        assert refused.value.code == "invalid"
        assert stage.broker.histories.replays == {}

    def test_queues_have_no_history(self, stage: Stage) -> None:
        with pytest.raises(Refused, match="no history"):
            listen(stage, "first", "/queue/a")
        listen(stage, "now", "/queue/a")

    def test_a_durable_subscription_begins_now(self, stage: Stage) -> None:
        with pytest.raises(Refused) as refused:
            listen(stage, "first", name="x", durable=True)
        assert refused.value.code == "unsupported"


class TestReading:
    def test_several_topics_are_merged_in_the_order_of_the_journal(self, stage: Stage) -> None:
        for number in range(9):
            send(stage, b"%d" % number, to=(EU, US, OTHER)[number % 3])
        client = listen(stage, "first", "/topic/prices.>")
        assert client.take() == [b"0", b"1", b"3", b"4", b"6", b"7"]

    def test_neither_priorities_nor_pages_change_the_order(self, stage: Stage) -> None:
        bodies = [b"%d" % number for number in range(700)]
        sender = stage.client()
        for number, body in enumerate(bodies):
            sender.publish(EU, body, priority=number % 10)
        client = listen(stage, "first", ack=c.INDIVIDUAL, credit=50)
        got = client.take()
        while client.tags:
            client.settle(*client.tags)
            got += client.take()
        assert got == bodies

    @pytest.mark.parametrize("read_at_once", [3, 1_000])
    def test_a_message_that_is_published_meanwhile_comes_in_its_place_and_once(
        self, stage: Stage, read_at_once: int
    ) -> None:
        stage.read_at_once = read_at_once
        send(stage, *[b"%d" % number for number in range(600)])
        stage.loading = False
        client = listen(stage, "first")
        number = 600
        while replaying(client) or number < 620:
            send(stage, b"%d" % number)
            number += 1
            if stage.fetches:
                stage.decide(stage.loaded(stage.fetches.pop(0)))
        assert client.take() == [b"%d" % one for one in range(number)]

    def test_a_pause_stops_the_replay(self, stage: Stage) -> None:
        send(stage, *[b"%d" % number for number in range(600)])
        client = stage.client()
        client.pause()
        client.subscribe(EU, c.AUTO, start="first")
        assert client.take() == []
        assert stage.broker.store.memory_bytes < 400 * 300
        client.resume()
        assert len(client.take()) == 600

    def test_little_of_a_history_is_in_memory_at_a_time(self, stage: Stage) -> None:
        send(stage, *[b"x" * 10_000 for _ in range(200)])
        listen(stage, "first", ack=c.INDIVIDUAL, credit=1)
        assert stage.broker.store.memory_bytes < 1_000_000

    def test_a_message_that_comes_back_keeps_its_place_and_history_is_not_consumed(
        self, stage: Stage
    ) -> None:
        send(stage, b"1", b"2")
        client = listen(stage, "first", ack=c.INDIVIDUAL, credit=1)
        client.give_back(*client.tags)
        client.settle(*client.tags)
        assert client.take() == [b"1", b"1", b"2"]
        assert listen(stage, "first").take() == [b"1", b"2"]

    def test_a_selector_chooses_from_history_too(self, stage: Stage) -> None:
        send(stage, b"1", block=b"h:1\n")
        send(stage, b"2", block=b"h:2\n")
        client = listen(stage, "first", selector="h = '2'")
        send(stage, b"3", block=b"h:1\n")
        send(stage, b"4", block=b"h:2\n")
        assert client.take() == [b"2", b"4"]

    def test_expired_messages_are_passed_over(self, stage: Stage) -> None:
        send(stage, b"1", ttl_ms=100)
        send(stage, b"2")
        stage.pass_time(200)
        assert listen(stage, "first").take() == [b"2"]

    def test_messages_that_are_not_kept_come_as_they_come(self, stage: Stage) -> None:
        send(stage, *[b"%d" % number for number in range(400)])
        stage.loading = False
        client = listen(stage, "first", "/topic/>")
        send(stage, b"live", to=OTHER)
        stage.loading = True
        stage.load()
        got = client.take()
        assert sorted(got) == sorted([b"live", *[b"%d" % number for number in range(400)]])

    def test_one_that_leaves_while_a_page_is_read_leaves_nothing_behind(self, stage: Stage) -> None:
        send(stage, b"1")
        stage.loading = False
        client = listen(stage, "first")
        client.disconnect()
        stage.load()
        assert stage.broker.histories.replays == {}
        assert stage.broker.store.memory_bytes == 0

    def test_the_number_of_readers_is_bounded(self) -> None:
        stage = Stage(replays=1)
        keep(stage)
        send(stage, b"1")
        stage.loading = False
        listen(stage, "first")
        with pytest.raises(Refused) as refused:
            listen(stage, "first")
        assert refused.value.code == "too-many"

    def test_a_transaction_comes_as_a_whole(self, stage: Stage) -> None:
        sender = stage.client()
        sender.do(c.Begin(sender.peer, "t"))
        sender.do(c.Enlist(sender.peer, "t", sender.sending(EU, b"1", b"2")))
        client = listen(stage, "first")
        assert client.take() == []
        sender.do(c.Commit(sender.peer, "t"))
        assert client.take() == [b"1", b"2"]
        assert listen(stage, "first").take() == [b"1", b"2"]


class TestKeeping:
    def test_a_message_is_recorded_once_however_many_listen(self, stage: Stage) -> None:
        for _ in range(3):
            listen(stage, "now")
        stage.client().subscribe(EU, c.AUTO, render_key="look")
        before = len(stage.batches)
        send(stage, b"1")
        kinds = [record.kind for batch in stage.batches[before:] for record in read(batch)]
        assert kinds == [records.PUBLISHED]

    def test_histories_outlive_a_restart_with_their_ids(self, stage: Stage) -> None:
        send(stage, b"1", block=b"h:1\n")
        ids = stage.broker.turn.ids
        before = [ids.of(message) for _, _, message in listen(stage, "first").got]
        stage.restart()
        keep(stage)
        client = listen(stage, "first")
        ((_, _, message),) = client.got
        assert [ids.of(message)] == before
        assert (message.envelope.address, message.envelope.block) == (EU, b"h:1\n")

    def test_also_what_is_not_persistent_is_kept(self, stage: Stage) -> None:
        send(stage, b"1", persistent=False)
        assert listen(stage, "first").take() == [b"1"]

    def test_other_topics_keep_nothing(self, stage: Stage) -> None:
        send(stage, b"1", to=OTHER)
        send(stage, b"2", to="/topic/$prices.eu")
        assert stage.broker.histories.histories == {}
        assert listen(stage, "first", OTHER).take() == []

    def test_a_history_is_bounded_by_bytes(self) -> None:
        stage = Stage()
        keep(stage, DestinationPolicy(retention_bytes=2_000))
        send(stage, *[b"%02d" % number + b"." * 60 for number in range(50)])
        history = stage.broker.histories.histories[EU]
        assert history.bytes <= 2_000
        bodies = listen(stage, "first").take()
        assert len(bodies) == len(history) > 15
        assert bodies[-1].startswith(b"49")

    def test_a_history_is_bounded_by_time(self, stage: Stage) -> None:
        send(stage, b"old")
        stage.pass_time(40_000)
        send(stage, b"new")
        stage.pass_time(30_000)
        assert listen(stage, "first").take() == [b"new"]

    def test_trimmed_messages_free_the_journal(self, stage: Stage) -> None:
        positions = send(stage, b"1", b"2")
        stage.now_us += 70_000_000
        outcome = stage.decide()
        assert outcome.freed == positions
        causes = {record.flags for record in read(stage.batches[-1]) if record.kind == records.ACKED}
        assert causes == {records.TRIMMED}
        assert take_snapshot(stage.recovered()) == stage.take_snapshot()

    def test_a_topic_without_retention_any_more_gives_all_up(self, stage: Stage) -> None:
        send(stage, b"1")
        stage.decide(c.Reconfigure(Policies()))
        stage.pass_time(2_000)
        assert listen(stage, "first").take() == []

    def test_a_start_in_trimmed_history_is_refused(self, stage: Stage) -> None:
        first, _ = send(stage, b"1", b"2")
        stage.pass_time(70_000)
        (third,) = send(stage, b"3")
        for _ in range(2):
            with pytest.raises(Refused, match=f"begins at seq {third}") as refused:
                listen(stage, f"seq:{first}")
            assert refused.value.code == "history-gone"
            assert listen(stage, f"seq:{third}").take() == [b"3"]
            stage.restart()
            keep(stage)

    def test_a_replay_slower_than_trimming_is_ended_with_the_reason(self) -> None:
        stage = Stage()
        keep(stage, DestinationPolicy(retention_bytes=40_000))
        send(stage, *[b"." * 60 for _ in range(350)])
        client = listen(stage, "first", ack=c.INDIVIDUAL, credit=1)
        assert replaying(client)
        send(stage, *[b"." * 60 for _ in range(450)])
        assert [refusal.code for refusal in client.closed] == ["history-gone"]
        assert stage.broker.histories.replays == {}

    def test_many_topics_without_messages_are_deleted_and_what_is_lost_is_not(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("broker_app.core.topics.histories.MAX_HISTORIES", 3)
        positions = [send(stage, b"x", to=f"/topic/prices.{number}")[0] for number in range(3)]
        stage.pass_time(70_000)
        send(stage, b"y")
        assert list(stage.broker.histories.histories) == [EU]
        with pytest.raises(Refused, match="no longer reaches back"):
            listen(stage, f"seq:{positions[0]}", "/topic/prices.0")
        assert take_snapshot(stage.recovered()) == stage.take_snapshot()

    def test_a_delayed_message_enters_history_when_it_is_due(self, stage: Stage) -> None:
        from broker_app.core.message import DeliveryOptions

        send(stage, b"later", options=DeliveryOptions(delay_ms=5_000))
        send(stage, b"now")
        stage.pass_time(6_000)
        assert listen(stage, "first").take() == [b"now", b"later"]
        assert take_snapshot(stage.recovered()) == stage.take_snapshot()


def test_the_position_of_a_message_lets_its_reader_go_on(stage: Stage) -> None:
    send(stage, b"1", b"2", b"3")
    client = listen(stage, "first", ack=c.INDIVIDUAL, credit=2)
    subscription: Subscription = client.got[-1][0]
    assert subscription.queue.in_order
    seq = client.got[-1][2].position
    client.disconnect()
    assert listen(stage, f"seq:{seq + 1}").take() == [b"3"]
