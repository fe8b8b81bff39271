"""Floods of frames that brokers send, by a member that knows the secret: the others are served meanwhile, no
turn of the loop takes long, and memory is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from broker_app.config import Config
from broker_app.core.message import DeliveryOptions
from broker_app.core.remote.cluster_usage import MOST_UNUSED
from broker_app.features.cluster.configuration.settings import must_be_equal
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.outbox import PIECE_BYTES
from broker_app.features.cluster.pages import PageQuestion
from broker_app.features.cluster.record.change_record import DESTINATION, KEEPER, Change, Entry, Version
from broker_app.features.cluster.record.record_messages import (
    Buckets,
    Entries,
    Propose,
    RecordMessage,
    Summary,
)
from tests.cluster.conftest import Brokers
from tests.cluster.stranger import Stranger, stranger
from tests.cluster.test_failover_of_clients import linked
from tests.cluster.test_hostile_members import memory_mib
from tests.cluster.test_messages_across_brokers import take
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.patience import patient
from tests.support.samples import sample

MOST: Final = 8 * f.MIB
#: seconds of processor time of one turn of the loop
_BUSY_S: Final = 0.05
#: seconds in which a message goes from one of the others to the other, and one back
_PASSES_S: Final = 1.0
#: memory that a flood may take: 32 MiB of messages wait, and others of 8 MiB each are read and taken
_MEMORY_MIB: Final = 150
#: the same of one whose answers wait, 72 MiB of them
_ANSWERS_MIB: Final = 100
_FLOODED: Final = "/queue/flooded"
_LAST: Final = f.Ping(1 << 40)


class Flood(NamedTuple):
    """Bytes that a member sends, by the number of the subscription that it has for consumers of a queue. It
    `reads` what it is sent, or nothing."""

    chunks: Callable[[int], Iterable[bytes]]
    reads: bool = True

    @property
    def most_mib(self) -> int:
        return _MEMORY_MIB if self.reads else _ANSWERS_MIB


def different(frames: Callable[[], Iterable[f.Frame]]) -> Flood:
    """These frames, several in one chunk."""

    def chunks(_: int) -> Iterator[bytes]:
        gathered = bytearray()
        for frame in frames():
            gathered += f.encode(frame)
            if len(gathered) > 50_000:
                yield bytes(gathered)
                gathered.clear()
        yield bytes(gathered)

    return Flood(chunks)


def same(frame: f.Frame, times: int, *, reads: bool = True) -> Flood:
    """One frame, so many times."""

    def chunks(_: int) -> Iterator[bytes]:
        data = bytes(f.encode(frame))
        at_once = min(times, 50_000 // len(data) + 1)
        return (data * at_once for _ in range(times // at_once))

    return Flood(chunks, reads)


def beyond_the_credit(messages: int, body: bytes, times: int) -> Flood:
    """Return a flood of so many messages a frame, so many times."""

    def chunks(number: int) -> Iterator[bytes]:
        envelope = f.SharedEnvelope(_FLOODED, b"", True, 4)
        found = [f.RemoteDelivery(number, tag, 0, 0, 1, 0, b"id", body) for tag in range(1, messages + 1)]
        data = bytes(f.encode(f.Deliver([envelope], found)))
        return (data for _ in range(times))

    return Flood(chunks)


def record(message: RecordMessage) -> f.Record:
    return f.Record(msgspec.msgpack.encode(message))


def change(number: int) -> Change:
    return Change(DESTINATION, f"/queue/p{number}", {"max_messages": number})


def proposal(parts: int) -> Iterator[f.Frame]:
    """One proposal of a thousand changes a part."""
    for part in range(1, parts + 1):
        changes = [change(1_000 * part + number) for number in range(1_000)]
        yield record(Propose(7, changes, more=part < parts))


def doubtful(number: int) -> list[Entry]:
    """Entries that are not taken, for two reasons in turn."""
    ahead, other = Version((1 << 60) + number, "b9"), Version(number + 1, "b9")
    return [
        Entry(DESTINATION, f"/queue/e{at}", ahead, {}) if at % 2 else Entry(KEEPER, "keeper", other, {})
        for at in range(500)
    ]


def large_calls(number: int) -> Iterator[f.Frame]:
    for at in range(1, number + 1):
        yield f.ChannelCall(at, 1_000, False, None, b"", MOST)
        yield from [f.ChannelPiece(bytes(PIECE_BYTES))] * (MOST // PIECE_BYTES)


PAGE = msgspec.msgpack.encode(PageQuestion(address="/queue/full", limit=500))
LONG = ["/queue/" + "x" * 490] * MOST_UNUSED
FLOODS: dict[str, Flood] = {
    "heart-beats": different(lambda: (f.Ping(at) for at in range(30_000))),
    "questions about queues whose answers it does not read": same(f.AskUnused(7, LONG), 2_000, reads=False),
    "questions about messages": same(f.AskPage(7, PAGE), 3_000),
    "subscriptions that end": different(
        lambda: (
            frame
            for at in range(3_000)
            for frame in (f.Subscribe(at, f"/queue/t{at}", 1, 1), f.Unsubscribe(at))
        )
    ),
    "credit": different(
        lambda: [f.Subscribe(1, "/queue/c", 1, 1), *(f.Credit(1, 1, at) for at in range(1, 20_000))]
    ),
    "empty messages beyond the credit": beyond_the_credit(2_600, b"", 150),
    "large messages beyond the credit": beyond_the_credit(1, bytes(MOST), 40),
    "settled deliveries": same(f.Settled(list(range(f.MOST_SETTLED))), 200),
    "the use of limits": different(
        lambda: (
            f.SharedUse([(f"/queue/u{1_000 * at + number}", at, 1, 1) for number in range(f.MOST_USES)])
            for at in range(30)
        )
    ),
    "addresses of brokers": different(
        lambda: (
            f.Availability(False, at, [f"b{at}x{number}.example:1" for number in range(f.MOST_BROKERS)])
            for at in range(200)
        )
    ),
    "questions about the record": different(
        lambda: (
            record(one) for _ in range(500) for one in (Summary(7, False, question=7), Buckets(bytes(8_192)))
        )
    ),
    "entries that are not taken": different(lambda: (record(Entries(doubtful(at))) for at in range(40))),
    "small proposals": different(lambda: (record(Propose(at, [change(at)])) for at in range(1, 3_000))),
    "a large proposal": different(lambda: proposal(20)),
    "calls": same(f.ChannelCall(7, 1_000, False, ",".join(["0"] * 100), b""), 10_000),
    "large calls": different(lambda: large_calls(10)),
    "repeats": same(f.SentAgain("/queue/full", DeliveryOptions(dedup_id="d1").digest), 10_000),
    "questions about what is recorded": different(lambda: (f.Confirm(at) for at in range(20_000))),
    "orders to read the central file": different(lambda: (f.Reload(at) for at in range(10_000))),
}


@pytest.fixture(scope="module")
def brokers(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Two brokers for all tests here; the first keeps the change record, and is the one that is flooded."""
    with nodes_in(tmp_path_factory.mktemp("floods")) as nodes:
        made = Brokers(nodes, 2, keeper=0, max_body_bytes=MOST)
        made.start()
        yield made


@pytest.mark.parametrize("name", sample(FLOODS, 5))
async def test_others_are_served_while_a_member_floods_a_broker(brokers: Brokers, name: str) -> None:
    b1, b2 = brokers
    await becomes(lambda: linked(b2), 1)
    async with b1.stomp() as client, client.subscribe(_FLOODED, credit=10):
        for at in range(100):
            await client.send("/queue/full", bytes(1_000), headers={"dedup-id": f"d{at}"})
        await check_flood(brokers, FLOODS[name])


async def check_flood(brokers: Brokers, flood: Flood) -> None:
    b1, b2 = brokers
    async with stranger(int(b1.settings["cluster_port"])) as member:
        number = await log_in(member, b1)
        before_mib = peak_mib(b1)
        is_over = asyncio.Event()
        passing = asyncio.create_task(check_passing(b1, b2, is_over))
        try:
            await send(member, flood, number)
        finally:
            is_over.set()
        await passing
        grown_mib = memory_mib(b1) - before_mib
    assert grown_mib < flood.most_mib
    async with b1.rest() as http:
        found = (await http.get("/stats")).json()["node"]
    assert found["loop_busy_1m_s"] < patient(_BUSY_S)
    assert "Traceback" not in b1.log
    for node, other in ((b1, b2), (b2, b1)):
        assert f"{other.name}: link down" not in node.log
    assert b1.log.count("is not taken") <= 2 * b1.log.count("b9: link up"), "each reason is logged once"


async def log_in(member: Stranger, b1: NodeProcess) -> int:
    """Be a member; returns the number of the subscription that the broker has there for its consumer."""
    settings = must_be_equal(Config(cluster_keeper=b1.settings["cluster_keeper"]))
    await member.log_in(settings)
    while True:
        for frame in await member.hear():
            if isinstance(frame, f.Subscribe) and frame.address == _FLOODED:
                return frame.number


def peak_mib(broker: NodeProcess) -> float:
    """The memory of a broker, which is the peak from now on."""
    Path(f"/proc/{broker.pid}/clear_refs").write_text("5")
    return memory_mib(broker)


async def send(member: Stranger, flood: Flood, number: int) -> None:
    """Send all of it, and wait until the broker has worked it off, or has ended the link."""
    reading = asyncio.create_task(read_all(member)) if flood.reads else None
    async with asyncio.timeout(patient(30)):
        try:
            for chunk in flood.chunks(number):
                member.writer.write(chunk)
                await member.writer.drain()
            member.say(_LAST)
            await (reading or member.writer.wait_closed())
        except ConnectionError:
            assert not flood.reads, "the broker has ended the link"


async def read_all(member: Stranger) -> None:
    """Read until the answer to the last frame."""
    wanted, last = bytes(f.encode(f.Pong(_LAST.number))), b""
    while wanted not in last:
        data = await member.reader.read(1 << 18)
        if not data:
            raise ConnectionError
        last = last[-len(wanted) :] + data


async def check_passing(b1: NodeProcess, b2: NodeProcess, is_over: asyncio.Event) -> None:
    """Check that messages pass between the clients of both brokers, each in time."""
    async with (
        b1.stomp() as one,
        b2.stomp() as other,
        one.subscribe("/queue/back") as back,
        other.subscribe("/queue/across") as across,
    ):
        while not is_over.is_set():
            async with asyncio.timeout(patient(_PASSES_S)):
                await one.send("/queue/across", b"across")
                await take(across, 1)
                await other.send("/queue/back", b"back")
                await take(back, 1)
