import pytest

from broker_app.core.inspection.browse import READY, UNSETTLED, Item, browse
from tests.core.stage import Client, Stage


@pytest.fixture
def stage() -> Stage:
    """Four bodies of a lane stay in memory, and none is read back."""
    stage = Stage(window=4, fetch_messages=1)
    stage.loading = False
    return stage


def fill(stage: Stage, count: int, **facts: bool) -> list[int]:
    client = stage.client()
    return [client.publish("/queue/a", b"%d" % number, **facts).position for number in range(count)]


def pages(stage: Stage, limit: int, *, backwards: bool = False) -> list[Item]:
    found: list[Item] = []
    after = None
    while items := browse(stage.broker, "/queue/a", after=after, limit=limit, backwards=backwards):
        assert len(items) <= limit
        assert len(found) < 1_000, "pages come to an end"
        found += items
        after = items[-1][:2]
    return found


def everything(stage: Stage) -> list[Item]:
    found = browse(stage.broker, "/queue/a", limit=10_000)
    assert found is not None
    return found


def consumer(stage: Stage, credit: int) -> Client:
    client = stage.client()
    client.subscribe("/queue/a", credit=credit)
    return client


def test_browsing_an_unknown_queue_finds_and_creates_nothing(stage: Stage) -> None:
    assert browse(stage.broker, "/queue/a") is None
    assert stage.queues == {}


def test_messages_are_seen_in_the_order_of_delivery(stage: Stage) -> None:
    positions = fill(stage, 6)
    urgent = stage.client().publish("/queue/a", b"", priority=9).position
    assert [item.position for item in everything(stage)] == [urgent, *positions]
    assert [item.priority for item in everything(stage)] == [9] + [4] * 6


def test_bodies_that_are_not_in_memory_are_left_to_the_journal(stage: Stage) -> None:
    fill(stage, 6)
    assert [item.message is not None for item in everything(stage)] == [True] * 4 + [False] * 2


def test_unsettled_messages_are_seen_in_their_place(stage: Stage) -> None:
    positions = fill(stage, 6)
    client = consumer(stage, 2)
    client.give_back(1)
    client.settle(2)
    seen = [(item.position, item.state, item.attempts) for item in everything(stage)]
    assert seen[:3] == [(positions[0], UNSETTLED, 1), (positions[2], UNSETTLED, 0), (positions[3], READY, 0)]


def test_browsing_changes_nothing(stage: Stage) -> None:
    fill(stage, 6)
    client = consumer(stage, 2)
    before, memory, counters = (
        stage.take_snapshot(),
        stage.broker.store.memory_bytes,
        dict(stage.broker.turn.counters),
    )
    pages(stage, 2)
    assert (stage.take_snapshot(), stage.broker.store.memory_bytes, stage.broker.turn.counters) == (
        before,
        memory,
        counters,
    )
    assert client.take() == [b"0", b"1"]
    stage.loading = True
    client.settle(1)
    client.settle(2)
    assert client.take_attempts() == [(b"2", 0), (b"3", 0)]


def test_after_a_restart_attempts_are_known_without_the_bodies(stage: Stage) -> None:
    fill(stage, 3)
    client = consumer(stage, 1)
    client.give_back(1)
    client.give_back(2)
    stage.restart()
    assert [(item.state, item.attempts, item.message) for item in everything(stage)] == [
        (READY, 3, None),
        (READY, 0, None),
        (READY, 0, None),
    ]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
@pytest.mark.parametrize("transient", [0, 1, 3, 4])
def test_pages_together_show_each_message_once(stage: Stage, limit: int, transient: int) -> None:
    stage.client().publish("/queue/a", b"", priority=9)
    stage.client().publish("/queue/a", b"", priority=0)
    fill(stage, 4 - transient)
    fill(stage, transient, persistent=False)
    fill(stage, 5)
    consumer(stage, 3)
    assert pages(stage, limit) == everything(stage)
    assert pages(stage, limit, backwards=True) == everything(stage)[::-1]
    assert len(everything(stage)) == 11


@pytest.mark.parametrize("persistent", [True, False])
def test_a_page_misses_nothing_though_the_last_one_seen_is_gone(stage: Stage, persistent: bool) -> None:
    fill(stage, 2)
    fill(stage, 2, persistent=persistent)
    fill(stage, 4)
    client = consumer(stage, 3)
    items = everything(stage)
    after = items[2][:2]
    client.settle(3)
    found = browse(stage.broker, "/queue/a", after=after)
    assert found is not None
    rest = [item.position for item in items[3:]]
    repeated = 0 if persistent else 2  # of the other kind: nothing shows any more that they were seen
    assert [item.position for item in found][repeated:] == rest


def test_a_page_goes_on_behind_a_paged_message(stage: Stage) -> None:
    positions = fill(stage, 9)
    found = browse(stage.broker, "/queue/a", after=(4, positions[6]), limit=1)
    assert found is not None
    assert [item.position for item in found] == [positions[7]]
    back = browse(stage.broker, "/queue/a", after=(4, positions[6]), limit=1, backwards=True)
    assert back is not None
    assert [item.position for item in back] == [positions[5]]
    stage.client().purge("/queue/a")
    assert browse(stage.broker, "/queue/a", after=(4, positions[6])) == []
