"""A window of large messages for another broker is sent in several turns of the loop."""

from __future__ import annotations

import asyncio
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from broker_app.base.deadline import Deadline
from broker_app.core import commands as c
from broker_app.core.message import Envelope, Message, MessageIds
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.remote_consumers import RemoteConsumers

LARGE = f.USUAL_BYTES


class Owner:
    """The side of a link that owns messages, with an engine that does nothing by itself. Each turn of the
    loop is over after one frame."""

    def __init__(self) -> None:
        self.submitted: list[c.Command] = []
        self.frames: list[f.Deliver] = []
        engine: Any = SimpleNamespace(
            broker=SimpleNamespace(turn=SimpleNamespace(ids=MessageIds(1))),
            submit=lambda command, _=0: self.submitted.append(command),
        )
        self.consumers = RemoteConsumers(engine, "b2", self._send, self._fail)
        self.consumers._deadline = Deadline(count().__next__)
        self._topic = Envelope("/topic/t")

    def _send(self, frame: f.Frame) -> None:
        assert isinstance(frame, f.Deliver)
        self.frames.append(frame)

    def _fail(self, error: Exception) -> None:
        raise error

    def deliver(self, *tags: int, positions: tuple[int, ...] = (), size: int = LARGE) -> None:
        """Hand over messages as the engine does: with tags, or to topics at these positions."""
        peer = self.consumers.peer
        subscription: Any = SimpleNamespace(id="1")
        for tag, position in (*((tag, tag) for tag in tags), *((0, position) for position in positions)):
            message = Message(self._topic, bytes(size), position, 5, True)
            peer.deliveries.append((subscription, tag, message))
            if tag:
                peer.unsettled[tag] = (subscription, message)
        self.consumers.flush(peer)

    @property
    def sent(self) -> list[int]:
        return [message.tag for frame in self.frames for message in frame.messages]

    async def all_sent(self) -> None:
        while self.consumers._waiting:
            await asyncio.sleep(0)


@pytest.fixture
async def owner() -> Owner:
    return Owner()


async def test_they_are_sent_one_in_a_turn_in_their_order(owner: Owner) -> None:
    owner.deliver(1, 2, 3, 4)
    assert owner.sent == [1]
    await asyncio.sleep(0)
    assert owner.sent == [1, 2]
    owner.deliver(5, 6, size=10)
    assert owner.sent == [1, 2], "later ones do not overtake"
    await owner.all_sent()
    assert owner.sent == [1, 2, 3, 4, 5, 6]


async def test_all_count_for_the_window_before_they_are_sent(owner: Owner) -> None:
    tags = range(1, 2 + 32 * f.MIB // LARGE)
    owner.deliver(*tags)
    assert [type(command) for command in owner.submitted] == [c.Pause]
    await owner.all_sent()
    assert owner.sent == list(tags)
    owner.consumers.settled(f.Settled(acked=list(tags)))
    assert owner.consumers._under_way == 0
    assert [type(command) for command in owner.submitted] == [c.Pause, c.Settle, c.Resume]


async def test_what_the_engine_has_taken_back_meanwhile_is_not_sent(owner: Owner) -> None:
    owner.deliver(1, 2, 3)
    del owner.consumers.peer.unsettled[2]
    await owner.all_sent()
    assert owner.sent == [1, 3]
    owner.consumers.settled(f.Settled(acked=[1, 3]))
    assert owner.consumers._under_way == 0


async def test_a_connection_that_takes_nothing_is_sent_the_rest_when_it_does(owner: Owner) -> None:
    owner.deliver(1, 2, 3)
    owner.consumers.congested(True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert owner.sent == [1]
    owner.consumers.congested(False)
    await owner.all_sent()
    assert owner.sent == [1, 2, 3]


async def test_after_the_end_nothing_more_is_sent(owner: Owner) -> None:
    owner.deliver(1, 2, 3)
    owner.consumers.end()
    await asyncio.sleep(0)
    assert owner.sent == [1]


async def test_a_message_that_two_filters_match_is_sent_once_though_it_waited(owner: Owner) -> None:
    owner.consumers._topics = 2
    owner.deliver(positions=(1, 2, 2, 3, 3))
    await owner.all_sent()
    assert [len(frame.messages) for frame in owner.frames] == [1, 1, 1]
