from array import array

from hypothesis import given
from hypothesis import strategies as st

from broker_app.core.message import Envelope, Message
from broker_app.core.model import Queue
from broker_app.core.storage.lane import Lane, Positions


def numbers(positions: Positions) -> list[int]:
    return [number for chunk in positions.chunks() for number in chunk]


@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "extend", "take"]), st.integers(0, 3 * Positions.CHUNK)),
        max_size=12,
    ),
    st.integers(0, 10 * Positions.CHUNK),
)
def test_positions_come_out_in_the_order_in_which_they_went_in(
    steps: list[tuple[str, int]], after: int
) -> None:
    positions, model, following = Positions(), list[int](), 1
    for step, count in steps:
        if step == "take":
            assert list(positions.take(count)) == model[:count]
            del model[:count]
            continue
        added = range(following, following + count)
        following += count + 1
        model += added
        if step == "extend":
            positions.extend(array("Q", added))
        else:
            for number in added:
                positions.append(number)
    assert len(positions) == len(model)
    assert numbers(positions) == model
    assert list(positions.after(after)) == [number for number in model if number > after]


def message(order: int, *, priority: int = 4, time_ms: int = 0) -> Message:
    made = Message(Envelope("/queue/a", priority=priority), b"", order, time_ms, True)
    made.sequence = order
    return made


def test_lanes_stand_highest_priority_first() -> None:
    queue = Queue("/queue/a", durable=True)
    for priority in (4, 9, 0, 5, 4, 9):
        assert queue.lane(priority).priority == priority
    assert [lane.priority for lane in queue.lanes] == [9, 5, 4, 0]


def test_the_first_lane_is_the_highest_with_anything_in_it() -> None:
    queue = Queue("/queue/a", durable=True)
    assert queue.first_lane() is None
    for priority in (9, 4, 0):
        queue.lane(priority)
    assert queue.first_lane() is None
    queue.lane(0).paged.append(1)
    assert queue.first_lane() is queue.lane(0)
    queue.lane(4).loading.append(2)
    assert queue.first_lane() is queue.lane(4)
    queue.lane(9).ready.append(message(3, priority=9))
    assert queue.first_lane() is queue.lane(9)


def test_the_depth_counts_all_that_waits_wherever_it_is() -> None:
    queue = Queue("/queue/a", durable=True)
    lane = queue.lane(4)
    lane.returned.append((1, message(1)))
    lane.ready.append(message(2))
    lane.loading.append(3)
    lane.paged.append(4)
    queue.lane(9).paged.append(5)
    assert queue.depth == 5


def test_a_message_that_came_back_stands_in_front_in_its_order() -> None:
    lane = Lane(4)
    lane.ready.append(message(9))
    lane.returned += [(order, message(order)) for order in (1, 8, 3)]
    assert [each.sequence for each in lane.in_memory()] == [1, 3, 8, 9]


def test_the_oldest_is_the_head_that_arrived_first() -> None:
    queue = Queue("/queue/a", durable=True)
    assert queue.oldest_in_memory() is None
    queue.lane(9).ready.append(message(2, time_ms=20))
    queue.lane(4)
    queue.lane(0).ready.append(old := message(1, time_ms=10))
    assert queue.oldest_in_memory() is old
