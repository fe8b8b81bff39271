"""Reading large messages back from the journal: however they are asked for, memory stays within a budget and
other clients are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import websockets

from broker_app.config import MIB
from tests.support.node_process import NodeProcess, Nodes, nodes_in
from tests.support.patience import patient

COUNT = 14
_RECEIPT = re.compile(rb'"receipt":"(r1\.[0-9a-f]+\.[0-9a-f]+)"')


class Large:
    """A queue of `COUNT` messages of so many MiB, none of which is in the memory of its node."""

    def __init__(self, node: NodeProcess, mib: int) -> None:
        self.node = node
        self.mib = mib
        self.seqs: list[int] = []
        self._before_mib = 0.0

    async def fill(self, **headers: str) -> None:
        async with self.rest() as rest:
            body = bytes(range(256)) * (self.mib * MIB // 256)
            headers |= {"content-type": "application/octet-stream"}
            for _ in range(COUNT):
                answer = await rest.post("/queues/large/messages", content=body, headers=headers)
                assert answer.status_code == 201, answer.text
                self.seqs.append(answer.json()["seq"])

    def rest(self) -> httpx.AsyncClient:
        client = self.node.rest()
        client.timeout = httpx.Timeout(patient(120.0))
        return client

    def memory_mib(self, figure: str) -> float:
        """`VmRSS` or `VmHWM` of the node."""
        status = Path(f"/proc/{self.node.pid}/status").read_text()
        return int(status.split(f"{figure}:")[1].split()[0]) / 1024

    def restart(self) -> None:
        """Have nothing in memory, and measure from now on."""
        self.node.kill()
        self.node.start()
        Path(f"/proc/{self.node.pid}/clear_refs").write_text("5")
        self._before_mib = self.memory_mib("VmRSS")

    @property
    def peak_mib(self) -> float:
        """Memory beyond that of the node when it had started."""
        return self.memory_mib("VmHWM") - self._before_mib

    async def has(self, **wanted: int) -> None:
        """Wait until queues have so many messages."""
        async with self.rest() as rest, asyncio.timeout(patient(120.0)):
            for name, count in wanted.items():
                while (await rest.get(f"/queues/{name}")).json().get("depth") != count:
                    await asyncio.sleep(0.05)

    async def busy_s(self) -> float:
        """The longest that the node has held up its loop in the last minute, in processor time of the loop's
        thread, which a busy machine does not change."""
        async with self.rest() as rest:
            busy: float = (await rest.get("/stats")).json()["node"]["loop_busy_1m_s"]
        return busy


Plane = Callable[[Large], Awaitable[None]]


# ---------------------------------------------------------------------- the ways to read


async def rest_seqs(large: Large) -> None:
    """REST, by number, until all were received."""
    left = large.seqs
    async with large.rest() as rest:
        while left:
            answer = await rest.post("/queues/large/receive", json={"seqs": left, "ack": "auto"})
            assert answer.status_code == 200, answer.text
            missing = json.loads(answer.content[answer.content.rindex(b'"missing":') + 10 : -1])
            assert {one["status"] for one in missing} <= {"left"}
            assert len(missing) < len(left)
            left = [one["seq"] for one in missing]


async def rest_max(large: Large) -> None:
    """REST, as many as there are."""
    received = 0
    async with large.rest() as rest:
        while received < COUNT:
            body = {"max": COUNT, "ack": "auto", "wait_s": 20}
            answer = await rest.post("/queues/large/receive", json=body)
            assert answer.status_code == 200, answer.text
            count = len(_RECEIPT.sub(b"", answer.content).split(b'"body_base64"')) - 1
            assert count
            received += count


async def sse(large: Large) -> None:
    """Server-sent events, settled by REST."""
    async with large.rest() as rest, large.rest() as settling:
        events = rest.stream("GET", "/queues/large/events?credit=100")
        async with events as stream:
            assert stream.status_code == 200
            received, head = 0, b""
            async for chunk in stream.aiter_bytes():
                head = (head + chunk)[-200_000:]
                for found in _RECEIPT.findall(head):
                    await settling.post("/leases/settle", json={"ack": [found.decode()]})
                    received += 1
                head = head[-200:] if not _RECEIPT.search(head) else b""
                if received == COUNT:
                    return


@contextlib.asynccontextmanager
async def json_session(large: Large) -> AsyncIterator[websockets.ClientConnection]:
    url = large.node.url.replace("http", "ws") + "/ws"
    protocols = [websockets.Subprotocol("mom.v1.json")]
    async with websockets.connect(
        url, subprotocols=protocols, max_size=None, compression=None, proxy=None, ping_interval=None
    ) as socket:
        login = {"op": "login", "login": large.node.user, "passcode": large.node.password}
        await socket.send(json.dumps(login))
        await socket.recv()
        yield socket


async def json_seqs(large: Large) -> None:
    """The JSON protocol, by number, as a callback broker fetches."""
    left = large.seqs
    async with json_session(large) as socket:
        while left:
            receive = {"op": "receive", "ref": "1", "queue": "large", "seqs": left, "exact": True}
            await socket.send(json.dumps(receive))
            answer = json.loads(await socket.recv())
            assert answer["items"], answer
            for one in answer["items"]:
                await socket.send(json.dumps({"op": "ack", "receipt": one["receipt"]}))
            left = [one["seq"] for one in answer["missing"]]


async def json_deliver(large: Large) -> None:
    """The JSON protocol, by credit."""
    async with json_session(large) as socket:
        subscribe = {"op": "subscribe", "id": "1", "queue": "large", "credit": 1000}
        await socket.send(json.dumps(subscribe))
        for _ in range(COUNT):
            event = await socket.recv(decode=False)
            receipt = _RECEIPT.search(event)
            assert receipt is not None, event[:500]
            await socket.send(json.dumps({"op": "ack", "receipt": receipt[1].decode()}))


async def json_held(large: Large) -> None:
    """The JSON protocol, by credit; all are acknowledged at the end."""
    async with json_session(large) as socket:
        subscribe = {"op": "subscribe", "id": "1", "queue": "large", "credit": 1000}
        await socket.send(json.dumps(subscribe))
        receipts = []
        for _ in range(COUNT):
            receipt = _RECEIPT.search(await socket.recv(decode=False))
            assert receipt is not None
            receipts.append(receipt[1].decode())
        for one in receipts:
            await socket.send(json.dumps({"op": "ack", "receipt": one}))


@contextlib.asynccontextmanager
async def stomp_session(large: Large) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection with a subscription to the queue, with high credit."""
    reader, writer = await asyncio.open_connection(large.node.host, large.node.stomp_port)
    login = f"login:{large.node.user}\npasscode:{large.node.password}\n"
    subscribe = "id:1\ndestination:/queue/large\nack:client-individual\ncredit:1000\n"
    writer.write(f"CONNECT\naccept-version:1.2\nhost:/\n{login}\n\0SUBSCRIBE\n{subscribe}\n\0".encode())
    yield reader, writer
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def next_ack(reader: asyncio.StreamReader) -> str:
    """The `ack` of the next MESSAGE."""
    while True:
        head = (await reader.readuntil(b"\n\n")).strip().decode()
        headers = dict(line.split(":", 1) for line in head.splitlines() if ":" in line)
        left = int(headers.get("content-length", 0)) + 1
        while left:
            left -= len(await reader.read(min(left, MIB)))
        if head.startswith("MESSAGE"):
            return headers["ack"]


async def stomp(large: Large) -> None:
    """STOMP with high credit."""
    async with stomp_session(large) as (reader, writer):
        for _ in range(COUNT):
            writer.write(f"ACK\nid:{await next_ack(reader)}\n\n\0".encode())


async def stomp_held(large: Large) -> None:
    """STOMP with high credit; all are acknowledged at the end."""
    await settle_together(large, "ACK\n")


async def settle_together(large: Large, frame: str) -> None:
    """Take all messages, and then settle each."""
    async with stomp_session(large) as (reader, writer):
        acks = [await next_ack(reader) for _ in range(COUNT)]
        for ack in acks:
            writer.write(f"{frame}id:{ack}\n\n\0".encode())
        writer.write(b"DISCONNECT\nreceipt:1\n\n\0")
        await reader.readuntil(b"RECEIPT")


async def returned(large: Large) -> None:
    """A consumer returns what it has, and all is delivered again."""
    await settle_together(large, "NACK\n")
    await stomp(large)


async def left(large: Large) -> None:
    """A consumer ends its connection with all unsettled, and all is delivered again."""
    async with stomp_session(large) as (reader, _):
        for _ in range(COUNT):
            await next_ack(reader)
    await stomp(large)


async def rejected(large: Large) -> None:
    """A consumer rejects all messages, which become dead letters."""
    await settle_together(large, "NACK\nrequeue:false\n")
    await large.has(**{"large": 0, "large.dead": COUNT})


async def exhausted(large: Large) -> None:
    """All messages were delivered too often, and become dead letters."""
    large.node.destinations["/queue/large"] = {"max_attempts": 1, "max_bytes": 0}
    large.restart()
    async with stomp_session(large) as (reader, _):
        for _ in range(COUNT):
            await next_ack(reader)
    await large.has(**{"large": 0, "large.dead": COUNT})


async def expired(large: Large) -> None:
    """All messages expire, and become dead letters."""
    await large.has(**{"large": 0, "large.dead": COUNT})


async def retry(large: Large) -> None:
    """A job returns dead letters to their queue."""
    await rejected(large)
    large.restart()
    await job(large, op="retry", source="large.dead")
    await large.has(**{"large": COUNT, "large.dead": 0})


async def job(large: Large, source: str = "large", **wish: object) -> None:
    async with large.rest() as rest:
        answer = await rest.post("/jobs", json={"source": source, **wish})
        assert answer.status_code == 202, answer.text
        url = f"/jobs/{answer.json()['id']}"
        async with asyncio.timeout(patient(120.0)):
            while (shown := (await rest.get(url)).json())["state"] in ("pending", "running"):
                await asyncio.sleep(0.05)
        assert shown["state"] in ("done", "stopped"), shown  # an export has at most 1 GiB


async def export(large: Large) -> None:
    """An export."""
    await job(large, op="export")


async def copy(large: Large) -> None:
    """A copy into another queue."""
    await job(large, op="copy", target="other")


async def move(large: Large) -> None:
    """A move into another queue."""
    await job(large, op="move", target="other")


async def browse(large: Large) -> None:
    """Pages of a list, one behind the other."""
    await pages(large, "limit=100")


async def search(large: Large) -> None:
    """A search through all bodies."""
    await pages(large, "limit=100&q=nowhere")


async def pages(large: Large, query: str) -> None:
    scanned, after = 0, ""
    async with large.rest() as rest:
        while scanned < COUNT:
            answer = await rest.get(f"/queues/large/messages?{query}{after}")
            assert answer.status_code == 200, answer.text
            page = answer.json()
            scanned += page["scanned"]
            after = f"&after={page['next']}"


PLANES: tuple[Plane, ...] = (
    *(rest_seqs, rest_max, sse, json_seqs, json_deliver, json_held, stomp, stomp_held, export, copy, move),
    *(browse, search, left, rejected),
)


# ---------------------------------------------------------------------- the tests


@pytest.fixture
def nodes(processes: None, tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as made:
        yield made


async def check(nodes: Nodes, plane: Plane, mib: int, most_mib: float, most_s: float) -> None:
    node = nodes.node("large")
    large = Large(node, mib)
    for name in ("large", "large.dead", "other"):  # it is memory that is measured
        node.destinations[f"/queue/{name}"] = {"max_bytes": 0, "dead_letter_expired": True}
    node.start()
    if plane is expired:
        await large.fill(**{"mom-expires-s": str(1 + mib / 2)})
    else:
        await large.fill()
    large.restart()
    await plane(large)
    busy_s = await large.busy_s()
    print(f"\n{plane.__name__}: +{large.peak_mib:.0f} MiB, busy {busy_s:.3f} s")
    assert large.peak_mib <= most_mib and busy_s <= most_s


@pytest.mark.process
@pytest.mark.parametrize("plane", PLANES, ids=lambda plane: plane.__name__)
async def test_reading_large_messages_costs_the_memory_of_a_few(nodes: Nodes, plane: Plane) -> None:
    # A few of them, and 16 MiB that a job and the allocators of threads keep. What comes into another queue
    # stays in memory there.
    few = COUNT + 6 if plane in (copy, move, rejected) else 6
    await check(nodes, plane, mib=4, most_mib=16 + 4 * few, most_s=0.25)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    "plane", [*PLANES, returned, exhausted, expired, retry], ids=lambda plane: plane.__name__
)
async def test_reading_the_largest_messages_costs_300_mib(nodes: Nodes, plane: Plane) -> None:
    await check(nodes, plane, mib=60, most_mib=300, most_s=0.25)
