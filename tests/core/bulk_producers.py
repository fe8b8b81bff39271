"""Producers of batches in a storm: each batch is published once, all of it or none, whatever is repeated."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from broker_app.core import commands as c
from broker_app.core.publishing.bulk_producer import address_of


class Batch:
    """A batch and its rows, of which `published` are out. It is `begun` once a command for it is accepted."""

    def __init__(self, number: int, rows: Sequence[c.Row]) -> None:
        self.number = number
        self.rows = rows
        self.published = 0
        self.begun = self.complete = False


class Part:
    """The rows of a batch from `start` to before `end`, which one command publishes."""

    def __init__(self, batch: Batch, start: int, end: int) -> None:
        self.batch = batch
        self.start, self.end = start, end

    @property
    def rows(self) -> Sequence[c.Row]:
        return self.batch.rows[self.start : self.end]

    @property
    def is_last(self) -> bool:
        return self.end == len(self.batch.rows)


class Producer:
    """A producer as the ledger expects it. `owner` is the user who began it, "" before."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = address_of(name)
        self.forget()

    def forget(self) -> None:
        """It was deleted: its batches begin again."""
        self.owner = ""
        #: batches that were begun, in the order of their numbers, and those that were not
        self.begun: list[Batch] = []
        self._waiting: list[Batch] = []
        self._number = -1

    @property
    def state(self) -> tuple[str, int, int]:
        """(owner, next batch, rows of it that are out) of one that was begun."""
        last = self.begun[-1]
        following = (last.number + 1, 0) if last.complete else (last.number, last.published)
        return self.owner, *following

    def comes_next(self, command: c.PublishBulk) -> bool:
        """Return whether a batch may be published, as far as that follows from what was published before."""
        if not self.begun:
            return not command.rows_before
        owner, next_batch, rows = self.state
        if command.owner != owner or command.batch < next_batch:
            return False
        half_way = rows or command.rows_before
        return not half_way or (command.batch, command.rows_before) == (next_batch, rows)

    def take(self, part: Part, owner: str) -> None:
        """Note that a part was published."""
        batch = part.batch
        assert (batch.published, batch.complete) == (part.start, False), "no row is left out or comes twice"
        if not batch.begun:
            assert not self.begun or self.begun[-1].number < batch.number, "numbers grow"
            self.begun.append(batch)
            self._waiting.remove(batch)
        self.owner = owner
        batch.begun = True
        batch.published, batch.complete = part.end, part.is_last

    def draw(self, random: Random, rows: Sequence[c.Row]) -> Part:
        """The next command: mostly what comes next, with new `rows` when a batch is complete; sometimes what
        came before, since its answer was lost or an old run goes on, and sometimes what comes too early."""
        chance = random.random()
        if self.begun and chance < 0.25:
            batch = random.choice(self.begun)
            start = random.choice((0, batch.published, random.randint(0, len(batch.rows))))
        elif self.begun and not self.begun[-1].complete and chance < 0.9:
            batch = self.begun[-1]
            start = batch.published
        elif self._waiting and chance < 0.5:  # it was refused, or is sent too late
            batch, start = random.choice(self._waiting), 0
        else:
            self._number += random.choice((1, 1, 1, 4))
            batch = Batch(self._number, rows)
            self._waiting.append(batch)
            start = random.choice((0, 0, 0, 0, 0, 0, min(1, len(rows))))
        end = random.choice((len(batch.rows), len(batch.rows), random.randint(start, len(batch.rows))))
        return Part(batch, start, end)

    def unfinished(self) -> Part | None:
        """The command that completes the last batch."""
        last = self.begun[-1] if self.begun else None
        if last is None or last.complete:
            return None
        return Part(last, last.published, len(last.rows))
