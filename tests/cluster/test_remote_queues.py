"""What comes from another broker is checked before the core takes it."""

from __future__ import annotations

import pytest

from broker_app.base.refused import Refused
from broker_app.features.cluster import frames as f
from broker_app.features.cluster.remote_queues import RemoteQueues
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
    ],
)
def test_what_no_broker_sends_is_refused_before_the_core_sees_it(
    queues: RemoteQueues, stage: Stage, shared: f.SharedEnvelope, one: f.RemoteDelivery
) -> None:
    with pytest.raises(Refused):
        queues.deliver(f.Deliver([shared], [one]))
    assert stage.queue("/queue/q").unsettled == 0
