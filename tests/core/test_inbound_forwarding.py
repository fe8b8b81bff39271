"""Messages of another broker are stored once and in order, also when repeated, refused or interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.durability.recovery import Recovery
from broker_app.core.durability.snapshot import SnapshotBuilder
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.policy import REJECT_NEWEST, REMOVE_OLDEST, DestinationPolicy, Policies
from broker_app.core.remote.offset import Offset
from broker_app.core.remote.sync_queue import SYNC_ADDRESS
from tests.core.stage import Client, Stage, read

TARGET = "/queue/t"
SENDER, SOURCE = "home~7f", "storeAndForward:b/queue/t"


class Bridge(Client):
    """The bridge of another broker."""

    def begin(
        self, source: str = SOURCE, *, sender: str = SENDER, id: str = "f", target: str = TARGET
    ) -> tuple[int, int]:
        """Begin a flow; (accepted, count) of its mark."""
        self.do(c.BeginFlow(self.peer, id, sender, source, target))
        (subscription, tag, message) = self.got.pop()
        assert (subscription.id, tag, message.envelope.address) == (id, 0, SYNC_ADDRESS)
        accepted, count = message.envelope.block.decode().splitlines()
        return int(accepted.removeprefix("accepted:")), int(count.removeprefix("count:"))

    def forwarding(self, *positions: int, id: str = "f", target: str = TARGET, **facts: Any) -> c.Forward:
        """A run of messages whose bodies are their positions, and whose receipts too."""
        envelope = Envelope(target, **facts)
        entries = [(envelope, b"%d" % position, position) for position in positions]
        return c.Forward(self.peer, id, entries, positions)

    def forward(self, *positions: int, **facts: Any) -> list[int | str]:
        """Forward in one run; what each was answered: its position or the code of the refusal."""
        self.stage.decide(self.forwarding(*positions, **facts))
        return self.answers()

    def answers(self) -> list[int | str]:
        accepted, refused = [receipt for receipt, _ in self.accepted], self.refused
        self.accepted, self.refused = [], []
        return [*accepted, *(refusal.code for _, refusal in refused)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def bridge(stage: Stage) -> Bridge:
    bridge = Bridge(stage)
    assert bridge.begin() == (0, 0)
    bridge.answers()
    return bridge


def waiting(stage: Stage, address: str = TARGET) -> list[bytes]:
    reader = stage.client()
    reader.subscribe(address)
    bodies = reader.take()
    reader.disconnect()
    return bodies


def mark(stage: Stage) -> Offset:
    (found,) = stage.broker.forwarding.offsets.values()
    return found


def forget(stage: Stage, source: str = SOURCE) -> None:
    client = stage.client()
    client.do(c.DeleteOffset(client.peer, SENDER, source))


def hand_over(stage: Stage, owner: str) -> None:
    client = stage.client()
    client.do(c.ReassignOffset(client.peer, SENDER, SOURCE, owner))


def test_a_message_is_stored_and_answered_and_its_repeat_answered_alone(stage: Stage, bridge: Bridge) -> None:
    assert bridge.forward(3, 8) == [3, 8]
    assert bridge.forward(3, 8, 9) == [3, 8, 9]
    assert waiting(stage) == [b"3", b"8", b"9"]
    found = mark(stage)
    assert (found.sender, found.source, found.facts) == (SENDER, SOURCE, ("", 9, 3, stage.now_ms))
    assert stage.broker.turn.counters["duplicates"] == 2


def test_the_offset_is_one_record_in_the_batch_of_its_messages(stage: Stage, bridge: Bridge) -> None:
    other = Bridge(stage)
    other.begin("other")
    stage.decide(bridge.forwarding(1, 2), other.forwarding(5), bridge.forwarding(3))
    stored = list(read(stage.batches[-1]))
    assert [record.kind for record in stored] == [records.PUBLISHED] * 4 + [records.OFFSET_SET] * 2
    offsets = {
        r.address: records.offset_of(r.content, 0, len(r.content))
        for r in stored
        if r.kind == records.OFFSET_SET
    }
    assert offsets == {
        f"/mark/{SENDER}/{SOURCE}": ("", 3, 3, stage.now_ms),
        f"/mark/{SENDER}/other": ("", 5, 1, stage.now_ms),
    }


def origins(stage: Stage) -> list[tuple[str, int] | None]:
    """Where each stored message came from, in order."""
    stored = (record for batch in stage.batches for record in read(batch))
    return [record.origin for record in stored if record.kind == records.PUBLISHED]


def test_each_stored_message_names_where_it_came_from(stage: Stage, bridge: Bridge) -> None:
    mine, others = f"/mark/{SENDER}/{SOURCE}", f"/mark/{SENDER}/other"
    other = Bridge(stage)
    other.begin("other")
    stage.client().publish(TARGET, b"own")
    stage.decide(bridge.forwarding(3, 5), other.forwarding(9), bridge.forwarding(5, 6))
    assert origins(stage) == [None, (mine, 3), (mine, 5), (others, 9), (mine, 6)]
    stage.restart()
    assert waiting(stage) == [b"own", b"3", b"5", b"9", b"6"]


def test_a_message_with_an_option_names_its_origin_too_where_it_arrives(stage: Stage, bridge: Bridge) -> None:
    mine = f"/mark/{SENDER}/{SOURCE}"
    bridge.forward(1, options=DeliveryOptions(dedup_id="d", group="g"), block=b"group:g\n")
    bridge.forward(2, options=DeliveryOptions(delay_ms=1_000))
    stage.restart()
    stage.pass_time(1_001)
    assert origins(stage) == [(mine, 1), (mine, 2), None]
    assert waiting(stage) == [b"1", b"2"]


def test_an_offset_outlives_connections_and_crashes(stage: Stage, bridge: Bridge) -> None:
    bridge.forward(1, 2)
    bridge.disconnect()
    bridge = Bridge(stage)
    assert bridge.begin() == (2, 2)
    bridge.answers()
    bridge.forward(7)
    frozen = stage.take_snapshot()
    stage.restart()
    assert stage.take_snapshot() == frozen
    assert SYNC_ADDRESS in stage.queues
    bridge = Bridge(stage)
    assert bridge.begin() == (7, 3)
    assert mark(stage).facts == ("", 7, 3, stage.now_ms)


def test_from_every_cut_of_the_journal_come_messages_and_offset_alike(stage: Stage, bridge: Bridge) -> None:
    snapshots = [(stage.take_snapshot(), 0)]
    for position in range(1, 6):
        bridge.forward(position)
        snapshots.append((stage.take_snapshot(), len(stage.batches)))
    for cut in range(len(stage.batches) + 1):
        for snapshot, before in snapshots[: cut + 1]:
            broker = type(stage.broker)(tag=stage.tag)
            recovery = Recovery(broker)
            recovery.load(snapshot)
            for batch in stage.batches[before:cut]:
                recovery.apply(*batch)
            recovery.finish(sum(len(list(read(batch))) for batch in stage.batches[:cut]) + 1)
            queue = broker.destinations.queues.get(TARGET)
            assert (queue.depth if queue else 0) == cut
            assert [found.facts[1:3] for found in broker.forwarding.offsets.values()] == (
                [(cut, cut)] if cut else []
            )


def test_a_snapshot_between_two_messages_counts_neither_twice(stage: Stage, bridge: Bridge) -> None:
    bridge.forward(1)
    snapshot, before = stage.take_snapshot(), len(stage.batches) - 1  # the batch before it is read again
    bridge.forward(2)
    broker = stage.recovered(snapshot, before)
    assert [found.facts[1:3] for found in broker.forwarding.offsets.values()] == [(2, 2)]
    assert broker.destinations.queues[TARGET].depth == 2


def test_a_refusal_breaks_the_flow_until_it_begins_again(stage: Stage, bridge: Bridge) -> None:
    stage.decide(c.Reconfigure(Policies(exact={TARGET: DestinationPolicy(max_message_bytes=2)})))
    entries = [(Envelope(TARGET), body, number) for number, body in ((1, b"1"), (2, b"222"), (3, b"3"))]
    stage.decide(c.Forward(bridge.peer, "f", entries, (1, 2, 3)))
    assert bridge.answers() == [1, "too-large", "flow-broken"]
    assert bridge.forward(1, 3) == ["flow-broken", "flow-broken"]
    assert waiting(stage) == [b"1"]
    assert bridge.begin() == (1, 1)
    bridge.answers()
    assert bridge.forward(2, 3) == [2, 3]
    assert waiting(stage) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("behaviour", [DestinationPolicy().limit_behavior, REJECT_NEWEST])
def test_a_full_queue_refuses_and_lets_nothing_wait(stage: Stage, bridge: Bridge, behaviour: str) -> None:
    full = DestinationPolicy(max_messages=2, limit_behavior=behaviour)
    stage.decide(c.Reconfigure(Policies(exact={TARGET: full})))
    assert bridge.forward(1, 2, 3, persistent=False) == [1, 2, "queue-full"]
    assert not stage.broker.admission.blocked.by_peer
    assert mark(stage).position == 2
    waiting(stage)
    assert bridge.forward(3) == ["flow-broken"]


def test_a_queue_that_makes_room_takes_all(stage: Stage, bridge: Bridge) -> None:
    policy = DestinationPolicy(max_messages=2, limit_behavior=REMOVE_OLDEST, use_dead_letters=False)
    stage.decide(c.Reconfigure(Policies(exact={TARGET: policy})))
    assert bridge.forward(1, 2, 3) == [1, 2, 3]
    assert waiting(stage) == [b"2", b"3"]


def test_a_broker_without_space_refuses(stage: Stage, bridge: Bridge) -> None:
    stage.decide(c.StoreSpace(0), bridge.forwarding(1))
    assert bridge.answers() == ["store-full"]


def test_a_paused_queue_refuses_messages_and_beginnings(stage: Stage, bridge: Bridge) -> None:
    stage.decide(c.Reconfigure(Policies(exact={TARGET: DestinationPolicy(paused="producers")})))
    assert bridge.forward(1) == ["paused"]
    with pytest.raises(Refused, match="paused it"):
        bridge.begin()
    bridge.answers()
    assert bridge.forward(1) == ["flow-broken"]


def test_a_newer_flow_of_the_same_queue_ends_the_older(stage: Stage, bridge: Bridge) -> None:
    bridge.forward(1)
    newer = Bridge(stage)
    assert newer.begin() == (1, 1)
    newer.answers()
    assert bridge.forward(2) == ["flow-broken"]
    bridge.disconnect()
    assert newer.forward(2) == [2]
    assert waiting(stage) == [b"1", b"2"]


@pytest.mark.parametrize("away", [False, True])
def test_only_the_user_that_began_a_flow_goes_on_with_it(stage: Stage, bridge: Bridge, away: bool) -> None:
    bridge.forward(1)
    if away:
        bridge.disconnect()
        stage.restart()
    stranger = Bridge(stage)
    stranger.peer.user = "mallory"
    with pytest.raises(Refused, match=r"forwards its .* as the user , and mallory cannot.*mom bridge hand-"):
        stranger.begin()
    if away:
        bridge = Bridge(stage)
        assert bridge.begin() == (1, 1)
        bridge.answers()
    assert bridge.forward(2) == [2]


def test_a_deleted_offset_belongs_to_the_user_who_begins_next(stage: Stage, bridge: Bridge) -> None:
    bridge.forward(1)
    bridge.disconnect()
    forget(stage)
    assert not stage.broker.forwarding.offsets
    next_one = Bridge(stage)
    next_one.peer.user = "next"
    assert next_one.begin() == (0, 0)
    next_one.answers()
    assert next_one.forward(1) == [1], "no record shows that it was here before"
    next_one.disconnect()
    stage.restart()
    assert mark(stage).facts == ("next", 1, 1, stage.now_ms)
    assert waiting(stage) == [b"1", b"1"]


def test_a_reassigned_offset_continues_from_its_position(stage: Stage, bridge: Bridge) -> None:
    bridge.forward(1, 4)
    bridge.disconnect()
    hand_over(stage, "next")
    stage.restart()
    with pytest.raises(Refused, match="as the user next, and  cannot continue"):
        Bridge(stage).begin()
    next_one = Bridge(stage)
    next_one.peer.user = "next"
    assert next_one.begin() == (4, 2)
    next_one.answers()
    assert next_one.forward(4, 5) == [4, 5]
    assert waiting(stage) == [b"1", b"4", b"5"]


def test_the_offset_of_a_flow_that_runs_is_not_reassigned(stage: Stage, bridge: Bridge) -> None:
    bridge.forward(1)
    with pytest.raises(Refused, match=r"at the moment.* pause or remove its bridge"):
        hand_over(stage, "next")
    assert bridge.forward(2) == [2]


def test_the_offset_of_a_flow_that_runs_is_not_deleted(stage: Stage, bridge: Bridge) -> None:
    bridge.forward(1)
    with pytest.raises(Refused, match=r"at the moment.* pause or remove its bridge") as refused:
        forget(stage)
    assert refused.value.code == "conflict"
    assert bridge.forward(2) == [2]
    with pytest.raises(Refused, match="there is no replication offset of a queue other") as refused:
        forget(stage, "other")
    assert refused.value.code == "not-found"


def test_a_message_that_comes_and_is_deleted_in_one_batch_stays_deleted(stage: Stage, bridge: Bridge) -> None:
    client = stage.client()
    ends, forgets = c.Unsubscribe(bridge.peer, "f"), c.DeleteOffset(client.peer, SENDER, SOURCE)
    stage.decide(bridge.forwarding(5), ends, forgets)
    assert records.OFFSET_SET not in [record.kind for record in read(stage.batches[-1])]
    stage.restart()
    assert not stage.broker.forwarding.offsets


def test_from_every_cut_of_the_journal_an_offset_is_there_or_deleted(stage: Stage, bridge: Bridge) -> None:
    held: list[list[tuple[str, int, int, int]]] = [[]]
    frozen = [(stage.take_snapshot(), 0)]

    def note() -> None:
        facts = [found.facts for found in stage.broker.forwarding.offsets.values() if found.position]
        held.extend([facts] * (len(stage.batches) + 1 - len(held)))
        frozen.append((stage.take_snapshot(), len(stage.batches)))

    for user in ("", "second", "third"):
        bridge = Bridge(stage)
        bridge.peer.user = user
        bridge.begin(SOURCE, id="f")
        bridge.begin("other", id="g")
        bridge.answers()
        for flow, position in (("f", 1), ("g", 4), ("f", 2)):
            bridge.forward(position, id=flow)
            note()
        bridge.disconnect()
        for source in (SOURCE, "other"):
            forget(stage, source)
            note()
    assert len(held) == len(stage.batches) + 1 == 16
    for cut in range(len(stage.batches) + 1):
        for snapshot, before in frozen:
            if before > cut:
                continue
            # A snapshot may be older than what is read again behind it.
            for start in range(before + 1):
                broker = type(stage.broker)(tag=stage.tag)
                recovery = Recovery(broker)
                recovery.load(snapshot)
                for batch in stage.batches[start:cut]:
                    recovery.apply(*batch)
                recovery.finish(sum(len(list(read(batch))) for batch in stage.batches[:cut]) + 1)
                found = [found.facts for found in broker.forwarding.offsets.values()]
                assert sorted(found) == sorted(held[cut]), (cut, before, start)


def test_an_offset_that_is_deleted_while_a_snapshot_is_made_stays_deleted(
    stage: Stage, bridge: Bridge
) -> None:
    bridge.forward(1)
    bridge.disconnect()
    for work in range(1, 10):
        freezing = SnapshotBuilder(stage.broker)
        done, before = False, len(stage.batches)
        for _ in range(work):
            done = done or freezing.step(1)
        forget(stage)
        while not done:
            done = freezing.step(1)
        assert not stage.recovered(b"".join(freezing.parts()), before).forwarding.offsets
        bridge = Bridge(stage)
        bridge.begin()
        bridge.answers()
        bridge.forward(work)
        bridge.disconnect()


def test_flows_of_other_senders_and_queues_do_not_touch_each_other(stage: Stage, bridge: Bridge) -> None:
    other = Bridge(stage)
    assert other.begin(sender="home~80") == (0, 0)
    assert bridge.begin("another", id="g", target="/queue/u") == (0, 0)
    bridge.answers(), other.answers()
    stage.decide(bridge.forwarding(1), other.forwarding(1), bridge.forwarding(1, id="g", target="/queue/u"))
    assert waiting(stage) == [b"1", b"1"]
    assert waiting(stage, "/queue/u") == [b"1"]
    assert len(stage.broker.forwarding.offsets) == stage.queue(SYNC_ADDRESS).depth == 3


def test_a_flow_ends_with_its_subscription(stage: Stage, bridge: Bridge) -> None:
    bridge.unsubscribe("f")
    bridge.answers()
    assert bridge.forward(1) == ["flow-broken"]
    assert not stage.broker.forwarding.offsets
    assert not stage.broker.forwarding.flows
    with pytest.raises(Refused, match="no subscription"):
        bridge.unsubscribe("f")


@pytest.mark.parametrize(
    ("position", "code"), [(0, "invalid"), (-5, "invalid"), (1 << 47, "invalid"), (1 << 80, "invalid")]
)
def test_an_invalid_position_breaks_the_flow(bridge: Bridge, position: int, code: str) -> None:
    assert bridge.forward(position, 1) == [code, "flow-broken"]


def test_a_message_for_another_queue_breaks_the_flow(bridge: Bridge) -> None:
    assert bridge.forward(1, target="/queue/other") == ["invalid"]


def test_a_refusal_from_outside_comes_in_its_turn(stage: Stage, bridge: Bridge) -> None:
    refusal = Refused("not-allowed", "no")
    stage.decide(bridge.forwarding(1), c.BreakFlow(bridge.peer, "f", refusal, "2"), bridge.forwarding(3))
    assert bridge.answers() == [1, "not-allowed", "flow-broken"]
    assert waiting(stage) == [b"1"]


def test_special_features_work_for_forwarded_messages(stage: Stage, bridge: Bridge) -> None:
    assert bridge.forward(1, options=DeliveryOptions(dedup_id="d")) == [1]
    assert bridge.forward(2, options=DeliveryOptions(dedup_id="d")) == [2]
    assert bridge.forward(3, options=DeliveryOptions(delay_ms=1_000)) == [3]
    assert waiting(stage) == [b"1"]
    stage.pass_time(1_001)
    assert waiting(stage) == [b"1", b"3"]
    assert mark(stage).position == 3


def test_a_message_that_is_forwarded_may_be_forwarded_further(stage: Stage, bridge: Bridge) -> None:
    further = "/queue/storeAndForward:c/queue/t"
    bridge.begin(target=further)
    bridge.answers()
    assert bridge.forward(1, target=further, persistent=False) == [1]
    assert waiting(stage, further) == [b"1"]


def test_the_sync_queue_is_there_from_the_first_bridge_on_and_stays(stage: Stage) -> None:
    bridge = Bridge(stage)
    assert SYNC_ADDRESS not in stage.queues
    stage.decide(c.BridgeConnected(bridge.peer))
    bridge.disconnect()
    for _ in range(20):
        stage.pass_time(60_000)
    assert stage.queue(SYNC_ADDRESS).depth == 0


def test_no_other_client_uses_the_sync_queue(stage: Stage, bridge: Bridge) -> None:
    bridge.forward(1)
    client = stage.client()
    position = client.publish("/queue/a").position
    for action in (
        lambda: client.publish(SYNC_ADDRESS),
        lambda: client.subscribe(SYNC_ADDRESS),
        lambda: client.purge(SYNC_ADDRESS),
        lambda: client.do(c.DeleteQueue(client.peer, SYNC_ADDRESS, force=True)),
        lambda: client.do(c.Transfer(client.peer, "/queue/a", [c.Chosen(position)], SYNC_ADDRESS)),
    ):
        with pytest.raises(Refused, match=r"replication offsets.*/forwarding") as refused:
            action()
        assert refused.value.code == "unsupported"
    declared = {SYNC_ADDRESS: DestinationPolicy()}
    stage.decide(c.Reconfigure(Policies(exact=declared)))
    with pytest.raises(Refused, match="replication offsets"):
        client.publish(SYNC_ADDRESS)
    assert stage.queue(SYNC_ADDRESS).depth == 1


def test_a_fault_in_the_checks_of_a_flow_is_its_connections_and_one_after_a_change_ends_the_engine(
    stage: Stage, bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*given: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as checking:
        checking.setattr(stage.broker.subscriptions, "check_subscribable", fault)
        outcome = stage.decide(c.BeginFlow(bridge.peer, "g", SENDER, "other", TARGET))
    assert [type(failure.error) for failure in outcome.failures] == [ZeroDivisionError]
    assert bridge.answers() == ["internal"]
    assert "g" not in bridge.peer.subscriptions
    monkeypatch.setattr(
        stage.broker.subscriptions, "_count_texts", fault
    )  # the flow has joined its queue by then
    with pytest.raises(ZeroDivisionError):
        stage.decide(c.BeginFlow(bridge.peer, "g", SENDER, "other", TARGET))


@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        ({"sender": ""}, "sender of a flow has the name ''; it must have 1 to 100"),
        ({"sender": "a/b"}, "must not contain /"),
        ({"sender": "x" * 101}, "1 to 100"),
        ({"source": "x" * 256}, "source .* 1 to 255"),
        ({"target": "/topic/t"}, "/topic/t is not one"),
        ({"target": "/queue/"}, "no name"),
        ({"target": SYNC_ADDRESS}, "replication offsets"),
    ],
)
def test_invalid_flows_are_refused(stage: Stage, facts: dict[str, str], wrong: str) -> None:
    with pytest.raises(Refused, match=wrong):
        Bridge(stage).begin(**facts)
    assert stage.broker.forwarding.offsets == {}


def test_the_number_of_offsets_is_bounded() -> None:
    stage = Stage(offsets=2)
    bridge = Bridge(stage)
    for number in "12":
        bridge.begin(number, id=number)
    with pytest.raises(Refused, match="has 2 replication offsets"):
        bridge.begin("3", id="3")
    bridge.answers()
    assert bridge.forward(1, id="1") == [1]
    bridge.unsubscribe("2")  # of which nothing came
    bridge.begin("3", id="3")


def test_a_fault_at_a_forwarded_message_breaks_its_flow_and_keeps_what_came_before(
    stage: Stage, bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*given: object) -> None:
        raise ZeroDivisionError

    assert bridge.forward(1, 2) == [1, 2]
    with monkeypatch.context() as checking:
        checking.setattr(stage.broker.forwarding, "_target_of_flow", fault)
        outcome = stage.decide(bridge.forwarding(3, 4))
    assert [type(failure.error) for failure in outcome.failures] == [ZeroDivisionError]
    assert bridge.answers() == ["internal", "flow-broken"]
    assert bridge.forward(5) == ["flow-broken"]
    assert (mark(stage).position, stage.queue(TARGET).depth) == (2, 2)
