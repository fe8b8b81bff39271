"""Reads of a shared journal find their records, whenever the upkeep replaces or deletes segments."""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from broker_app.journal.shared import frame_reader, upkeep
from broker_app.journal.shared import shared_journal as shared
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder, Store, Unreachable
from broker_app.journal.stores.directory.store import FileStore

from .stage import Life, published

Step = Callable[[], object]
#: `make soak` asks for more
ORDERS = int(os.environ.get("STORMS", "1600")) // 40


class Steps:
    """The threads of a journal and its loop, of which one goes one step further at a time, by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._loop: deque[Step] = deque()
        self._queues = [self._loop]
        self._left = 20_000

    def worker(self, name: str, _: object) -> Stepped:
        """Stand in for `Worker`."""
        jobs: deque[Step] = deque()
        self._queues.append(jobs)
        return Stepped(jobs, self._loop)

    def step(self) -> bool:
        """Let one of them do what it has to do next; False when nobody has anything to do."""
        self._left -= 1
        assert self._left, "they go on for ever"
        busy = [queue for queue in self._queues if queue]
        if busy:
            self.chance.choice(busy).popleft()()
        return bool(busy)

    def wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self.step(), "nobody goes on, and what is waited for never comes"


class Stepped:
    """A worker whose jobs, and their reports to the loop, are steps."""

    def __init__(self, jobs: deque[Step], loop: deque[Step]) -> None:
        self._jobs, self._loop = jobs, loop

    def submit(self, job: Callable[[], Any], report: Callable[[Any, Exception | None], None]) -> None:
        self._jobs.append(partial(self._run, job, report))

    def close(self) -> None:
        """Nothing runs by itself."""

    def _run(self, job: Callable[[], Any], report: Callable[[Any, Exception | None], None]) -> None:
        try:
            outcome: tuple[Any, Exception | None] = job(), None
        except Exception as error:
            outcome = None, error
        self._loop.append(partial(report, *outcome))


class Flaky:
    """A store whose answers get lost now and then, when what was asked for is done."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store, self._chance = store, chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def carry(self, *replaced: Any) -> None:
        self._store.carry(*replaced)
        if self._chance.random() < 0.3:
            raise Unreachable("the answer was lost")


@pytest.mark.parametrize("seed", range(ORDERS))
def test_what_waits_is_read_in_whatever_order_threads_and_loop_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    steps = Steps(seed * 1_000 + random.randrange(1_000))
    chance = steps.chance
    for module in (frame_reader, shared, upkeep):
        monkeypatch.setattr(module, "Worker", steps.worker)
    monkeypatch.setattr(upkeep, "COPY_INTERVAL_S", 0.0)
    journal = SharedJournal(
        cast(Store, Flaky(FileStore(tmp_path, "j"), chance)),
        Holder("one:8000", "stomp://one:61613"),
        segment_bytes=2048,
        cache_bytes=1,
        call_soon_threadsafe=lambda report, *arguments: report(*arguments),
    )
    life = Life(journal, steps.wait)
    life.restore()
    waiting: dict[int, bytes] = {}
    asked = []
    for number in count():
        if number >= 60 and journal.statistics()["segments_copied"]:
            break
        bodies = [b"%d:%d" % (number, one) * 20 for one in range(chance.randint(1, 6))]
        waiting |= zip(life.publish(*bodies), map(published, bodies), strict=True)
        gone = [position for position in waiting if chance.random() < 0.5]
        kept = [position for position in waiting if position not in gone]
        for _ in range(chance.randint(0, 3)):
            if kept:
                some = sorted(chance.sample(kept, chance.randint(1, min(4, len(kept)))))
                asked.append((life.ask(some), [waiting[position] for position in some]))
        # What is asked for is settled when it was answered, as the broker does it.
        steps.wait(lambda: all(answer.is_there() for answer, _ in asked) or chance.random() < 0.05)
        open_ = {record for answer, records in asked if not answer.is_there() for record in records}
        gone = [position for position in gone if waiting[position] not in open_]
        if gone:
            life.settle(*gone)
            for position in gone:
                del waiting[position]
        if number % 8 == 7:
            life.snapshot()
    steps.wait(lambda: all(answer.is_there() for answer, _ in asked))
    while steps.step():
        """Let all go on to the end."""
    assert [answer.result for answer, _ in asked] == [records for _, records in asked]
    everything = sorted(waiting)
    assert life.read(everything) == [waiting[position] for position in everything]
    life.close()


class Noting:
    """A store that notes the bytes of each query."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.queries: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def load(self, keys: Any) -> Any:
        frames = self._store.load(keys)
        self.queries.append(sum(map(len, frames.values())))
        return frames


def test_what_many_ask_for_at_once_is_fetched_in_queries_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(0)
    for module in (frame_reader, shared, upkeep):
        monkeypatch.setattr(module, "Worker", steps.worker)
    monkeypatch.setattr(frame_reader, "QUERY_BYTES", 3_500)
    store = Noting(FileStore(tmp_path, "j"))
    journal = SharedJournal(
        cast(Store, store),
        Holder("one:8000", "stomp://one:61613"),
        segment_bytes=100_000,
        cache_bytes=1,
        call_soon_threadsafe=lambda report, *arguments: report(*arguments),
    )
    life = Life(journal, steps.wait)
    life.restore()
    bodies = [b"%d" % number * 1_000 for number in range(10)]
    positions = [position for body in bodies for position in life.publish(body)]
    for body in (b"x" * 5_000, b"the last one, which is kept"):
        positions += life.publish(body)
        bodies.append(body)
    store.queries.clear()
    asked = [life.ask([position]) for position in positions]
    steps.wait(lambda: all(answer.is_there() for answer in asked))
    assert [answer.result for answer in asked] == [[published(body)] for body in bodies]
    *others, largest = sorted(store.queries)  # one that is larger is fetched alone
    assert max(others) <= 3_500 and 5_000 < largest < 5_300 and len(others) < 7


def test_who_reads_again_when_an_answer_comes_is_answered_once(tmp_path: Path) -> None:
    journal = SharedJournal(FileStore(tmp_path, "j"), Holder("one:8000", "stomp://one:61613"))
    life = Life(journal)
    life.restore()
    first, second = (life.publish(body)[0] for body in (b"1", b"2"))
    answers: list[object] = []

    def found(records: object, error: Exception | None) -> None:
        answers.append(records or error)
        if len(answers) == 1:
            journal.read([second], found)

    journal.read([first], found)
    assert answers == [[published(b"1")], [published(b"2")]]
