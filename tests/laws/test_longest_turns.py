"""An ordinary user who sends 1 MiB of anything holds up the broker, and with it all others, for a moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from random import Random

import httpx
import pytest
import websockets

from broker_app.net.policy.policy import UserFacts
from tests.support.node_process import NodeProcess, Nodes, nodes_in
from tests.support.patience import patient
from tests.support.staged_rows import MEDIA_TYPE, stage_id, to

MIB = 1024 * 1024
#: processor time at a stretch. What the broker looks at in all queues, every few seconds, is not divided yet:
#: alerts, the sweep, the sum of backlogs, the state of all for a new subscription
MOST_S, MOST_OF_ALL_S = 0.02, 0.2
#: queues that a listing, a browse or a snapshot has to go through
QUEUES = 20_000
OF_ALL = "20,000 queues"
#: what makes many queues
MAKE_QUEUES = "SEND to a queue of its own", "SEND in a transaction", "notifications"
USER = "ann"

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:ann\n\n\0"
LAST = b"SEND\ndestination:/queue/last\nreceipt:last\n\n\0"

#: returns what came of it
Attack = Callable[[NodeProcess], Awaitable[str]]


def filled(each: Callable[[int], bytes]) -> bytes:
    """1 MiB of frames, each with its number."""
    data = bytearray()
    number = 0
    while len(data) < MIB:
        data += each(number)
        number += 1
    return bytes(data)


async def over_tcp(node: NodeProcess, data: bytes) -> str:
    """Send STOMP frames, and wait for the receipt of the last one or a refusal; returns which it was."""
    reader, writer = await asyncio.open_connection(node.host, node.stomp_port)
    try:
        writer.write(CONNECT)
        assert b"CONNECTED" in await reader.readuntil(b"\0")
        writer.write(data + LAST)
        return await answer_from(partial(reader.read, 1 << 18))
    except ConnectionError:
        return "closed"
    finally:
        writer.close()


async def answer_from(read: Callable[[], Awaitable[bytes]]) -> str:
    """The receipt of the last frame, or the refusal that came instead."""
    received = b""
    while piece := await read():
        received = received[-1_000:] + piece
        if b"receipt-id:last" in received:
            return "done"
        if b"ERROR\n" in received:
            return received[received.index(b"ERROR\n") :].split(b"message:")[-1][:70].split(b"\n")[0].decode()
    return "closed"


def stomp(each: Callable[[int], bytes], before: bytes = b"", after: bytes = b"") -> Attack:
    async def attack(node: NodeProcess) -> str:
        return await over_tcp(node, before + filled(each) + after)

    return attack


def over_web_socket(each: Callable[[int], bytes]) -> Attack:
    """STOMP in one message of a WebSocket."""

    async def attack(node: NodeProcess) -> str:
        url = f"ws://{node.host}:{node.port}/ws"
        async with websockets.connect(url, subprotocols=["v12.stomp"], max_size=None) as link:  # type: ignore[list-item]
            await link.send(CONNECT)
            await link.recv()
            await link.send(filled(each) + LAST)

            async def read() -> bytes:
                piece = await link.recv()
                return piece.encode() if isinstance(piece, str) else piece

            return await answer_from(read)

    return attack


def in_json(each: Callable[[int], dict[str, object]]) -> Attack:
    """Operations in messages of 64 KiB."""

    async def attack(node: NodeProcess) -> str:
        url = f"ws://{node.host}:{node.port}/ws"
        data = filled(lambda number: json.dumps(each(number)).encode())
        async with websockets.connect(url, subprotocols=["mom.v1.json"], max_size=None) as link:  # type: ignore[list-item]
            await link.send(json.dumps({"op": "login", "login": USER, "passcode": USER}))
            await link.recv()
            try:
                await link.send(data)
                await link.send(json.dumps({"op": "ping", "ref": "last"}))
                async for answer in link:
                    if b'"last"' in (answer.encode() if isinstance(answer, str) else answer):
                        return "done"
            except websockets.ConnectionClosed as closed:
                return str(closed)[:70]
            return "closed"

    return attack


def client(node: NodeProcess) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"{node.url}/api/v1", auth=httpx.BasicAuth(USER, USER), timeout=patient(60)
    )


def rest(method: str, path: str, content: Callable[[], bytes] = lambda: b"", **headers: str) -> Attack:
    async def attack(node: NodeProcess) -> str:
        async with client(node) as http:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            reply = await http.request(method, path, content=content(), headers=named)
            assert reply.status_code < 500, reply.text
            return f"{reply.status_code} {reply.text[:60]}"

    return attack


def over_queues(attack: Attack) -> Attack:
    """`attack` where there are many queues."""

    async def prepared(node: NodeProcess) -> str:
        frames = (b"SEND\ndestination:/queue/many.%d\n\n\0" % number for number in range(QUEUES))
        await over_tcp(node, b"".join(frames))
        return await attack(node)

    return prepared


async def bulk(node: NodeProcess) -> str:
    async with client(node) as http:
        stage = stage_id()
        rows = 10_000
        body = to("/queue/a", *[b"x" * 90] * rows)
        staged = await http.post(
            f"/bulk/stage?id={stage}", content=body, headers={"content-type": MEDIA_TYPE}
        )
        wanted = {"producer": "p", "batch": 0, "stages": [{"id": stage, "parts": 1, "rows": rows}]}
        done = await http.post("/bulk/commit", json=wanted)
        return f"{staged.status_code} {done.status_code} {done.text[:100]}"


def shuffled_ends() -> bytes:
    ids = list(range(5_000))
    begin = b"".join(b"SUBSCRIBE\nid:%d\ndestination:/queue/a\n\n\0" % id for id in ids)
    Random(1).shuffle(ids)
    return begin + b"".join(b"UNSUBSCRIBE\nid:%d\n\n\0" % id for id in ids)


def selector(number: int, size: int = 1_000) -> str:
    """A long condition that no other one equals."""
    terms = [f"a{number}='x'"]
    while len(" OR ".join(terms)) < size - 20:
        terms.append(f"b{len(terms)}<>{number}")
    return " OR ".join(terms)


SLOW_READERS = b"".join(
    b"SUBSCRIBE\nid:s%d\ndestination:/topic/t\nack:client-individual\nprefetch-count:1\n\n\0" % n
    for n in range(100)
)
LINE = b'{"destination":"/queue/a","body":"x"}\n'

ATTACKS: dict[tuple[str, str], Attack] = {
    ("STOMP", "SEND to one queue"): stomp(lambda n: b"SEND\ndestination:/queue/a\n\n\0"),
    ("STOMP", "SEND with a header of its own"): stomp(
        lambda n: b"SEND\ndestination:/queue/a\nh:%d\n\n\0" % n
    ),
    ("STOMP", "SEND to a queue of its own"): stomp(lambda n: b"SEND\ndestination:/queue/a.%d\n\n\0" % n),
    ("STOMP", "SEND of 1 MiB"): stomp(
        lambda n: b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n%b\0" % (MIB, bytes(MIB))
    ),
    ("STOMP", "SEND to a topic with 100 slow readers"): stomp(
        lambda n: b"SEND\ndestination:/topic/t\n\n\0", before=SLOW_READERS
    ),
    ("STOMP", "SEND with a group"): stomp(
        lambda n: b"SEND\ndestination:/queue/a\nmessage-group:%d\n\n\0" % n,
        before=b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0",
    ),
    ("STOMP", "SEND with a delay"): stomp(lambda n: b"SEND\ndestination:/queue/a\ndelay:1000\n\n\0"),
    ("STOMP", "SEND to a profile"): stomp(lambda n: b"SEND\ndestination:/profile/name = '%d'\n\n\0" % n),
    ("STOMP", "SEND in a transaction"): stomp(
        lambda n: b"SEND\ndestination:/queue/a.%d\ntransaction:t\n\n%b\0" % (n, b"x" * 70),
        before=b"BEGIN\ntransaction:t\n\n\0",
        after=b"COMMIT\ntransaction:t\n\n\0",
    ),
    ("STOMP", "SUBSCRIBE to a queue"): stomp(lambda n: b"SUBSCRIBE\nid:%d\ndestination:/queue/a\n\n\0" % n),
    ("STOMP", "SUBSCRIBE to a topic"): stomp(lambda n: b"SUBSCRIBE\nid:%d\ndestination:/topic/a\n\n\0" % n),
    ("STOMP", "SUBSCRIBE with a long selector"): stomp(
        lambda n: b"SUBSCRIBE\nid:%d\ndestination:/topic/a\nselector:%b\n\n\0" % (n, selector(n).encode())
    ),
    ("STOMP", "SUBSCRIBE with a selector"): stomp(
        lambda n: b"SUBSCRIBE\nid:%d\ndestination:/queue/a\nselector:a='%d'\n\n\0" % (n, n)
    ),
    ("STOMP", "UNSUBSCRIBE in any order"): lambda node: over_tcp(node, shuffled_ends()),
    ("STOMP", "ACK of nothing"): stomp(lambda n: b"ACK\nid:%d\n\n\0" % n),
    ("STOMP", "line feeds"): stomp(lambda n: b"\n" * 1_000),
    ("STOMP", "header lines"): stomp(
        lambda n: b"SEND\ndestination:/queue/a\n" + b"".join(b"h%d:\n" % i for i in range(80)) + b"\n\0"
    ),
    ("STOMP", "browse"): stomp(
        lambda n: b"SUBSCRIBE\nid:%d\ndestination:/queue/a\nbrowser:true\n\n\0" % n,
        before=b"SEND\ndestination:/queue/a\n\n\0" * 100,
    ),
    ("WebSocket", "SEND to one queue"): over_web_socket(lambda n: b"SEND\ndestination:/queue/a\n\n\0"),
    ("WebSocket", "SUBSCRIBE with a long selector"): over_web_socket(
        lambda n: b"SUBSCRIBE\nid:%d\ndestination:/topic/a\nselector:%b\n\n\0" % (n, selector(n).encode())
    ),
    ("JSON", "ping"): in_json(lambda n: {"op": "ping"}),
    ("JSON", "subscribe to a queue"): in_json(lambda n: {"op": "subscribe", "id": f"{n}", "queue": "a"}),
    ("JSON", "notifications"): in_json(
        lambda n: {"op": "subscribe", "id": f"{n}", "queue": f"a.{n}", "mode": "notify"}
    ),
    ("JSON", "subscribe with a long selector"): in_json(
        lambda n: {"op": "subscribe", "id": f"{n}", "topic": "a", "selector": selector(n)}
    ),
    ("JSON", "register"): in_json(lambda n: {"op": "register", "service": f"s{n}"}),
    ("JSON", "ack of nothing"): in_json(lambda n: {"op": "ack", "receipt": f"{n}"}),
    ("REST", "publish 1 MiB"): rest("POST", "/queues/a/messages", lambda: bytes(MIB)),
    ("REST", "batch of lines"): rest(
        "POST",
        "/queues/a/messages/batch",
        lambda: filled(lambda n: b'{"body":"x"}\n'),
        content_type="application/x-ndjson",
    ),
    ("REST", "batch in JSON"): rest(
        "POST",
        "/queues/a/messages/batch",
        lambda: json.dumps([{"body": "x" * 1_000}] * 1_000).encode(),
        content_type="application/json",
    ),
    ("REST", "CloudEvents"): rest(
        "POST",
        "/queues/a/messages",
        lambda: json.dumps(
            [{"specversion": "1.0", "id": f"{n}", "source": "/s", "type": "t"} for n in range(1_000)]
        ).encode(),
        content_type="application/cloudevents-batch+json",
    ),
    ("REST", "rows in bulk"): bulk,
    (OF_ALL, "list"): over_queues(rest("GET", "/queues")),
    (OF_ALL, "list by depth"): over_queues(rest("GET", "/queues?limit=200&sort=-depth")),
    (OF_ALL, "statistics"): over_queues(rest("GET", "/stats")),
    (OF_ALL, "$mom with its state"): over_queues(
        lambda node: over_tcp(node, b"SUBSCRIBE\nid:1\ndestination:/topic/$mom.>\nsnapshot:true\n\n\0")
    ),
}


async def busy_s(node: NodeProcess) -> float:
    async with node.rest() as http:
        reply = await http.get("/stats")
        found: float = reply.json()["node"]["loop_busy_1m_s"]
        return found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with nodes_in(tmp_path_factory.mktemp("turns")) as made:
        yield made


@pytest.mark.soak
@pytest.mark.parametrize(("plane", "kind"), ATTACKS, ids=list(map(" ".join, ATTACKS)))
async def test_nothing_that_a_user_sends_is_worked_on_for_long(nodes: Nodes, plane: str, kind: str) -> None:
    node = nodes.node(f"{plane}-{kind}".replace(" ", "-").replace(",", "").replace("$", ""))
    node.users[USER] = UserFacts(USER, USER)
    node.start()
    try:
        async with asyncio.timeout(patient(60)):
            came = await ATTACKS[plane, kind](node)
        await asyncio.sleep(0.2)
        found = await busy_s(node)
        print(f"\n| {plane} | {kind} | {found * 1000:.0f} ms | {came!r} |")
        assert node.running
        assert found <= (MOST_OF_ALL_S if plane == OF_ALL or kind in MAKE_QUEUES else MOST_S)
    finally:
        node.kill()
