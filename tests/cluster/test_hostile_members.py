"""Strangers and hostile members at the port of a cluster: each ends itself, and costs the others nothing."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.durability.records import Terms
from broker_app.core.remote.cluster_usage import MOST_UNUSED
from broker_app.features.cluster.configuration.settings import must_be_equal
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.pages import PageQuestion
from tests.cluster.conftest import SECRET
from tests.cluster.stranger import NONCE, Stranger, proof, stranger
from tests.support.awaiting import becomes, until
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.patience import patient
from tests.support.ports import reserve_port

SETTINGS = must_be_equal(Config())
#: all that one hears who has not proven to know the secret
STRANGER = "this port is for brokers of the cluster"
_WRONG = "the other broker has another secret; set MOM_CLUSTER_SECRET to the same value at all brokers"
#: seconds for which the broker may hold up others on a quiet machine
_BUSY_S = 0.05
#: it may wait for memory besides, of which a busy machine has little
_BLOCKED_S = 0.5


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One broker for all tests here: each leaves it as it was."""
    port = reserve_port()
    with nodes_in(tmp_path_factory.mktemp("hostile")) as nodes:
        node = nodes.node("b1", cluster_port=port, cluster_secret=SECRET, max_body_bytes=8 * f.MIB)
        node.start()
        yield node


def port_of(broker: NodeProcess) -> int:
    return int(broker.settings["cluster_port"])


async def check_harmless(broker: NodeProcess) -> None:
    """Check that a broker works on, and that nothing held up others."""
    async with broker.rest() as http:
        found = (await http.get("/stats")).json()["node"]
    assert found["loop_busy_1m_s"] < patient(_BUSY_S)
    assert found["loop_blocked_1m_s"] < patient(_BLOCKED_S)
    assert "Traceback" not in broker.log


async def has_no_links(broker: NodeProcess) -> bool:
    async with broker.rest() as http:
        links = (await http.get("/cluster")).json()["links"]
    return all(link["state"] != "up" for link in links)


def raw(content: bytes) -> bytes:
    return struct.pack("!I", len(content)) + content


# ---------------------------------------------------------------------- strangers

BEFORE = {
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "a long frame": struct.pack("!I", f.FIRST_BYTES + 1),
    "no MessagePack": raw(b"\xc1" * 10),
    "another type": raw(msgspec.msgpack.encode(["Hello", 7])),
    "an unknown frame": raw(msgspec.msgpack.encode(["Exit"])),
    "a frame of members": f.encode(f.Ping(1)),
    "no nonce": f.encode(f.Hello(b"")),
    "a proof without a nonce": f.encode(f.Proof(b"x" * 32)),
    "depth": raw(b"\x91" * 4_000),
}


@pytest.mark.parametrize("said", BEFORE.values(), ids=BEFORE)
async def test_a_stranger_hears_nothing_but_that_the_port_is_for_brokers(
    broker: NodeProcess, said: bytes
) -> None:
    async with stranger(port_of(broker)) as one:
        one.say(said)
        await one.end()
        assert bytes(one.received) == f.encode(f.Refuse("protocol-error", STRANGER))


async def test_before_the_proof_a_broker_says_a_nonce_and_after_a_wrong_one_that_it_is_wrong(
    broker: NodeProcess,
) -> None:
    async with stranger(port_of(broker)) as one:
        one.say(f.Hello(NONCE))
        (challenge,) = await one.hear()
        assert isinstance(challenge, f.Challenge)
        one.say(proof("a wrong secret", challenge.nonce))
        await one.end()
        expected = f.encode(challenge) + f.encode(f.Refuse("unauthorized", _WRONG))
        assert bytes(one.received) == expected
    with pytest.raises(Refused, match="another secret"):
        async with stranger(port_of(broker)) as other:
            await other.log_in(SETTINGS, secret="a wrong secret again")


async def test_a_handshake_cannot_be_replayed(broker: NodeProcess) -> None:
    async with stranger(port_of(broker)) as honest:
        honest.say(f.Hello(NONCE))
        (challenge,) = await honest.hear()
        assert isinstance(challenge, f.Challenge)
        said = proof(SECRET, challenge.nonce)
        honest.say(said)
        assert any(isinstance(frame, f.Proof) for frame in await honest.hear())
    async with stranger(port_of(broker)) as one:
        one.say(f.Hello(NONCE), said)
        assert await one.end() == f.Refuse("unauthorized", _WRONG)


async def test_members_get_in_though_many_strangers_say_nothing(broker: NodeProcess) -> None:
    async with AsyncExitStack() as opened:
        silent = [await opened.enter_async_context(stranger(port_of(broker))) for _ in range(64)]
        member = await opened.enter_async_context(stranger(port_of(broker)))
        await member.log_in(SETTINGS)
        assert await silent[0].end() == f.Refuse("too-many", STRANGER)
        member.say(f.Ping(77))
        while f.Pong(77) not in await member.hear():
            pass
    await becomes(lambda: has_no_links(broker), True)


# ---------------------------------------------------------------------- members


def delivery(number: int = 1, *, id: bytes = b"id", envelope: int = 0, **facts: int) -> f.RemoteDelivery:
    values = {"tag": 1, "attempts": 0, "time_ms": 1, "expires_ms": 0} | facts
    return f.RemoteDelivery(number, envelope=envelope, id=id, body=b"", **values)


ENVELOPE = f.SharedEnvelope("/queue/a", b"", True, 4)
FAILED = f.Failed(7, "", "x\n\n\0", "why", -1)
MOST = 8 * f.MIB
#: a filter that no reader of JSON should follow to its end
DEEP = "[" * 100_000

AFTER: dict[str, list[f.Frame | bytes]] = {
    "a frame that is too long": [struct.pack("!I", 1 << 31)],
    "another type": [raw(msgspec.msgpack.encode(["Subscribe", "1", 2]))],
    "an unknown frame": [raw(msgspec.msgpack.encode(["Exit", 1]))],
    "a number beyond 64 bits": [raw(b"\x92\xa4Ping" + b"\xc4\x09" + b"1" * 9)],
    "another handshake": [f.Hello(NONCE)],
    "a million tags": [raw(msgspec.msgpack.encode(["Settled", [1] * 1_000_000, [], []]))],
    "many tags": [raw(msgspec.msgpack.encode(["Settled", [1] * (f.MOST_SETTLED + 1), [], []]))],
    "many small messages": [
        raw(msgspec.msgpack.encode(["Deliver", [], [[1, 1, 0, 0, 0, 0, b"", b""]] * 40_000]))
    ],
    "many small messages in a long frame": [
        raw(msgspec.msgpack.encode(["Deliver", [], [[1, 1, 0, 0, 0, 0, b"", b""]] * 400_000]))
    ],
    "a subscription twice": [f.Subscribe(1, "/queue/a", 1, 1), f.Subscribe(1, "/queue/b", 1, 1)],
    "what is of one broker": [f.Subscribe(1, "/queue/$mom.x", 1, 1)],
    "a message without an envelope": [f.Deliver([], [delivery()])],
    "an id with a line break": [f.Deliver([ENVELOPE], [delivery(id=b"1\nack:2")])],
    "an id of no character": [f.Deliver([ENVELOPE], [delivery(id=b"")])],
    "a negative tag": [f.Deliver([ENVELOPE], [delivery(tag=-1)])],
    "a time that is not reached": [f.Deliver([ENVELOPE], [delivery(time_ms=1 << 62)])],
    "headers that end": [f.Deliver([f.SharedEnvelope("/queue/a", b"a:b\n\n\0", True, 4)], [])],
    "another priority": [f.Deliver([f.SharedEnvelope("/queue/a", b"", True, 400)], [])],
    "the use of many destinations": [f.SharedUse([("/queue/a", 1, 1, 1)] * (f.MOST_USES + 1))],
    "the use of a destination that none can have": [f.SharedUse([("/queue/" + "x" * 2_000, 1, 1, 1)])],
    "a negative use": [f.SharedUse([("/queue/a", -1, 1, 1)])],
    "the addresses of many brokers": [f.Availability(False, 0, ["b9.example:1"] * (f.MOST_BROKERS + 1))],
    "a long address of a broker": [f.Availability(False, 0, ["x" * 300 + ":1"])],
    "a negative number of clients": [f.Availability(False, -1, [])],
    "a long message about the record": [f.Record(bytes(f.MOST_RECORD_BYTES + 1))],
    "no message about the record": [f.Record(b"\x91" * f.MOST_RECORD_BYTES)],
    "no question about a page": [f.AskPage(1, b"\x91" * 10_000)],
    "a page without an end": [f.AskPage(1, msgspec.msgpack.encode(["/queue/a", 1 << 40]))],
    "a question about many queues": [f.AskUnused(1, ["/queue/a"] * (MOST_UNUSED + 1))],
    "a question about a queue that none can have": [f.AskUnused(1, ["/queue/" + "x" * 2_000])],
    "a repeat without a digest": [f.SentAgain("/queue/a", b"")],
    "a repeat in a queue that none can have": [f.SentAgain("/queue/" + "x" * 2_000, bytes(16))],
}
#: names that no broker has
NAMES = {
    "empty": "",
    "long": "x" * 65,
    "very long": "x" * 100_000,
    "of two lines": "b9\nb8",
    "of another broker that was adopted": "b9~",
}


@pytest.mark.parametrize("said", AFTER.values(), ids=AFTER)
async def test_a_member_that_says_what_no_broker_says_is_ended_with_the_reason(
    broker: NodeProcess, said: list[f.Frame | bytes]
) -> None:
    async with stranger(port_of(broker)) as member:
        await member.log_in(SETTINGS)
        member.say(*said)
        reason = await member.end()
        assert reason is not None
        assert reason.code in ("protocol-error", "invalid-destination")
    await becomes(lambda: has_no_links(broker), True)
    await check_harmless(broker)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_member_with_a_name_that_no_broker_has_takes_the_place_of_none(
    broker: NodeProcess, name: str
) -> None:
    async with stranger(port_of(broker)) as member:
        await member.log_in(SETTINGS, name, address="b9.example:1")
        reason = await member.end()
        assert reason is not None
        assert reason.code == "protocol-error"
    async with broker.rest() as http:
        links = (await http.get("/cluster")).json()["links"]
    assert "b9.example:1" not in {link["address"] for link in links if link["state"] == "up"}


async def test_what_a_broker_might_say_by_mistake_has_no_effect(broker: NodeProcess) -> None:
    async with stranger(port_of(broker)) as member:
        await member.log_in(SETTINGS)
        member.say(
            f.Credit(77, 1, 1),
            f.Unsubscribe(77),
            f.NotSubscribed(77, "no", "no"),
            f.Pong(77),
            f.Settled(
                list(range(f.MOST_SETTLED)), [1, 1], [f.Failed(7, "", "x\n\n\0", "why", -1)] * f.MOST_FAILED
            ),
            f.Subscribe(1, "/queue/a", -1, 1 << 62, priority=1 << 62),
            f.Subscribe(2, "/queue/b", 1, -1, selector="colour = ("),
            f.Subscribe(3, "no address", 1, 1),
            f.Subscribe(4, "/topic-subscription/x", 1, 1, terms=Terms("no filter", "", False, "")),
            f.Deliver([ENVELOPE], [delivery(77, tag=5), delivery(77, tag=6)]),
            f.SharedUse([("no address", 0, 0, 0), ("/queue/a", 1 << 62, 1 << 62, 1 << 62)] * 500),
            f.Availability(True, 1 << 62, ["no address", "b9.example:99999", "[::"]),
            f.Unused(77, ["/queue/a"]),
            f.AskUnused(77, ["no address"] * MOST_UNUSED),
            f.AskPage(76, msgspec.msgpack.encode(PageQuestion(address="no address", limit=1))),
            f.AskPage(77, msgspec.msgpack.encode(PageQuestion(address="/queue/a", limit=1, where="["))),
            f.AskPage(78, msgspec.msgpack.encode(PageQuestion(address="/queue/a", limit=1, where=DEEP))),
            f.Page(77, b"no page"),
            f.SentAgain("no address", bytes(16)),
            f.Ping(77),
        )
        heard: list[f.Frame] = []
        refused: set[int] = set()
        pages: dict[int, str] = {}
        while refused < {2, 3, 4} or len(pages) < 3 or f.Pong(77) not in heard:
            heard += await member.hear()
            refused = {one.number for one in heard if isinstance(one, f.NotSubscribed)}
            pages = {one.number: one.code for one in heard if isinstance(one, f.Page)}
        assert "internal" not in pages.values()
        assert f.Unused(77, ["no address"] * MOST_UNUSED) in heard
        assert f.Settled(returned=[5, 6]) in heard
    await becomes(lambda: has_no_links(broker), True)
    await check_harmless(broker)


async def test_a_member_that_is_silent_or_reads_nothing_loses_its_link_and_holds_up_nothing(
    broker: NodeProcess,
) -> None:
    async with broker.stomp() as mom:
        for _ in range(8):
            await mom.send("/queue/large", bytes(MOST))

    async def reads_nothing(member: Stranger) -> None:
        member.say(f.Subscribe(1, "/queue/large", 1, 20_000))
        while not member.writer.is_closing():
            member.say(f.Ping(1))
            await asyncio.sleep(0.5)

    before_mib = memory_mib(broker)
    async with (
        stranger(port_of(broker)) as silent,
        stranger(port_of(broker)) as unfinished,
        stranger(port_of(broker)) as greedy,
        asyncio.timeout(patient(20)),
    ):
        for at, member in enumerate((silent, unfinished, greedy)):
            await member.log_in(SETTINGS, f"h{at}")
        unfinished.say(struct.pack("!I", 1000), b"never more")
        pinging = asyncio.create_task(reads_nothing(greedy))
        await becomes(lambda: has_no_links(broker), True)
        pinging.cancel()
    assert memory_mib(broker) - before_mib < 120
    async with broker.rest() as http:
        found = (await http.get("/queues/large")).json()
        assert (found["depth"], found["unsettled"]) == (8, 0)
    log = broker.log
    assert "nothing came from it for 5 s" in log
    assert "it has read nothing for 5 s" in log
    await check_harmless(broker)


async def test_an_address_whose_broker_refuses_the_link_as_one_too_many_is_connected_to_again(
    broker: NodeProcess,
) -> None:
    dialled = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1
        writer.write(f.encode(f.Refuse("duplicate", "another connection between these brokers is kept")))
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with stranger(port_of(broker)) as member:
            await member.log_in(SETTINGS, brokers=[address])
            await until(lambda: dialled > 1)
    await becomes(lambda: has_no_links(broker), True)


def memory_mib(broker: NodeProcess) -> float:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
