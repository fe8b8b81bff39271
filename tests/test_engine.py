"""The engine: what waits for the commit, what is grouped, and how it ends."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from broker_app.base import deadline
from broker_app.base.deadline import TURN_S
from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope, Message
from broker_app.core.model import Peer, Subscription
from broker_app.core.outcome import Event
from broker_app.core.publishing.paced_producers import SHORT
from broker_app.engine import Backpressure, Engine
from broker_app.engine.engine import TURNS
from broker_app.engine.read_budget import ReadBudget
from broker_app.journal.port import Done, Found
from tests.support.listener import Listener
from tests.support.loop_turns import Turns, loop_turns
from tests.support.memory_journal import MemoryJournal, MemoryStorage
from tests.support.patience import patient

QUEUE = Envelope("/queue/a")
TRANSIENT = Envelope("/queue/a", persistent=False)


def engine_over(journal: MemoryJournal, **settings: Any) -> Engine:
    engine = Engine(Broker(limits=settings.pop("limits", None)), journal, **settings)
    engine.recover()
    return engine


async def test_receipts_and_deliveries_leave_after_the_commit_and_not_before() -> None:
    journal = MemoryJournal(hold=True)
    engine = engine_over(journal)
    client = Listener()
    engine.submit(c.Subscribe(client.peer, "1", "/queue/a", c.INDIVIDUAL))
    engine.submit(c.Publish(client.peer, [(QUEUE, b"one", b"r")]))
    await turns()
    assert (client.receipts, client.bodies) == ([], [])
    journal.release()
    await engine.wait_idle()
    assert (client.receipts, client.bodies) == ([b"r"], [b"one"])


async def test_commands_that_arrive_during_a_commit_become_one_batch() -> None:
    journal = MemoryJournal(hold=True)
    engine = engine_over(journal)
    client = Listener()
    for number in range(10):
        engine.submit(c.Publish(client.peer, [(QUEUE, b"%d" % number, number + 1)]))
        await turns()
    assert journal.statistics()["commits"] == 0
    journal.release()
    await turns()
    assert client.receipts == [1]
    journal.release()
    await engine.wait_idle()
    assert client.receipts == list(range(1, 11))
    assert journal.statistics()["commits"] == 2


async def test_a_batch_without_records_is_let_out_at_once() -> None:
    engine = engine_over(MemoryJournal(hold=True))
    client = Listener()
    engine.submit(c.Subscribe(client.peer, "1", "/queue/a"))
    engine.submit(c.Publish(client.peer, [(TRANSIENT, b"quick", b"r")]))
    await turns()
    assert (client.receipts, client.bodies) == ([b"r"], [b"quick"])


async def test_plain_acknowledgements_share_a_commit_and_are_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker_app.engine.engine.HOLD_S", 3600)  # a slow machine would come to its end
    journal = MemoryJournal()
    engine = engine_over(journal)
    client = Listener()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"%d" % number, None) for number in range(10)]))
    engine.submit(c.Subscribe(client.peer, "1", "/queue/a", c.INDIVIDUAL))
    await engine.wait_idle()
    before = journal.statistics()["commits"]
    for tag in client.tags[:9]:
        engine.submit(c.Settle(client.peer, [tag]))
        await turns()
    assert journal.statistics()["commits"] == before
    engine.submit(c.Settle(client.peer, [client.tags[9]], receipt=b"r"))
    await turns()
    assert client.receipts == [b"r"]
    assert journal.statistics()["commits"] == before + 1
    assert journal.storage.contents == {}


async def test_plain_acknowledgements_alone_are_committed_soon() -> None:
    journal = MemoryJournal()
    engine = engine_over(journal)
    client = Listener()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"one", None)]))
    engine.submit(c.Subscribe(client.peer, "1", "/queue/a", c.INDIVIDUAL))
    await engine.wait_idle()
    engine.submit(c.Settle(client.peer, client.tags))
    async with asyncio.timeout(patient(5)):
        while journal.storage.contents:
            await asyncio.sleep(0.001)


async def test_it_is_not_idle_while_messages_over_rest_are_held() -> None:
    engine = engine_over(MemoryJournal())
    consumer, rest = Listener(), Listener()
    rest.peer.ordered = False
    engine.submit(c.Publish(rest.peer, [(QUEUE, b"", None)] * (SHORT + 10)))
    engine.submit(c.Subscribe(consumer.peer, "1", "/queue/a", c.INDIVIDUAL, credit=1))
    await engine.wait_idle()
    engine.submit(c.Publish(rest.peer, [(QUEUE, b"", b"paced")]))
    engine.submit(c.Publish(rest.peer, [(QUEUE, b"", b"held")]))
    await engine.wait_idle()
    assert rest.receipts == [b"paced", b"held"]


async def test_a_failed_commit_ends_the_engine_and_lets_nothing_out() -> None:
    journal = MemoryJournal()
    failures: list[BaseException] = []
    engine = engine_over(journal, failed=failures.append)
    client = Listener()
    journal.failure = OSError(28, "No space left on device")
    engine.submit(c.Publish(client.peer, [(QUEUE, b"lost", b"r")]))
    await turns()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"later", b"s")]))
    await turns()
    assert client.receipts == []
    assert len(failures) == 1
    assert engine.ended is failures[0]


class LeasedJournal(MemoryJournal):
    """A journal with a lease that ends when a test wants it."""

    held = True

    @property
    def is_held(self) -> bool:
        return self.held


async def test_a_lease_that_ends_during_a_commit_ends_the_engine_and_lets_nothing_out() -> None:
    journal = LeasedJournal(hold=True)
    failures: list[BaseException] = []
    engine = engine_over(journal, failed=failures.append)
    client = Listener()
    engine.submit(c.Subscribe(client.peer, "1", "/queue/a", c.INDIVIDUAL))
    engine.submit(c.Publish(client.peer, [(QUEUE, b"one", b"r")]))
    await turns()
    journal.held = False
    journal.release()  # it is stored, and another broker may have delivered it since
    await turns()
    assert (client.receipts, client.bodies) == ([], [])
    (failure,) = failures
    assert str(failure) == (
        "the lease of the journal expired before it could be renewed: "
        "its store did not answer in time, or this process was paused or too busy"
    )


async def test_a_restarted_engine_has_what_was_promised_in_order() -> None:
    storage = MemoryStorage()
    journal = MemoryJournal(storage)
    engine = engine_over(journal)
    client = Listener()
    entries = [(QUEUE, b"%d" % number, None) for number in range(100)]
    engine.submit(c.Publish(client.peer, entries))
    engine.submit(c.Subscribe(client.peer, "1", "/queue/a", c.INDIVIDUAL, credit=10))
    await engine.wait_idle()
    engine.submit(c.Settle(client.peer, client.tags[:5]))
    await engine.wait_idle()
    journal.close()

    again = engine_over(MemoryJournal(storage))
    other = Listener()
    again.submit(c.Subscribe(other.peer, "1", "/queue/a"))
    await again.wait_idle()
    assert other.bodies == [b"%d" % number for number in range(5, 100)]


async def test_a_backlog_beyond_the_window_is_read_back_in_order() -> None:
    engine = engine_over(MemoryJournal(), limits=Limits(window=10, fetch_messages=7))
    client = Listener()
    for start in range(0, 500, 50):
        engine.submit(c.Publish(client.peer, [(QUEUE, b"%d" % (start + n), None) for n in range(50)]))
        await engine.wait_idle()
    assert engine.broker.store.memory_bytes < 20 * 400
    engine.submit(c.Subscribe(client.peer, "1", "/queue/a"))
    await engine.wait_idle()
    assert client.bodies == [b"%d" % number for number in range(500)]
    assert engine.broker.store.memory_bytes == 0


class CountedReads(MemoryJournal):
    """A journal that counts what is read."""

    reads = 0

    def read(self, positions: Sequence[int], found: Found) -> None:
        self.reads += 1
        super().read(positions, found)


async def test_during_a_commit_no_more_is_read_than_the_budget_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker_app.engine.engine.ReadBudget", partial(ReadBudget, 1))
    journal = CountedReads(hold=True)
    engine = engine_over(journal, limits=Limits(memory_bytes=1))
    client = Listener()
    for name in "abc":
        engine.submit(c.Publish(client.peer, [(Envelope(f"/queue/{name}"), b"large", None)]))
        engine.submit(c.Subscribe(client.peer, name, f"/queue/{name}", c.INDIVIDUAL))
    await turns()
    journal.release()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"commits", None)]))
    await turns()
    assert (journal.reads, client.bodies) == (1, [])
    journal.hold = False
    journal.release()
    await engine.wait_idle()
    assert journal.reads == len(client.bodies) == 4


async def test_the_inbox_reports_when_it_is_full_and_when_it_has_space_again() -> None:
    class Source:
        relieved_times = 0

        def writable(self) -> None:
            self.relieved_times += 1

    engine = engine_over(MemoryJournal(), inbox_bytes=1000)
    client, source = Listener(), Source()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"x" * 2000, None)]), 2000)
    assert engine.full
    engine.notify_when_writable(source)
    await engine.wait_idle()
    assert not engine.full
    assert source.relieved_times == 1


async def test_leases_end_by_the_clock_without_any_command() -> None:
    now = 1_000_000_000
    engine = engine_over(MemoryJournal(), clock=lambda: now)
    client = Listener()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"one", None)]))
    engine.submit(c.Subscribe(client.peer, "1", "/queue/a", c.INDIVIDUAL, lease_ms=50))
    await engine.wait_idle()
    assert client.bodies == [b"one"]
    now += 60_000
    engine.submit(c.Answer(client.peer, b"tick"))
    await engine.wait_idle()
    assert client.bodies == [b"one", b"one"]


async def test_callers_of_a_failed_engine_do_not_wait() -> None:
    journal = MemoryJournal(hold=True)
    engine = engine_over(journal)
    client = Listener()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"one", b"r")]))
    await turns()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"two", b"s")]))
    waiting = asyncio.create_task(engine.wait_idle())
    stopping = asyncio.create_task(engine.stop())
    await turns()
    journal.failure = OSError(28, "No space left on device")
    journal.release()
    async with asyncio.timeout(patient(10)):
        await asyncio.gather(waiting, stopping)
    assert client.receipts == [b"r"]


async def test_an_engine_that_is_stopped_during_a_snapshot_waits_for_its_end() -> None:
    journal = SlowSnapshots()
    engine = engine_over(journal, snapshot_bytes=1)
    client = Listener()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"one", b"r")]))
    await turns()
    assert len(journal.waiting) == 1
    stopping = asyncio.create_task(engine.stop())
    await turns()
    assert len(journal.waiting) == 1
    journal.finish()
    await turns()
    journal.finish()
    async with asyncio.timeout(patient(10)):
        await stopping
    assert client.receipts == [b"r"]
    assert str(engine.ended) == "the engine was stopped"


async def test_a_snapshot_is_made_when_the_journal_wants_one() -> None:
    journal = MemoryJournal()
    engine = engine_over(journal)
    client = Listener()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"one", b"r")]))
    await engine.wait_idle()
    assert journal.storage.snapshot is None
    journal.wants_snapshot = True
    engine.submit(c.Answer(client.peer, b"s"))
    await turns()
    assert journal.storage.snapshot is not None
    assert journal.storage.snapshot_position == 2


async def test_a_snapshot_is_written_only_when_all_it_contains_is_durable() -> None:
    journal = MemoryJournal(hold=True)
    engine = engine_over(journal, snapshot_bytes=1)
    client = Listener()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"one", b"r")]))
    await turns()
    engine.submit(c.Publish(client.peer, [(QUEUE, b"two", b"s")]))
    journal.release()  # the next batch is decided before the snapshot is complete
    engine._turn()
    await turns()
    assert journal.storage.snapshot is None
    journal.release()
    await engine.wait_idle()
    assert journal.storage.snapshot is not None
    assert journal.storage.snapshot_position == 2
    again = engine_over(MemoryJournal(_reopened(journal)))
    assert again.broker.destinations.queues["/queue/a"].depth == 2


class Broken(Listener):
    """A client at which everything fails that is in `broken`."""

    def __init__(self, *broken: str) -> None:
        super().__init__()
        self.peer.connection = "7"
        self.broken = broken

    def _fail(self, what: str) -> None:
        if what in self.broken:
            raise LookupError(f"a fault in {what}")

    def flush(self, peer: Peer) -> None:
        self._fail("flush")
        super().flush(peer)

    def render(self, subscription: Subscription, messages: list[Message]) -> list[bytes]:
        self._fail("render")
        return super().render(subscription, messages)

    def send(self, part: bytes) -> None:
        self._fail("send")
        super().send(part)

    def close(self, refusal: Refused) -> None:
        self._fail("close")
        super().close(refusal)


def codes(client: Listener) -> list[str]:
    return [refusal.code for _, refusal in client.refusals]


async def test_a_client_that_cannot_be_answered_is_closed_without_affecting_others() -> None:
    engine = engine_over(MemoryJournal())
    broken, well = Broken("flush"), Listener()
    before = internal_errors.of("sending to a client")
    for client in (broken, well):
        engine.submit(c.Publish(client.peer, [(QUEUE, b"one", b"r")]))
    await engine.wait_idle()
    assert (engine.ended, codes(broken), well.receipts) == (None, ["internal"], [b"r"])
    assert internal_errors.of("sending to a client") == before + 1


@pytest.mark.parametrize("what", ["render", "send"])
async def test_a_topics_message_that_cannot_be_sent_to_a_client_closes_that_one_alone(what: str) -> None:
    engine = engine_over(MemoryJournal())
    broken, well, sender = Broken(what), Listener(), Listener()
    engine.submit(c.Subscribe(broken.peer, "1", "/topic/a", render_key="1.0"))
    engine.submit(c.Subscribe(well.peer, "1", "/topic/a", render_key="1.2"))
    engine.submit(c.Publish(sender.peer, [(Envelope("/topic/a"), b"one", b"r")]))
    await engine.wait_idle()
    assert (engine.ended, codes(broken), well.bodies, sender.receipts) == (
        None,
        ["internal"],
        [b"one"],
        [b"r"],
    )


class InParts(Listener):
    """A client of a topic whose messages are sent in two parts; `at` are the turns in which it got them."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.at: list[int] = []
        self._turns = turns

    def render(self, subscription: Subscription, messages: list[Message]) -> list[bytes]:
        return [b"head", *super().render(subscription, messages)]

    def send(self, part: bytes) -> None:
        super().send(part)
        self.at.append(self._turns.number)


async def test_others_are_served_between_clients_of_a_topic_that_get_a_large_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", 0.0)  # a turn ends as soon as it may
    engine = engine_over(MemoryJournal())
    async with loop_turns() as turns:
        clients = [InParts(turns) for _ in range(10)]
        for client in clients:
            engine.submit(c.Subscribe(client.peer, "1", "/topic/a", render_key="1.2"))
        engine.submit(c.Publish(clients[0].peer, [(Envelope("/topic/a"), b"large", b"r")]))
        await engine.wait_idle()
    assert all(client.bodies == [b"head", b"large"] for client in clients)
    assert len({client.at[0] for client in clients}) == len(clients)


async def test_a_client_that_cannot_even_be_closed_leaves_the_broker() -> None:
    engine = engine_over(MemoryJournal())
    broken = Broken("flush", "close")
    engine.submit(c.Subscribe(broken.peer, "1", "/queue/a", c.INDIVIDUAL, receipt=b"r"))
    await engine.wait_idle()
    assert engine.ended is None
    assert not engine.broker.destinations.queues["/queue/a"].consumers


async def test_a_command_that_fails_before_it_changed_anything_closes_its_client_alone() -> None:
    engine = engine_over(MemoryJournal())
    well, state = Listener(), take_snapshot(engine.broker)
    no_address: Any = None  # stands for an error of ours: nothing that a client sends is of this type
    makers: list[Callable[[Peer], c.Command]] = [
        lambda peer: c.Subscribe(peer, "1", no_address, c.INDIVIDUAL),
        lambda peer: c.Subscribe(peer, "1", "/queue/a", c.INDIVIDUAL, selector=5),  # type: ignore[arg-type]
        lambda peer: c.Publish(peer, [(Envelope(no_address), b"", b"r")]),
        lambda peer: c.Settle(peer, [[1]]),  # type: ignore[list-item]
        lambda peer: c.CreateQueue(peer, no_address),
    ]
    for make in makers:
        broken, before = Broken(), internal_errors.of("a command")
        engine.submit(make(broken.peer))
        engine.submit(c.Publish(well.peer, [(Envelope("/topic/a"), b"one", b"r")]))
        await engine.wait_idle()
        assert (engine.ended, codes(broken), well.take_receipts()) == (None, ["internal"], [b"r"])
        assert internal_errors.of("a command") == before + 1
    assert take_snapshot(engine.broker) == state


async def test_within_the_node_a_command_that_fails_is_answered_and_nothing_is_closed() -> None:
    engine = engine_over(MemoryJournal())
    inner = Listener()
    engine.submit(c.CreateQueue(inner.peer, None, receipt=b"r"))  # type: ignore[arg-type]
    await engine.wait_idle()
    ((receipt, refusal),) = inner.refusals
    assert (receipt, refusal.code) == (b"r", "internal")


async def test_a_failing_listener_affects_neither_the_engine_nor_other_listeners() -> None:
    engine = engine_over(MemoryJournal())
    heard: list[Event] = []

    def deaf(facts: list[Event]) -> None:
        raise LookupError("a fault in who hears")

    engine.listeners.add(deaf)
    engine.listeners.add(heard.extend)
    before = internal_errors.of("the engine's listeners")
    client = Listener()
    engine.submit(c.Publish(client.peer, [(Envelope("/queue/storeAndForward:b/queue/a"), b"1", b"r")]))
    await engine.wait_idle()
    assert (engine.ended, len(heard), client.receipts) == (None, 1, [b"r"])
    assert internal_errors.of("the engine's listeners") == before + 1


def _reopened(journal: MemoryJournal) -> MemoryStorage:
    journal.close()
    return journal.storage


async def test_a_stop_logs_how_many_messages_it_loses_of_each_queue(caplog: pytest.LogCaptureFixture) -> None:
    engine = engine_over(MemoryJournal())
    client = Listener()
    entries = [(TRANSIENT, b"1", None), (TRANSIENT, b"2", None), (QUEUE, b"3", None)]
    engine.submit(c.Publish(client.peer, entries))
    engine.submit(c.Publish(client.peer, [(Envelope("/queue/b"), b"4", None)]))
    await engine.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "2 messages of /queue/a are not persistent, and are lost by this stop"
    ]


class SlowSnapshots(MemoryJournal):
    """Snapshots take until `finish` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], None]] = []

    def snapshot(self, position: int, parts: Sequence[bytes], done: Done) -> None:
        assert not self.waiting, "a snapshot is under way already"
        self.waiting.append(partial(super().snapshot, position, parts, done))

    def finish(self) -> None:
        self.waiting.pop()()


def each_look(seconds: float) -> Callable[[], float]:
    """A clock that is so much later at each look."""
    looks = itertools.count()
    return lambda: next(looks) * seconds


async def loop_turns_until_idle(engine: Engine) -> int:
    """How often other tasks had their turn until everything was carried out."""
    idle, count = asyncio.ensure_future(engine.wait_idle()), 0
    while not idle.done():
        await asyncio.sleep(0)
        count += 1
    return count


async def test_a_long_run_is_decided_in_several_turns_and_committed_in_one_batch() -> None:
    journal = MemoryJournal()
    engine = engine_over(journal, steady=each_look(0.4 * TURN_S))
    client = Listener()
    for number in range(30):
        engine.submit(c.Publish(client.peer, [(QUEUE, b"%d" % number, number + 1)]))
    assert await loop_turns_until_idle(engine) > 3
    assert client.receipts == list(range(1, 31))
    assert journal.statistics()["commits"] == 1


async def test_a_run_without_end_is_committed_in_parts_and_others_are_answered_between() -> None:
    journal = MemoryJournal()
    engine = engine_over(journal, steady=each_look(0.4 * TURN_S))
    flood, modest = Listener(), Listener()
    for number in range(120):
        engine.submit(c.Publish(flood.peer, [(QUEUE, b"%d" % number, number + 1)]))
    while not flood.receipts:
        await turns(1)
    assert engine.must_wait(flood.peer)
    assert not engine.must_wait(modest.peer)
    assert len(flood.receipts) < 120
    source = asyncio.ensure_future(Backpressure(engine, flood.peer).wait())
    engine.submit(c.Publish(modest.peer, [(QUEUE, b"mine", b"r")]))
    await engine.wait_idle()
    assert flood.receipts == list(range(1, 121))
    assert modest.receipts == [b"r"]
    assert journal.statistics()["commits"] > 2
    await source


ROWS = [(QUEUE, b"%d" % number) for number in range(600)]


def in_a_transaction(peer: Peer) -> list[c.Command]:
    sent = [c.Enlist(peer, "t", c.Publish(peer, [(*row, None)])) for row in ROWS]
    return [c.Begin(peer, "t"), *sent, c.Commit(peer, "t", b"all")]


def in_a_batch(peer: Peer) -> list[c.Command]:
    return [c.PublishBulk(peer, "p", "", 0, ROWS, {"/queue/a": c.Need(600, 1_800, 3)}, receipt=b"all")]


@pytest.mark.parametrize("publishing", [in_a_transaction, in_a_batch])
async def test_what_is_published_together_takes_several_turns_and_one_batch_and_nothing_comes_between(
    publishing: Callable[[Peer], list[c.Command]],
) -> None:
    journal = MemoryJournal()
    engine = engine_over(journal, steady=each_look(0.4 * TURN_S))
    consumer, client, other = Listener(), Listener(), Listener()
    engine.submit(c.Subscribe(consumer.peer, "1", "/queue/a", c.AUTO, 1_000))
    *before, last = publishing(client.peer)
    for command in before:
        engine.submit(command)
    await engine.wait_idle()
    commits = journal.statistics()["commits"]
    engine.submit(last)
    await turns(1)
    engine.submit(c.Publish(other.peer, [(QUEUE, b"other", b"r")]))
    assert await loop_turns_until_idle(engine) > 2 * TURNS
    assert (client.receipts, other.receipts) == ([b"all"], [b"r"])
    assert consumer.bodies == [*(body for _, body in ROWS), b"other"]
    assert journal.statistics()["commits"] == commits + 2  # and what waited meanwhile


async def test_what_many_clients_receive_is_sent_in_several_turns_before_the_next_batch_is() -> None:
    engine = engine_over(MemoryJournal(), steady=each_look(0.4 * TURN_S))
    listeners = [Listener() for _ in range(60)]
    for number, listener in enumerate(listeners):
        engine.submit(c.Subscribe(listener.peer, "1", "/topic/t", render_key="same" if number % 2 else None))
    await engine.wait_idle()
    for body in (b"first", b"second"):
        engine.submit(c.Publish(listeners[0].peer, [(Envelope("/topic/t"), body, None)]))
    assert await loop_turns_until_idle(engine) > 5
    got = [b"".join(listener.bodies) for listener in listeners]
    assert all(0 <= bodies.find(b"first") < bodies.find(b"second") for bodies in got)


async def test_many_refusals_of_one_client_are_sent_in_several_turns_and_before_what_follows() -> None:
    client = SlowToSend()
    engine = engine_over(MemoryJournal(), steady=lambda: client.spent_s)
    async with loop_turns() as turns:
        client.turns = turns
        for number in range(600):
            engine.submit(c.Commit(client.peer, "nothing", number))
        engine.submit(c.Publish(client.peer, [(QUEUE, b"last", b"r")]))
        await engine.wait_idle()
    assert [receipt for receipt, _ in client.refusals] == list(range(600))
    assert client.receipts == [b"r"]
    assert max(client.refused.values()) <= 100
    assert client.received_in == max(client.refused)


class SlowToSend(Listener):
    """A client each of whose mails takes half a turn; `refused` counts refusals by the turn of the loop."""

    turns = Turns()

    def __init__(self) -> None:
        super().__init__()
        self.spent_s = 0.0
        self.refused: Counter[int] = Counter()
        self.received_in = 0

    def flush(self, peer: Peer) -> None:
        self.spent_s += 0.6 * TURN_S
        self.refused[self.turns.number] += len(peer.refusals)
        if peer.receipts:
            self.received_in = self.turns.number
        super().flush(peer)


async def turns(count: int = 5) -> None:
    """Let the loop go round."""

    for _ in range(count):
        await asyncio.sleep(0)
