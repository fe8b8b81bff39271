"""Policies that change while a broker runs, pausing, and deletion of queues."""

from dataclasses import replace

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.message import Envelope
from broker_app.core.policy import ALL, CONSUMERS, NONE, PRODUCERS, DestinationPolicy, Policies
from tests.core.stage import Client, Stage, read

A = "/queue/a"


def policies(*, default: DestinationPolicy | None = None, **paused: str) -> Policies:
    """Queues by name, with who is held back."""
    exact = {f"/queue/{name}": DestinationPolicy(paused=held) for name, held in paused.items()}
    return Policies(default or DestinationPolicy(), exact)


def reconfigure(stage: Stage, new: Policies) -> None:
    stage.decide(c.Reconfigure(new))


def remove(client: Client, address: str = A, *, force: bool = False) -> None:
    client.do(c.DeleteQueue(client.peer, address, force))


def test_a_policy_is_the_own_one_then_that_of_the_longest_pattern_then_the_default() -> None:
    own, long, short, default = (DestinationPolicy(max_attempts=number) for number in range(1, 5))
    found = Policies(default, {"/queue/a.b": own}, {"/queue/": short, "/queue/a.": long})
    assert [found.of(address) for address in ("/queue/a.b", "/queue/a.c", "/queue/a", "/topic/a.b")] == [
        own, long, short, default,
    ]  # fmt: skip


def test_a_new_policy_holds_for_queues_that_are_there_and_for_those_to_come() -> None:
    stage = Stage()
    client = stage.client()
    client.publish(A)
    reconfigure(stage, Policies(DestinationPolicy(max_attempts=3)))
    client.publish("/queue/b")
    assert [stage.queue(address).policy.max_attempts for address in (A, "/queue/b")] == [3, 3]


@pytest.mark.parametrize("held", [CONSUMERS, ALL])
def test_paused_consumers_get_nothing_and_then_everything_in_order(held: str) -> None:
    stage = Stage()
    producer, consumer = stage.client(), stage.client()
    consumer.subscribe(A)
    producer.publish(A, b"1")
    reconfigure(stage, policies(a=CONSUMERS))
    producer.publish(A, b"2")
    reconfigure(stage, policies(a=held))
    late = stage.client()
    late.subscribe(A)
    consumer.give_back(*consumer.tags)
    assert (consumer.take(), late.take(), stage.queue(A).depth) == ([b"1"], [], 2)
    late.disconnect()
    reconfigure(stage, policies(a=NONE))
    assert consumer.take() == [b"1", b"2"]


def test_a_paused_queue_stays_paused_over_a_restart() -> None:
    stage = Stage()
    stage.client().publish(A, b"1")
    reconfigure(stage, policies(a=CONSUMERS))
    stage.restart()
    consumer = stage.client()
    consumer.subscribe(A)
    assert consumer.take() == []
    reconfigure(stage, policies())
    assert consumer.take() == [b"1"]


@pytest.mark.parametrize("held", [PRODUCERS, ALL])
def test_paused_producers_are_refused_and_their_transactions_rolled_back(held: str) -> None:
    stage = Stage()
    client = stage.client()
    client.publish(A, b"1")
    reconfigure(stage, policies(a=held))
    with pytest.raises(Refused, match="paused"):
        client.publish(A, b"2")
    client.do(c.Begin(client.peer, "t"))
    for address in ("/queue/b", A):
        client.do(c.Enlist(client.peer, "t", client.sending(address, b"3")))
    with pytest.raises(Refused, match="paused"):
        client.do(c.Commit(client.peer, "t"))
    assert stage.queue(A).depth == 1 and "/queue/b" not in stage.queues


def test_consumers_of_a_queue_whose_producers_are_paused_go_on() -> None:
    stage = Stage()
    client = stage.client()
    client.publish(A, b"1")
    reconfigure(stage, policies(a=PRODUCERS))
    client.subscribe(A)
    assert client.take() == [b"1"]


def test_a_topic_takes_nothing_while_its_producers_are_paused() -> None:
    stage = Stage()
    client = stage.client()
    reconfigure(stage, Policies(prefixes={"/topic/t.": DestinationPolicy(paused=PRODUCERS)}))
    client.publish("/topic/t")
    with pytest.raises(Refused, match="paused"):
        client.publish("/topic/t.x")


def test_a_queue_with_a_policy_of_its_own_is_there_without_being_used_and_others_go() -> None:
    stage = Stage(idle_queue_ms=3_000)
    client = stage.client()
    reconfigure(stage, policies(a=NONE))
    client.subscribe("/queue/b")
    client.disconnect()
    for _ in range(10):
        stage.pass_time(1_000)
    assert list(stage.queues) == [A]
    stage.restart()
    assert list(stage.queues) == [A]
    reconfigure(stage, policies())
    for _ in range(10):
        stage.pass_time(1_000)
    assert not stage.queues


def test_without_auto_create_only_queues_with_a_policy_of_their_own_can_be_used() -> None:
    stage = Stage(max_attempts=1)
    client = stage.client()
    closed = DestinationPolicy(auto_create=False)
    reconfigure(stage, Policies(closed, {A: replace(closed, max_attempts=1)}))
    for use in (client.publish, client.subscribe):
        with pytest.raises(Refused, match="ask an administrator"):
            use("/queue/b")
    client.publish(A, b"1")
    client.publish("/topic/b")
    client.subscribe("/temp-queue/b", id="2")
    client.subscribe(A)
    client.reject(*client.tags)
    assert stage.queue("/queue/a.dead").depth == 1, "dead letters have a place nonetheless"


def test_a_queue_with_consumers_is_not_removed() -> None:
    stage = Stage()
    client = stage.client()
    client.subscribe(A)
    with pytest.raises(Refused, match="consumers"):
        remove(client, force=True)
    client.unsubscribe()
    remove(client)
    assert not stage.queues
    with pytest.raises(Refused, match="no queue"):
        remove(client)


def test_a_queue_with_messages_is_removed_by_force_alone_and_does_not_come_back() -> None:
    stage = Stage()
    producer, consumer = stage.client(), stage.client()
    consumer.subscribe(A, credit=1)
    for body in (b"1", b"2", b"3"):
        producer.publish(A, body)
    consumer.unsubscribe(keep_unsettled=True)
    with pytest.raises(Refused, match="2 waiting"):
        remove(producer)
    remove(producer, force=True)
    assert {record.flags for record in read(stage.batches[-1])} == {records.PURGED}
    assert stage.broker.store.memory_bytes == 0
    with pytest.raises(Refused, match="no unsettled delivery"):
        consumer.settle(1)
    stage.restart()
    assert not stage.queues


def test_a_message_that_was_being_read_back_for_a_removed_queue_is_deleted() -> None:
    stage = Stage(window=1, fetch_messages=1)
    stage.loading = False
    client = stage.client()
    for body in (b"1", b"2", b"3"):
        client.publish(A, body)
    client.subscribe(A, ack=c.AUTO)
    client.unsubscribe()
    (fetch,) = stage.fetches
    remove(client, force=True)
    client.publish(A, b"4")
    stage.decide(stage.loaded(fetch))
    client.subscribe(A, ack=c.AUTO)
    assert client.take() == [b"1", b"4"]


def test_a_client_that_waits_for_room_in_a_removed_queue_gets_it_in_a_new_one() -> None:
    stage = Stage()
    producer, other = stage.client(), stage.client()
    reconfigure(stage, Policies(DestinationPolicy(max_messages=1)))
    producer.publish(A, b"1")
    stage.decide(producer.sending(A, b"2"))
    assert stage.queue(A).depth == 1
    remove(other, force=True)
    other.subscribe(A)
    assert other.take() == [b"2"]


def test_a_client_that_waits_for_room_is_refused_when_producers_are_paused_meanwhile() -> None:
    stage = Stage()
    producer = stage.client()
    limited = DestinationPolicy(max_messages=1)
    reconfigure(stage, Policies(limited))
    producer.publish(A, b"1")
    command = producer.sending(A)
    token = object()
    command.entries = [(Envelope(A), b"2", token)]
    stage.decide(command)
    reconfigure(stage, Policies(replace(limited, paused=PRODUCERS)))
    stage.client().subscribe(A, ack=c.AUTO)
    with pytest.raises(Refused, match="paused"):
        producer.answer(token)


def test_a_message_that_waits_for_another_attempt_goes_with_its_queue() -> None:
    stage = Stage()
    client = stage.client()
    reconfigure(stage, Policies(DestinationPolicy(retry_delay_ms=1_000)))
    client.publish(A, b"1")
    client.subscribe(A)
    client.give_back(*client.tags)
    client.unsubscribe()
    remove(client, force=True)
    client.subscribe(A)
    client.take()
    stage.pass_time(5_000)
    assert client.take() == [] and stage.broker.store.memory_bytes == 0
    stage.restart()
    assert not stage.queues


def test_removing_a_temporary_queue_gives_its_users_share_of_memory_back() -> None:
    stage = Stage()
    owner, operator = stage.client("ada"), stage.client("operator")
    owner.subscribe("/topic/other", id="2")
    owner.subscribe("/temp-queue/replies", id="1", credit=1)
    operator.publish("/temp-queue/replies", b"held")
    operator.publish("/temp-queue/replies", b"waits")
    owner.unsubscribe("1", keep_unsettled=True)
    assert stage.broker.accounts.users["ada"].waiting > 0
    operator.do(c.DeleteQueue(operator.peer, "/temp-queue/replies", force=True))
    assert stage.broker.accounts.users["ada"].waiting == 0
