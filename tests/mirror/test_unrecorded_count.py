"""The number of messages that would be lost with the active broker, and what it costs to know it."""

from __future__ import annotations

from collections import deque
from typing import Any, NoReturn

from broker_app.core.message import Message
from broker_app.features.mirror.unrecorded_count import UnrecordedCount
from tests.core.stage import Stage


class Unread(deque[Message]):
    """Messages that must not be walked."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("the messages were walked")


def publish(stage: Stage, address: str, count: int, **facts: Any) -> None:
    client = stage.client()
    for _ in range(count):
        client.publish(address, **facts)


def test_messages_of_a_queue_without_any_that_are_not_persistent_are_not_walked() -> None:
    stage = Stage()
    publish(stage, "/queue/a", 3)
    queue = stage.broker.destinations.queues["/queue/a"]
    for lane in queue.lanes:
        lane.ready = Unread(lane.ready)
    count = UnrecordedCount(stage.broker)
    count.step()
    assert count.total == 0


def test_messages_that_are_not_persistent_are_counted_also_when_they_were_returned() -> None:
    stage = Stage()
    publish(stage, "/queue/a", 2)
    publish(stage, "/queue/a", 3, persistent=False)
    taker = stage.client()
    taker.subscribe("/queue/a")
    count = UnrecordedCount(stage.broker)
    count.count_all()
    assert count.total == 0, "those that are with a client do not wait"
    taker.disconnect()
    count.step()
    assert count.total == 3


def test_many_queues_are_counted_in_steps_and_the_last_complete_number_stands() -> None:
    stage = Stage()
    for name in "abc":
        publish(stage, f"/queue/{name}", 1, persistent=False)
    count = UnrecordedCount(stage.broker)
    seen = []
    for _ in range(8):
        count.step(0.0)
        seen.append(count.total)
    assert seen == [0, 0, 0, 3, 3, 3, 3, 3]
