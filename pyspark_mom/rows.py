"""Decodes the records of stored frames into rows: the only loop over records.

Rows are gathered column by column. A record makes a run of rows: one, or for acknowledgements one for each
message. Values that all rows of a run, or of a frame, share are kept once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from broker_app.core import client_address
from broker_app.core.client_address import ClientNames, is_client
from broker_app.core.durability import records
from broker_app.journal import codec
from pyspark_mom import events
from pyspark_mom.errors import JournalUnreadable
from pyspark_mom.events import Destination, destination, is_subscription, is_topic, origin_broker

#: tables of destinations that are remembered: most batches of a broker repeat a few
_MAX_TABLES: Final = 1024
#: addresses that the rows of a batch refer to; with more, they are gathered again
_MAX_ADDRESSES: Final = 10_000
#: facts that are known of a run: time of the messages and sizes; deliveries; that it ends them
FACTS, DELIVERIES, END = 1, 2, 4
#: stands for a priority that is not known
NO_PRIORITY: Final = -1
#: stands for the index of an address that no row is wanted of. Numbers below it stand for subscriptions of
#: which some messages may be wanted, by their topics: this number less their index, less 1
_NOT_WANTED: Final = -1
#: topics of messages that are remembered
_MAX_TOPICS: Final = 10_000
_VERSION: Final = records.VERSION
_MAX_INT: Final = 2**31 - 1
#: flags of PUBLISHED records with something that few have
_WITH_MORE: Final = records.HAS_ID | records.HAS_ADDRESS | records.HAS_ORIGIN
#: stands for a client that is not known
NO_CLIENT: Final = -1


class WantedRows(NamedTuple):
    """The rows that a query needs: those of `events` (indexes of EVENT_NAMES) at addresses that `fits`
    accepts; and the parts of messages that it needs, and the clients, since most need none."""

    events: Collection[int]
    fits: Callable[[str], bool]
    blocks: bool = False
    bodies: bool = False
    clients: bool = False


class _Table(NamedTuple):
    """A table: `names`; the index of each among addresses (or _NOT_WANTED, or below) and clients (or
    NO_CLIENT)."""

    names: list[str]
    indexes: list[int]
    clients: list[int]
    is_wanted: bool


class Rows:
    """The rows of one batch, by column.

    Of each run: `counts` of its rows, `positions` of its record, `events`, `destinations` (indexes of
    `addresses`), `priorities`, `expires_ms` (0 is never), `known` (FACTS, DELIVERIES and END, when the
    messages left the queue); by the number of the run `origins` and codes of `reasons`, of those that have
    one. `runs_by_topic` are the runs whose rows are wanted only where the message was sent to a topic that
    is. Of each frame: `frame_counts` of its rows, `times_us`, `epochs`. Of each row: the others. `topics` are
    by the number of the row, and `ids`, which has those that do not follow from time and position; None
    stands for one that the record does not know. `clients` are indexes of `client_names`, or NO_CLIENT.
    `clients`, `blocks` and `bodies` are empty when nothing needs them.
    """

    def __init__(self, addresses: list[Destination], client_names: list[ClientNames]) -> None:
        self.addresses = addresses
        self.client_names = client_names
        self.counts = array("i")
        self.positions = array("q")
        self.events = array("i")
        self.destinations = array("i")
        self.priorities = array("b")
        self.expires_ms = array("q")
        self.known = array("b")
        self.origins: dict[int, tuple[str, int]] = {}
        self.topics: dict[int, str] = {}
        self.reasons: dict[int, int] = {}
        self.runs_by_topic: list[int] = []
        self.frame_counts = array("i")
        self.times_us = array("q")
        self.epochs = array("i")
        self.message_positions = array("q")
        self.queue_ms = array("q")
        self.body_sizes = array("i")
        self.header_sizes = array("i")
        self.deliveries = array("i")
        self.ids: dict[int, str | None] = {}
        self.clients = array("i")
        self.blocks: list[bytes | None] = []
        self.bodies: list[bytes | None] = []
        self.body_bytes = 0

    def __len__(self) -> int:
        return len(self.message_positions)


#: adds the row of a PUBLISHED record: content, begin, end, position, flags, priority, destination, and of its
#: batch the time in ms and the table
_AddPublished = Callable[[bytes, int, int, int, int, int, int, int, _Table], None]


def _published(rows: Rows, wanted: WantedRows) -> _AddPublished:
    """Return what adds the row of a PUBLISHED record. Most rows are theirs, so names are looked up once."""
    unpack, block_at_of = records.unpack_published, records.block_at
    add_count, add_position, add_event = rows.counts.append, rows.positions.append, rows.events.append
    add_destination, add_priority = rows.destinations.append, rows.priorities.append
    add_expiry, add_known = rows.expires_ms.append, rows.known.append
    add_message, add_queue_ms = rows.message_positions.append, rows.queue_ms.append
    add_body_size, add_header_size = rows.body_sizes.append, rows.header_sizes.append
    add_delivery = rows.deliveries.append
    add_client, client_of, sizes = rows.clients.append, records.client_of, records.OPTIONAL_SIZES
    wants_blocks, wants_bodies, wants_clients = wanted.blocks, wanted.bodies, wanted.clients
    wants_parts = wants_blocks or wants_bodies or wants_clients
    is_wanted = [event in wanted.events for event in (events.ENQUEUE, events.RECEIVE)]

    def add(
        content: bytes,
        at: int,
        end: int,
        position: int,
        flags: int,
        priority: int,
        index: int,
        batch_ms: int,
        table: _Table,
    ) -> None:
        event = events.RECEIVE if flags & records.HAS_ORIGIN else events.ENQUEUE
        if not is_wanted[event]:
            return
        if flags & records.DELAYED and event == events.ENQUEUE:
            return  # it becomes a message when it is due, with a record of its own
        _, _, _, _, _, _, block_size, time_ms, expires_ms = unpack(content, at)
        block_at = at + records.PUBLISHED_SIZE + sizes[flags]
        if flags & _WITH_MORE:
            block_at = block_at_of(content, at, flags)
            _add_more(rows, content, at, flags, table.names)
        body_at = block_at + block_size
        add_count(1)
        add_position(position)
        add_event(event)
        add_destination(index)
        add_priority(priority)
        add_expiry(expires_ms)
        add_known(FACTS | DELIVERIES)
        add_message(position)
        add_queue_ms(batch_ms - time_ms)
        add_body_size(end - body_at)
        add_header_size(block_size)
        add_delivery(0)
        if wants_parts:
            if wants_blocks:
                rows.blocks.append(content[block_at:body_at])
            if wants_bodies:
                rows.bodies.append(content[body_at:end])
                rows.body_bytes += end - body_at
            if wants_clients:
                client = client_of(content, at, flags)
                add_client(NO_CLIENT if client == records.NO_CLIENT else table.clients[client])

    return add


def _add_more(rows: Rows, content: bytes, at: int, flags: int, names: list[str]) -> None:
    """Note the id, the topic and the origin of a PUBLISHED record, if it has them, for the row that comes
    next."""
    if flags & records.HAS_ID:
        id_at = at + records.PUBLISHED_SIZE
        rows.ids[len(rows)] = content[id_at : id_at + records.ID_SIZE].decode()
    address = records.address_of(content, at, flags)
    if is_topic(address):
        rows.topics[len(rows)] = address
    origin = records.origin_of(content, at, flags)
    if origin is not None:
        rows.origins[len(rows.counts)] = origin_broker(names[origin[0]]), origin[1]


class Decoder:
    """Gathers the rows of frames until they are taken."""

    def __init__(self, wanted: WantedRows) -> None:
        self._wanted = wanted
        self._indexes: dict[str, int] = {}
        self._clients: dict[str, int] = {}
        self._tables: dict[bytes, _Table] = {}
        #: whether messages of these topics are wanted
        self._topics: dict[str, bool] = {}
        self._decoders = {
            records.ACKED: self._acked,
            records.DELIVERED: self._delivered,
            records.RETURNED: self._returned,
        }
        self.rows = Rows([], [])
        self._published = _published(self.rows, wanted)

    def take(self) -> Rows:
        """The rows since the last call."""
        rows, addresses, names = self.rows, self.rows.addresses, self.rows.client_names
        if len(addresses) + len(names) > _MAX_ADDRESSES:
            addresses, names = [], []
            self._indexes.clear()
            self._clients.clear()
            self._tables.clear()
        self.rows = Rows(addresses, names)
        self._published = _published(self.rows, self._wanted)
        return rows

    def add(self, frame: codec.Frame, content: bytes, start: int, end: int) -> None:
        """Decode the records of a frame at positions from `start` to before `end`. Raises
        JournalUnreadable."""
        table = self._table(content[codec.FRAME_HEADER_BYTES : frame.records_at])
        if not table.is_wanted:
            return
        indexes = table.indexes
        before = len(self.rows)
        batch_ms = frame.time_us // 1000
        head, published, decoders = records.unpack_head, self._published, self._decoders
        at, stop, position = frame.records_at, frame.length, frame.first_position
        while at < stop:
            length, kind, version, flags, priority, named = head(content, at)
            if length < records.HEAD_SIZE or (version != _VERSION and not records.is_known(kind, version)):
                raise _unreadable(position, version)
            if start <= position < end:
                if kind == records.PUBLISHED:
                    index = indexes[named]
                    if index < _NOT_WANTED and self.wants_topic(records.address_of(content, at, flags)):
                        index = _NOT_WANTED - 1 - index
                    if index >= 0:
                        published(content, at, at + length, position, flags, priority, index, batch_ms, table)
                elif kind in decoders and (index := indexes[named]) != _NOT_WANTED:
                    decoders[kind](content, at, at + length, position, flags, priority, index, table)
            at += length
            position += 1
        count = len(self.rows) - before
        if count:
            self.rows.frame_counts.append(count)
            self.rows.times_us.append(frame.time_us)
            self.rows.epochs.append(frame.epoch)

    def _table(self, encoded: bytes) -> _Table:
        table = self._tables.get(encoded)
        if table is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            names = codec.decode_table(encoded)
            indexes = [_NOT_WANTED if is_client(name) else self._index(name) for name in names]
            clients = [self._client(name) if is_client(name) else NO_CLIENT for name in names]
            is_wanted = any(index != _NOT_WANTED for index in indexes)
            table = self._tables[encoded] = _Table(names, indexes, clients, is_wanted)
        return table

    def _client(self, address: str) -> int:
        index = self._clients.get(address)
        if index is None:
            index = self._clients[address] = len(self.rows.client_names)
            self.rows.client_names.append(client_address.of_address(address))
        return index

    def _index(self, address: str) -> int:
        index = self._indexes.get(address)
        if index is None:
            index = _NOT_WANTED
            fits = self._wanted.fits(address)
            if fits or is_subscription(address):
                index = len(self.rows.addresses)
                self.rows.addresses.append(destination(address))
                if not fits:
                    index = _NOT_WANTED - 1 - index
            self._indexes[address] = index
        return index

    def wants_topic(self, address: str) -> bool:
        """Return whether messages of a subscription are wanted that were sent to this address."""
        wanted = self._topics.get(address)
        if wanted is None:
            if len(self._topics) >= _MAX_TOPICS:
                self._topics.clear()
            wanted = self._topics[address] = is_topic(address) and self._wanted.fits(address)
        return wanted

    # ------------------------------------------------------------------- by type of record

    def _acked(
        self,
        content: bytes,
        at: int,
        end: int,
        position: int,
        cause: int,
        reason: int,
        index: int,
        table: _Table,
    ) -> None:
        caused = events.EVENT_OF_CAUSE.get(cause)
        if caused is None:
            return
        event = self._in_queue(caused, index)
        if event not in self._wanted.events:
            return
        messages = records.positions(content, at, end)
        facts = records.facts(content, at, end)
        if facts is None:
            self._run(len(messages), position, event, index, reason=reason, known=END)
            self._messages(messages)
        else:
            known = FACTS | DELIVERIES | END
            self._run(len(messages), position, event, index, reason=reason, known=known)
            self._messages_with_facts(messages, facts)
        self._add_clients(content, at, end, len(messages), table)

    def _delivered(
        self,
        content: bytes,
        at: int,
        end: int,
        position: int,
        _: int,
        priority: int,
        index: int,
        table: _Table,
    ) -> None:
        event = self._in_queue(events.DELIVER, index)
        if event not in self._wanted.events:
            return
        self._run(1, position, event, index, priority=priority, known=DELIVERIES)
        self._messages(records.positions(content, at, end), (1,))
        self._add_clients(content, at, end, 1, table)

    def _returned(
        self,
        content: bytes,
        at: int,
        end: int,
        position: int,
        flags: int,
        reason: int,
        index: int,
        table: _Table,
    ) -> None:
        event = self._in_queue(events.NACK if flags & records.GIVEN_BACK else events.DELIVER, index)
        if event not in self._wanted.events:
            return
        numbers = records.positions(content, at, end)
        self._run(len(numbers) // 2, position, event, index, reason=reason, known=DELIVERIES)
        self._messages(numbers[::2], [min(attempts, _MAX_INT) for attempts in numbers[1::2]])
        self._add_clients(content, at, end, len(numbers) // 2, table)

    def _in_queue(self, event: int, index: int) -> int:
        """The event of messages of the queue with this index of its address."""
        if index < 0 or self.rows.addresses[index].peer is None:
            return event
        return events.OF_FORWARDED.get(event, event)

    def _run(
        self,
        count: int,
        position: int,
        event: int,
        index: int,
        *,
        priority: int = NO_PRIORITY,
        reason: int = 0,
        known: int = 0,
    ) -> None:
        """Add a run of `count` rows, all but what differs from row to row."""
        if not count:
            return
        rows = self.rows
        if index < _NOT_WANTED:
            rows.runs_by_topic.append(len(rows.counts))
            index = _NOT_WANTED - 1 - index
        if reason:
            rows.reasons[len(rows.counts)] = reason
        rows.counts.append(count)
        rows.positions.append(position)
        rows.events.append(event)
        rows.destinations.append(index)
        rows.priorities.append(priority)
        rows.expires_ms.append(0)
        rows.known.append(known)

    def _messages(self, messages: array[int], deliveries: Sequence[int] = ()) -> None:
        """Add messages of a run of which only `deliveries` are known, or (without) not even those."""
        rows, nothing = self.rows, bytes(8 * len(messages))
        rows.queue_ms.frombytes(nothing)
        rows.body_sizes.frombytes(nothing[::2])
        rows.header_sizes.frombytes(nothing[::2])
        rows.deliveries.extend(deliveries or bytes(len(messages)))
        self._positions(messages)

    def _messages_with_facts(self, messages: array[int], facts: records.Facts) -> None:
        """Add messages of a run with facts about them."""
        rows = self.rows
        rows.queue_ms += array("q", facts.queue_ms)
        rows.body_sizes += array("i", facts.body_bytes)
        rows.header_sizes += array("i", facts.header_bytes)
        rows.deliveries.extend(facts.deliveries)
        first, at = len(rows), facts.has_own_id.find(1)
        while at >= 0:
            rows.ids[first + at] = None
            at = facts.has_own_id.find(1, at + 1)
        self._positions(messages)

    def _positions(self, messages: array[int]) -> None:
        """Add the positions of the messages of a run, which have no content."""
        rows = self.rows
        rows.message_positions.frombytes(messages.tobytes())
        if self._wanted.blocks:
            rows.blocks.extend([None] * len(messages))
        if self._wanted.bodies:
            rows.bodies.extend([None] * len(messages))

    def _add_clients(self, content: bytes, at: int, end: int, count: int, table: _Table) -> None:
        """Add the clients of the `count` messages of a record."""
        if not self._wanted.clients:
            return
        found = records.clients(content, at, end)
        if found is None:
            self.rows.clients.extend([NO_CLIENT] * count)
        else:
            known = table.clients
            self.rows.clients.extend(
                [NO_CLIENT if client == records.NO_CLIENT else known[client] for client in found]
            )


def _unreadable(position: int, version: int) -> JournalUnreadable:
    return JournalUnreadable(
        f"the record at position {position} has version {version}, which this program does not know: use the "
        "version of MOM that wrote it, or a newer one"
    )
