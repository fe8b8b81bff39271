"""The messages of one queue while members fail: which came, from which journal, in which order, and marked.

The id of a message names its journal and its place there, whichever member serves it
(`broker_app.core.message.MessageIds`). What consumers may rely on:

- What comes again is marked, whether it is the same copy or the one of another journal.
- A copy whose acknowledgement was confirmed does not come again.
- A message is in two journals only if its producer has sent it again, since it had no receipt.
- A journal has the messages of a producer in the order of sending.
- Copies that come for the first time and are not marked come in the order of their journal.
- So do those that are marked because their journal was taken over, as long as the queue has had no other
  consumer. What was under way to a former one is marked, too, and may come behind later ones: that is why the
  order of marked messages is checked in a `Backlog` alone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import mom_client
from tests.mirror.test_takeover_storm import Ledger
from tests.support.patience import patient

#: more than a backlog has, so that no message waits for its consumer at another member and goes back
_CREDIT: Final = 10_000
#: seconds between the windows of messages of a backlog
_PAUSE_S: Final = 1.0


class Copy(NamedTuple):
    """A stored message: its journal and its place there."""

    journal: str
    place: int

    @classmethod
    def of(cls, message: mom_client.Message) -> Copy:
        _, _, *tag, place = message.id.split("-")
        return cls("-".join(tag), int(place, 16))


class Arrival(NamedTuple):
    """A copy that came for the first time, over a connection."""

    number: int
    copy: Copy
    is_marked: bool
    connection: int


@dataclass
class StormLedger(Ledger):
    """A ledger of copies."""

    #: those without a receipt over the connection on which they were sent: they may have been sent again
    unsure: set[int] = field(default_factory=set)
    #: in the order in which they came
    arrivals: list[Arrival] = field(default_factory=list)
    copies: defaultdict[int, set[Copy]] = field(default_factory=lambda: defaultdict(set))
    settled_copies: set[Copy] = field(default_factory=set)

    def submit(self, mom: mom_client.Client, number: int) -> asyncio.Future[None]:
        """Send one message; returns its receipt."""
        session = mom.server.get("session")
        receipt = super().submit(mom, number)
        self.unsure.add(number)

        def check(done: asyncio.Future[None]) -> None:
            has_come = not done.cancelled() and done.exception() is None
            if has_come and session is not None and mom.server.get("session") == session:
                self.unsure.discard(number)

        receipt.add_done_callback(check)
        return receipt

    def settle(self, message: mom_client.Message) -> None:
        """Note that the acknowledgement of a copy was confirmed."""
        super().settle(message)
        self.settled_copies.add(Copy.of(message))

    def note(self, message: mom_client.Message) -> None:
        """Check a delivery against those before it."""
        number, copy = int(message.body), Copy.of(message)
        if copy in self.settled_copies:
            self.faults.append(f"{number} came again after its acknowledgement was confirmed")
        if number in self.seen:
            self.repeats += 1
            if not message.redelivered:
                self.faults.append(f"{number} came again and was not marked")
        if copy not in self.copies[number]:
            self.arrivals.append(Arrival(number, copy, message.redelivered, message.epoch))
        self.copies[number].add(copy)
        self.seen.add(number)

    @property
    def unmarked(self) -> list[Arrival]:
        """The copies that were no repeats when they came for the first time."""
        return [one for one in self.arrivals if not one.is_marked]

    def all_faults(self) -> list[str]:
        """The faults so far, in words."""
        return [*self.faults, *self._needless_copies(), *self._stored_late(), *late(self.unmarked)]

    def _needless_copies(self) -> Iterator[str]:
        for number, copies in self.copies.items():
            if len(copies) > 1 and number not in self.unsure:
                yield f"{number} is stored {len(copies)} times, and its producer has sent it once"

    def _stored_late(self) -> Iterator[str]:
        """The messages that were sent once, and are stored behind later ones."""
        last: dict[str, int] = {}
        sure = [one for one in self.arrivals if one.number not in self.unsure]
        for number, (journal, _), *_ in sorted(sure, key=lambda one: one.copy):
            if number < last.get(journal, number):
                yield f"{number} is stored behind {last[journal]}"
            last[journal] = number


@dataclass
class Backlog(StormLedger):
    """A queue that has no consumer while members fail, and one afterwards, which takes all of it over one
    connection of `mom`."""

    mom: mom_client.Client = field(kw_only=True)
    #: copies of a journal that was taken over whose order was checked
    in_order: int = 0

    async def fill(self, enough: asyncio.Event) -> None:
        """Send until there is `enough`, and all receipts have come."""
        while not enough.is_set():
            await self.send_window(self.mom)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_S):
                    await enough.wait()

    async def drain(self) -> None:
        """Take and acknowledge all that was promised, and check its order."""
        begun, missing = len(self.arrivals), self.promised - self.seen
        async with (
            self.mom.subscribe(self.queue, credit=_CREDIT) as messages,
            asyncio.TaskGroup() as acknowledgements,
        ):
            while missing:
                message = await messages.get(patient(60))
                self.note(message)
                missing.discard(int(message.body))
                acknowledgements.create_task(self.acknowledge(message))
        self.check_order(self.arrivals[begun:])

    def check_order(self, came: list[Arrival]) -> None:
        """Check the order of what has come, if that was over one connection: what is under way to one that
        breaks may come behind later ones over the next."""
        if len({one.connection for one in came}) == 1:
            self.in_order += sum(one.is_marked and one.number not in self.unsure for one in came)
            self.faults += late(came)


def late(arrivals: Iterable[Arrival]) -> Iterator[str]:
    """The copies that came behind later ones of their journal."""
    last: dict[str, Arrival] = {}
    for one in arrivals:
        journal, place = one.copy
        before = last.setdefault(journal, one)
        if place < before.copy.place:
            yield f"{one.number} came behind {before.number}, which is stored behind it"
        else:
            last[journal] = one
