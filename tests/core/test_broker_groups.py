"""Message groups and exclusive consumers."""

from __future__ import annotations

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.message import DeliveryOptions
from tests.core.stage import Client, Stage

A = "/queue/a"


def send(client: Client, *names: str, address: str = A) -> None:
    """Messages named like "g1": of the group g; "-1" has none."""
    for name in names:
        group = name[0].replace("-", "")
        client.publish(
            address,
            name.encode(),
            block=b"group:%b\n" % group.encode() if group else b"",
            options=DeliveryOptions(group=group) if group else None,
        )


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def deep() -> Stage:
    return Stage(window=2, fetch_messages=2)


class TestGroups:
    def test_one_group_goes_to_one_consumer_in_order_while_others_take_turns(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        one.subscribe(A)
        two.subscribe(A)
        send(one, "a1", "b1", "a2", "a3", "-1", "b2", "-2")
        assert one.take() == [b"a1", b"a2", b"a3", b"-2"]
        assert two.take() == [b"b1", b"-1", b"b2"]

    def test_a_group_waits_for_its_consumer_and_does_not_block_the_others(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        one.subscribe(A, credit=1)
        send(one, "a1", "a2", "b1", "a3")
        two.subscribe(A)
        assert (one.take(), two.take()) == ([b"a1"], [b"b1"])
        one.settle(1)
        assert one.take() == [b"a2"]

    def test_the_consumer_of_a_group_stays_the_same_when_nothing_is_unsettled(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        one.subscribe(A)
        two.subscribe(A)
        for name in ("a1", "a2", "a3"):
            send(one, name)
            assert one.take() == [name.encode()]
            one.settle(*one.tags)

    def test_when_a_consumer_leaves_its_groups_go_on_with_another_in_order(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        one.subscribe(A, credit=2)
        send(one, "a1", "a2", "a3")
        two.subscribe(A)
        assert two.take() == []
        one.disconnect()
        assert two.take_attempts() == [(b"a1", 1), (b"a2", 1), (b"a3", 0)]

    def test_a_message_that_waited_for_the_former_consumer_of_a_group_goes_to_the_next(
        self, stage: Stage
    ) -> None:
        one, two = stage.client(), stage.client()

        def send(name: bytes, kind: bytes, priority: int = 4) -> None:
            group = name[:1].decode()
            block = b"kind:%b\n" % kind
            two.publish(A, name, priority=priority, block=block, options=DeliveryOptions(group=group))

        one.subscribe(A, credit=1, selector="kind = 'wanted'")
        send(b"a1", b"wanted")
        one.settle(1)
        send(b"b1", b"wanted")
        send(b"a2", b"wanted", priority=9)
        send(b"a3", b"other")
        two.subscribe(A)
        assert one.take() == [b"a1", b"b1"]
        assert two.take() == [b"a3", b"a2"]

    def test_a_group_whose_consumer_left_its_deliveries_behind_waits_for_them(self, stage: Stage) -> None:
        engine_client, other = stage.client(), stage.client()
        send(engine_client, "a1", "a2", "b1")
        engine_client.subscribe(A, credit=1, lease_ms=30_000)
        engine_client.unsubscribe(keep_unsettled=True)
        other.subscribe(A)
        assert (engine_client.take(), other.take()) == ([b"a1"], [b"b1"])
        engine_client.settle(1)
        assert other.take() == [b"a2"]

    def test_groups_are_sorted_out_in_a_backlog_that_is_outside_memory(self, deep: Stage) -> None:
        one, two = deep.client(), deep.client()
        send(one, *(f"{group}{number}" for number in range(10) for group in "aaab"))
        one.subscribe(A, credit=1)
        two.subscribe(A, credit=100)
        assert one.take() == [b"a0"]
        assert two.take() == [b"b%d" % number for number in range(10)]
        queue = deep.queue(A)
        assert sum(1 for lane in queue.lanes for _ in lane.in_memory()) <= 8
        got = []
        while one.tags:
            one.settle(*one.tags)
            got += one.take()
        assert got == [b"a0", b"a0", *(b"a%d" % number for number in range(1, 10) for _ in range(3))]

    def test_groups_survive_a_restart(self, deep: Stage) -> None:
        client = deep.client()
        send(client, "a1", "b1", "a2", "b2", "a3")
        client.subscribe(A, credit=1)
        assert take_snapshot(deep.recovered()) == deep.take_snapshot()
        deep.restart()
        one, two = deep.client(), deep.client()
        one.subscribe(A, credit=1)
        two.subscribe(A)
        assert one.take_attempts() == [(b"a1", 1)]
        assert two.take() == [b"b1", b"b2"]

    def test_so_many_idle_groups_are_remembered(self) -> None:
        stage = Stage(idle_groups=2)
        one = stage.client()
        one.subscribe(A)
        send(one, "a1", "b1", "c1")
        one.settle(*one.tags)
        assert len(stage.queue(A).selective.groups) == 2

    def test_a_queue_drops_groups_when_it_has_been_empty_for_a_while(self, stage: Stage) -> None:
        client = stage.client()
        client.subscribe(A)
        send(client, "a1")
        client.settle(1)
        assert stage.queue(A).selective is not None
        for _ in range(40):
            stage.pass_time(1_000)
        assert stage.queue(A).selective is None
        send(client, "-1")
        assert client.take() == [b"a1", b"-1"]

    def test_a_group_goes_on_with_a_message_that_its_consumer_would_never_take(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        one.subscribe(A, selector="last IS NULL")
        two.subscribe(A, selector="last = 'yes'")
        send(one, "a1")
        one.publish(A, b"a2", block=b"group:a\nlast:yes\n", options=DeliveryOptions(group="a"))
        assert (one.take(), two.take()) == ([b"a1"], [])
        one.settle(1)
        assert two.take() == [b"a2"]

    def test_a_moved_message_keeps_its_group(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        send(one, "a1", "a2", address="/queue/b")
        positions = [message.position for lane in stage.queue("/queue/b").lanes for message in lane.ready]
        one.do(c.Transfer(one.peer, "/queue/b", [c.Chosen(at, None) for at in positions], A))
        one.subscribe(A)
        two.subscribe(A)
        assert (one.take(), two.take()) == ([b"a1", b"a2"], [])


class TestExclusive:
    def test_one_is_served_and_the_others_are_on_standby_in_the_order_of_their_arrival(
        self, stage: Stage
    ) -> None:
        clients = [stage.client() for _ in range(3)]
        for client in clients:
            client.subscribe(A, exclusive=True)
        send(clients[0], "-1", "-2")
        assert [client.take() for client in clients] == [[b"-1", b"-2"], [], []]
        clients[0].disconnect()
        assert [client.take_attempts() for client in clients[1:]] == [[(b"-1", 1), (b"-2", 1)], []]

    def test_an_exclusive_consumer_takes_over_from_those_that_are_not(self, stage: Stage) -> None:
        plain, exclusive = stage.client(), stage.client()
        plain.subscribe(A)
        exclusive.subscribe(A, exclusive=True)
        send(plain, "-1")
        assert (plain.take(), exclusive.take()) == ([], [b"-1"])
        exclusive.unsubscribe()
        assert plain.take() == [b"-1"]

    def test_the_queue_keeps_using_fast_dispatch(self, stage: Stage) -> None:
        client = stage.client()
        client.subscribe(A, exclusive=True)
        assert stage.queue(A).selective is None
        assert stage.queue(A).active is client.peer.subscriptions["1"]

    def test_an_active_consumer_that_is_slow_stays_the_active_one(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        one.subscribe(A, exclusive=True, credit=1)
        two.subscribe(A, exclusive=True)
        one.pause()
        send(one, "-1", "-2")
        assert (one.take(), two.take()) == ([], [])
        one.resume()
        assert (one.take(), two.take()) == ([b"-1"], [])

    def test_it_takes_over_groups_too(self, stage: Stage) -> None:
        one, two = stage.client(), stage.client()
        one.subscribe(A, credit=1)
        send(one, "a1", "a2")
        two.subscribe(A, exclusive=True)
        one.settle(1)
        assert two.take() == [b"a2"]

    def test_a_topic_has_none(self, stage: Stage) -> None:
        with pytest.raises(Refused, match="a topic serves all its subscribers"):
            stage.client().subscribe("/topic/t", exclusive=True)
