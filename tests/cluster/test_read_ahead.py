"""Consumers of another broker that are quick are sent messages beyond their credit, which wait there."""

from __future__ import annotations

import pytest

from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.remote_consumers import RemoteConsumers
from tests.cluster.test_remote_queues import StageEngine
from tests.core.stage import START_US, Stage

QUEUE, CREDIT = "/queue/q", 10


class Owner(Stage):
    """A broker with 1,000 messages, and consumers of them at another one with credit for 10."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[f.Frame] = []
        engine = StageEngine(self)
        self.consumers = RemoteConsumers(
            engine,  # type: ignore[arg-type]  # what they use of it
            "b2",
            self.frames.append,
            self._fail,
            lambda: (self.now_us - START_US) / 1e6 + 1,
        )
        producer = self.client("producer")
        for number in range(1_000):
            producer.publish(QUEUE, b"%d" % number)
        self.consumers.subscribe(f.Subscribe(1, QUEUE, 1, CREDIT))

    def _fail(self, error: Exception) -> None:
        raise error

    def look(self, link_s: float = 0) -> None:
        """Look as the cluster does."""
        self.pass_time(51)
        self.consumers.read_ahead(link_s)

    def acknowledge(self, count: int = CREDIT) -> None:
        """Acknowledge the oldest of what was sent."""
        self.consumers.settled(f.Settled(acked=list(self.consumers.peer.unsettled)[:count]))

    def give_back(self, count: int) -> None:
        """Return the last of what was sent, in order."""
        self.consumers.settled(f.Settled(returned=list(self.consumers.peer.unsettled)[-count:]))

    def read_ahead(self) -> None:
        """Have the consumers be quick."""
        self.look()
        self.acknowledge()
        self.acknowledge()
        self.look()

    @property
    def sent(self) -> list[bytes]:
        return [one.body for frame in self.frames if isinstance(frame, f.Deliver) for one in frame.messages]


@pytest.fixture
def owner() -> Owner:
    return Owner()


def test_those_that_use_up_their_credit_quickly_are_sent_as_much_again_in_order(owner: Owner) -> None:
    assert owner.consumers.unsettled == CREDIT
    owner.read_ahead()
    assert owner.consumers.unsettled == 2 * CREDIT
    owner.acknowledge()
    assert owner.consumers.unsettled == 2 * CREDIT
    assert owner.sent == [b"%d" % number for number in range(5 * CREDIT)]


def test_a_link_that_takes_long_does_not_make_them_slow(owner: Owner) -> None:
    owner.look(0.1)
    owner.acknowledge()
    for _ in range(2):
        owner.look(0.1)
        assert owner.consumers.unsettled == CREDIT
    owner.acknowledge()
    for _ in range(5):
        for _ in range(3):
            owner.look(0.1)
            assert owner.consumers.unsettled == 2 * CREDIT
        owner.acknowledge(2 * CREDIT)


def test_those_that_acknowledge_more_slowly_are_sent_their_credit(owner: Owner) -> None:
    owner.look()
    for _ in range(3):
        owner.acknowledge(CREDIT - 1)
        owner.look()
    assert owner.consumers.unsettled == CREDIT


def test_those_that_get_slow_are_sent_their_credit_again(owner: Owner) -> None:
    owner.read_ahead()
    owner.acknowledge()
    owner.acknowledge(5)
    owner.look()
    owner.look()
    assert owner.consumers.unsettled == 2 * CREDIT, "they are still quick enough for what is under way"
    owner.acknowledge(5)
    owner.look()
    owner.look()
    owner.acknowledge()
    assert owner.consumers.unsettled == CREDIT


def test_nothing_is_kept_from_consumers_elsewhere(owner: Owner) -> None:
    owner.read_ahead()
    other = owner.client("other")
    other.subscribe(QUEUE, credit=1)
    owner.look()
    owner.acknowledge()
    assert owner.consumers.unsettled == CREDIT
    for _ in range(3):
        other.settle(*other.tags)
        owner.acknowledge()
        owner.look()
    assert owner.consumers.unsettled == CREDIT


def test_nothing_is_read_ahead_where_consumers_choose_messages(owner: Owner) -> None:
    owner.consumers.unsubscribe(1)
    owner.consumers.subscribe(f.Subscribe(2, "/queue/r", 1, CREDIT, "colour = 'red'"))
    for number in range(3 * CREDIT):
        owner.client("producer").publish("/queue/r", b"%d" % number, block=b"colour:red\n")
    owner.acknowledge(CREDIT)
    owner.read_ahead()
    owner.acknowledge(2 * CREDIT)
    owner.look()
    assert owner.consumers.peer.subscriptions["2"].credit == CREDIT


def test_what_came_back_is_sent_again_in_order_and_nothing_is_read_ahead_for_a_second(owner: Owner) -> None:
    owner.read_ahead()
    owner.give_back(CREDIT)
    assert owner.consumers.unsettled == CREDIT
    del owner.frames[:]
    owner.acknowledge()
    assert owner.sent == [b"%d" % number for number in range(3 * CREDIT, 4 * CREDIT)]
    assert all(one.attempts for frame in owner.frames for one in frame.messages)  # type: ignore[union-attr]
    for _ in range(19):
        owner.acknowledge()
        owner.acknowledge()
        owner.look()
        assert owner.consumers.unsettled == CREDIT
    owner.acknowledge()
    owner.acknowledge()
    owner.look()
    assert owner.consumers.unsettled == 2 * CREDIT


def test_each_time_that_messages_come_back_the_consumers_are_left_alone_for_longer(owner: Owner) -> None:
    pauses = []
    for _ in range(3):
        owner.consumers.set_credit(f.Credit(1, 1, 1))
        owner.acknowledge(2 * CREDIT)
        looks = 0
        while owner.consumers.unsettled < 2:
            owner.look()
            owner.acknowledge(1)
            owner.acknowledge(1)
            looks += 1
        owner.give_back(1)
        pauses.append(looks * 50)
    assert pauses[1] == pytest.approx(1_000, abs=100)
    assert pauses[2] == pytest.approx(2_000, abs=100)


def test_new_credit_counts_at_once(owner: Owner) -> None:
    owner.read_ahead()
    owner.consumers.set_credit(f.Credit(1, 1, 3))
    owner.acknowledge(2 * CREDIT)
    assert owner.consumers.unsettled == 3


def test_subscribers_of_a_topic_are_sent_nothing_ahead_as_they_acknowledge_nothing(owner: Owner) -> None:
    owner.consumers.subscribe(f.Subscribe(2, "/topic/t", 1, CREDIT))
    producer = owner.client("producer")
    for _ in range(3):
        for number in range(20):
            producer.publish("/topic/t", b"%d" % number)
        owner.look()
    assert owner.consumers.peer.subscriptions["2"].credit == CREDIT
