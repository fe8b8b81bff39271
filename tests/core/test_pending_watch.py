"""Watches of what waits in a queue."""

from broker_app.core.inspection.pending_watch import PendingWatch
from tests.core.stage import Stage

A = "/queue/a"


class Watched:
    """A stage with a watch of one queue; `woken` is how often it was notified."""

    def __init__(self, most: int = 100) -> None:
        self.stage = Stage()
        self.client = self.stage.client("anna")
        self.woken = 0
        self.watch = self.watch_of(A, most)

    def watch_of(self, address: str, most: int) -> PendingWatch:
        broker = self.stage.broker
        watch = PendingWatch(broker.store.taps, address, broker.turn.ids, most, self.wake)
        watch.open()
        return watch

    def wake(self) -> None:
        self.woken += 1


def test_a_watch_has_numbers_and_ids_of_what_arrived_since_it_was_read() -> None:
    watched = Watched()
    messages = [watched.client.publish(A, body) for body in (b"1", b"2")]
    ids = watched.stage.broker.turn.ids
    arrivals = watched.watch.take()
    assert arrivals.seqs == [message.position for message in messages]
    assert arrivals.ids == [ids.of(message).decode() for message in messages]
    assert (arrivals.more, watched.woken) == (False, 1)
    watched.client.publish(A, b"3")
    assert (len(watched.watch.take().seqs), watched.woken) == (1, 2)


def test_a_watch_that_is_not_read_keeps_a_bounded_number() -> None:
    watched = Watched(most=2)
    for body in (b"1", b"2", b"3"):
        watched.client.publish(A, body)
    arrivals = watched.watch.take()
    assert (len(arrivals.seqs), arrivals.more, watched.woken) == (2, True, 1)
    assert not watched.watch.take().more
    watched.client.publish(A, b"4")
    assert len(watched.watch.take().seqs) == 1


def test_a_watch_that_is_full_costs_publishers_nothing_until_it_is_read() -> None:
    watched = Watched(most=2)
    taps = watched.stage.broker.store.taps
    for body in (b"1", b"2"):
        watched.client.publish(A, body)
    assert A in taps
    watched.client.publish(A, b"3")
    assert A not in taps
    watched.watch.take()
    assert A in taps
    watched.watch.close()
    watched.watch.close()
    assert A not in taps


def test_a_watch_that_was_closed_is_not_opened_again_by_what_is_still_read_of_it() -> None:
    watched = Watched(most=2)
    for body in (b"1", b"2", b"3"):
        watched.client.publish(A, body)
    watched.watch.close()
    assert watched.watch.take().more
    assert A not in watched.stage.broker.store.taps


def test_a_message_that_comes_back_is_noted_again() -> None:
    watched = Watched()
    message = watched.client.publish(A, b"1")
    watched.client.subscribe(A)
    watched.watch.take()
    watched.client.give_back(1)
    assert watched.watch.take().seqs == [message.position]


def test_a_message_whose_lease_ended_is_noted_again() -> None:
    watched = Watched()
    message = watched.client.publish(A, b"1")
    watched.client.subscribe(A, lease_ms=1_000)
    watched.watch.take()
    watched.client.pause()
    watched.stage.pass_time(1_000)
    assert watched.watch.take().seqs == [message.position]


def test_a_dead_letter_keeps_its_id() -> None:
    watched = Watched()
    watch = watched.watch_of(A + ".dead", 10)
    message = watched.client.publish(A, b"1")
    watched.client.subscribe(A)
    watched.client.reject(1)
    arrivals = watch.take()
    assert arrivals.ids == [watched.stage.broker.turn.ids.of(message).decode()]
    assert arrivals.seqs != [message.position]
