"""A follower that takes over a log which no longer continues where it has stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.outcome import Outcome
from broker_app.features.mirror.follower import Follower
from broker_app.journal import codec
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.journal.stores.directory.store import FileStore
from tests.core.stage import Stage

LEASE_S = 0.4


def at_once(call: Any, *arguments: Any) -> None:
    call(*arguments)


@pytest.fixture
def journals(tmp_path: Path) -> Iterator[list[SharedJournal]]:
    made: list[SharedJournal] = []
    yield made
    for journal in made:
        journal.close()


class Recording(Stage):
    """A broker whose batches go to a journal, too."""

    def __init__(self, journal: SharedJournal) -> None:
        super().__init__(tag=journal.tag)
        self._journal = journal

    def _commit(self, outcome: Outcome) -> None:
        super()._commit(outcome)
        if outcome.count:
            self._journal.commit(outcome, lambda error: None)


def test_a_standby_that_the_log_was_compacted_beyond_takes_over_and_keeps_its_lease(
    tmp_path: Path, journals: list[SharedJournal]
) -> None:
    main = SharedJournal(FileStore(tmp_path, "B"), Holder("one"), lease_s=60, segment_bytes=1)
    main.open()
    main.set_live_positions([])
    stage = Recording(main)
    client = stage.client()
    client.publish("/queue/a", b"1")
    follower = Follower(FileStore(tmp_path, "B"), stage.new_broker)
    assert follower.catch_up()
    client.publish("/queue/a", b"2")
    client.subscribe("/queue/a")
    client.settle(*client.tags)
    client.unsubscribe()
    main.snapshot(stage.broker.turn.next_position, [stage.take_snapshot()], lambda error: None)
    client.publish("/queue/a", b"3")
    main.close()
    first = next(FileStore(tmp_path, "B").frames(1))
    left = codec.decode_frame(first, 0)
    assert left is not None and left.first_position > follower.position

    taker = SharedJournal(
        FileStore(tmp_path, "B"), Holder("two"), lease_s=LEASE_S, call_soon_threadsafe=at_once
    )
    journals.append(taker)
    broker = follower.take_over(taker, stage.broker.turn.policies)
    assert take_snapshot(broker) == stage.take_snapshot()
    acquired = time.monotonic()
    while time.monotonic() < acquired + 2 * LEASE_S:
        assert taker.is_held
        time.sleep(LEASE_S / 20)
