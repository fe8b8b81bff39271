"""What comes from another broker is checked before the core takes it."""

from __future__ import annotations

import pytest

from broker_app.base.refused import Refused
from broker_app.core.policy import DestinationPolicy
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.remote_queues import RemoteQueues
from tests.core.stage import Stage


class StageEngine:
    """An engine that decides at once."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.broker = stage.broker

    def submit(self, command: object, size: int = 0) -> None:
        self.stage.decide(command)  # type: ignore[arg-type]  # commands only


def envelope(address: str = "/queue/q", block: bytes = b"a:b\n", priority: int = 4) -> f.SharedEnvelope:
    return f.SharedEnvelope(address, block, True, priority)


def delivery(id: bytes = b"id-1", tag: int = 1, time_ms: int = 1) -> f.RemoteDelivery:
    return f.RemoteDelivery(1, tag, 0, 0, time_ms, 0, id, b"body")


def received(frame: f.Deliver) -> f.Deliver:
    """A frame as the other end of a link reads it."""
    reader = f.Reader(f.USUAL_BYTES)
    reader.add(f.encode(frame))
    (found,) = reader
    assert isinstance(found, f.Deliver)
    return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def queues(stage: Stage) -> RemoteQueues:
    """Consumers here want /queue/q, under number 1."""
    stage.client().subscribe("/queue/q")
    sent: list[f.Frame] = []
    made = RemoteQueues(StageEngine(stage), "b2", sent.append)  # type: ignore[arg-type]  # what it uses of it
    made.refresh(stage.broker.interest.all())
    assert sent == [f.Subscribe(1, "/queue/q", 1, 100)]
    return made


def test_a_usual_message_is_delivered(queues: RemoteQueues, stage: Stage) -> None:
    queues.deliver(f.Deliver([envelope()], [delivery()]))
    assert stage.queue("/queue/q").unsettled == 1


@pytest.mark.parametrize(
    ("shared", "one"),
    [
        (envelope(block=b"a:b\n\nbody of another message"), delivery()),
        (envelope(block=b"a:b\n\n"), delivery()),
        (envelope(block=b"no colon\n"), delivery()),
        (envelope(block=b"a:b\0\n"), delivery()),
        (envelope(block=b"a:\xff\n"), delivery()),
        (envelope(address="nowhere"), delivery()),
        (envelope(priority=10), delivery()),
        (envelope(), delivery(id=b"")),
        (envelope(), delivery(id=b"x" * 1_000)),
        (envelope(), delivery(tag=-1)),
        (envelope(), delivery(time_ms=1 << 60)),
        (envelope(), f.RemoteDelivery(1, 1, 1, 0, 1, 0, b"id-1", b"the envelope of no message")),
    ],
)
def test_what_no_broker_sends_is_refused_before_the_core_sees_it(
    queues: RemoteQueues, stage: Stage, shared: f.SharedEnvelope, one: f.RemoteDelivery
) -> None:
    with pytest.raises(Refused):
        queues.deliver(received(f.Deliver([shared], [one])))
    assert stage.queue("/queue/q").unsettled == 0


def test_consumers_that_come_one_after_the_other_are_few_frames_and_all_are_reported_later(
    stage: Stage,
) -> None:
    sent: list[f.Frame] = []
    queues = RemoteQueues(StageEngine(stage), "b2", sent.append)  # type: ignore[arg-type]  # what it uses of it
    for number in range(1_000):
        stage.client(f"c{number}").subscribe("/queue/q", credit=10)
        queues.refresh(stage.broker.interest.all())
    assert sent[0] == f.Subscribe(1, "/queue/q", 1, 10)
    assert sent[1] == f.Credit(1, 2, 20)
    assert len(sent) < 25
    queues.send_small_changes()
    assert sent[-1] == f.Credit(1, 1_000, 10_000)
    count = len(sent)
    queues.send_small_changes()
    assert len(sent) == count


def test_a_consumer_that_leaves_before_its_credit_was_sent_is_not_reported(stage: Stage) -> None:
    sent: list[f.Frame] = []
    queues = RemoteQueues(StageEngine(stage), "b2", sent.append)  # type: ignore[arg-type]  # what it uses of it
    clients = [stage.client(f"c{number}") for number in range(4)]
    for client in clients:
        client.subscribe("/queue/q", credit=10)
    wants = stage.broker.interest.all()
    queues.refresh(wants)
    clients[0].disconnect()
    queues.refresh(wants)
    for client in clients[1:]:
        client.disconnect()
    queues.refresh(wants)
    queues.send_small_changes()
    assert sent == [f.Subscribe(1, "/queue/q", 4, 40), f.Unsubscribe(1)]


def test_another_broker_is_not_asked_for_what_local_consumers_alone_may_have(stage: Stage) -> None:
    sent: list[f.Frame] = []
    queues = RemoteQueues(StageEngine(stage), "b2", sent.append)  # type: ignore[arg-type]  # what it uses of it
    stage.give_policies(own=DestinationPolicy(local_only=True))
    stage.client().subscribe("/queue/own")
    stage.client().subscribe("/queue/any")
    queues.refresh(stage.broker.interest.all())
    assert sent == [f.Subscribe(1, "/queue/any", 1, 100)]
