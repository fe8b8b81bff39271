"""Producers of whole batches: how far each has come.

A producer, such as a query of Spark, numbers its batches; the numbers increase. How far it has come is
recorded in the same journal batch as its messages, so a batch that is sent again is recognized as a
repeat."""

from __future__ import annotations

from broker_app.base.refused import Refused
from broker_app.core import client_address

#: producers are recorded under addresses of their own, /bulk/<name>
_PREFIX = "/bulk/"
#: characters of a name
MAX_NAME = 200
#: numbers of batches are below it
MAX_BATCH = 1 << 53


class BulkProducer:
    """The batches of the producer `name` that were published: all before `next_batch`. If `rows` is not 0, so
    many rows of `next_batch` itself were published, too, the last at `time_ms`. Only its `owner`, the user
    who began it, continues it."""

    __slots__ = ("name", "next_batch", "owner", "rows", "time_ms")

    def __init__(self, name: str, owner: str, next_batch: int = 0, rows: int = 0, time_ms: int = 0) -> None:
        self.name = name
        self.owner = owner
        self.next_batch = next_batch
        self.rows = rows
        self.time_ms = time_ms

    @property
    def address(self) -> str:
        """The address under which it is recorded."""
        return address_of(self.name)

    @property
    def client(self) -> str:
        """Its `client_address`, for records of its messages: the owner, with its name as client id."""
        return client_address.address_of(self.owner, self.name)

    @property
    def facts(self) -> tuple[str, int, int, int]:
        """The content of its record: owner, next batch, rows of that, time in ms."""
        return self.owner, self.next_batch, self.rows, self.time_ms


def address_of(name: str) -> str:
    """The address under which a producer is recorded."""
    return _PREFIX + name


def of_address(address: str, facts: tuple[str, int, int, int]) -> BulkProducer:
    """The producer of a record."""
    return BulkProducer(address.removeprefix(_PREFIX), *facts)


def is_bulk_producer(address: str) -> bool:
    """Return whether an address is that of a producer."""
    return address.startswith(_PREFIX)


def check_batch(name: str, batch: int) -> None:
    """Refused for a name or number that is not valid."""
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise Refused(
            "invalid",
            f"the producer has the name {name[:80]!r}; it must have 1 to {MAX_NAME} printable characters",
        )
    if not 0 <= batch < MAX_BATCH:
        raise Refused("invalid", f"the batch has the number {batch}; it must be between 0 and 2^53 - 1")
