"""Events of the broker, for subscribers of its system topics."""

from __future__ import annotations

from broker_app.core.destination import (
    parse,
    tells_of_broker,
)
from broker_app.core.facts import (
    ConsumerJoined,
    ConsumerLeft,
    ConsumerSlow,
    DeadLetter,
    DestinationCreated,
    DestinationDeleted,
    DestinationFull,
)
from broker_app.core.message import (
    Message,
)
from broker_app.core.queue import Queue
from broker_app.core.topic import Topics
from broker_app.core.turn import Turn

#: the first level of all topics on which the broker tells of itself
SYSTEM = "$mom"


class Events:
    """Adds events to the outcome where anybody listens."""

    def __init__(self, turn: Turn, topics: Topics) -> None:
        self._turn = turn
        self._topics = topics

    @property
    def has_listeners(self) -> bool:
        """Whether anybody subscribes to system topics."""
        return self._topics.reaches(SYSTEM)

    def destination(self, fact: DestinationCreated | DestinationDeleted | DestinationFull) -> None:
        """Publish an event of a destination; temporary ones have none."""
        if self.has_listeners and not fact.address.startswith("/temp-"):
            self._turn.out.facts.append(fact)

    def consumer(self, fact: ConsumerJoined | ConsumerLeft | ConsumerSlow) -> None:
        """Publish an event of a consumer; consumers of system topics have none."""
        address = fact.subscription.address
        if self.has_listeners and not address.startswith("/temp-") and not tells_of_broker(parse(address)):
            self._turn.out.facts.append(fact)

    def dead_letter(self, queue: Queue, message: Message, reason: str, detail: str) -> None:
        """Count a dead letter; one event a batch for each queue and reason."""
        former = self._turn.out.dead_letters.get((queue.address, reason))
        count = former.messages + 1 if former else 1
        fact = DeadLetter(queue.address, reason, count, self._turn.ids.of(message).decode(), detail)
        self._turn.out.dead_letters[queue.address, reason] = fact
