"""Random kills, takeovers and cuts of a main and its mirror, in virtual time, and a client at work.

Brokers share a journal that knows dedup-ids, as the real ones do. Afterwards each message that was sent is
stored exactly once, each transaction as a whole or not at all, as its error says, and no connection is left.
"""

import asyncio
import random
from typing import Any

import pytest

import mom_client
from mom_client.connection.transport import PipeTransport, Transport
from mom_client.stomp import Frame, Parser, encode
from mom_client.stomp import frame as wire
from tests.support.chance import FIRST_SEED, rounds

OPTIONS = (
    "",
    "randomize=false",
    "backup=true&maxReconnectDelay=300",
    "priorityBackup=true",
    "priorityBackup=true&backup=true&randomize=false",
    "initialReconnectDelay=500&maxReconnectDelay=1000&useExponentialBackOff=false",
)
NODES = ("stomp://a:1", "stomp://b:2")


class Pipe:
    """A connection to a node: it takes its time for each frame, and may end before, within or after one."""

    def __init__(self, cluster: "Cluster", address: str) -> None:
        self.cluster = cluster
        self.address = address
        self.closed = False  # by the client
        self.cut = False  # by the node
        self._parser = Parser()
        self._inbox: asyncio.Queue[Frame] = asyncio.Queue()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._open: dict[str, list[Frame]] = {}  # by transaction
        self._task = asyncio.create_task(self._work())

    async def send(self, data: bytes) -> None:
        for item in self._parser.receive(data):
            assert isinstance(item, Frame), item
            self._inbox.put_nowait(item)

    async def receive(self) -> bytes:
        return await self._outbox.get()

    async def close(self) -> None:
        self.closed = True
        self._task.cancel()
        self._outbox.put_nowait(b"")

    def end(self) -> None:
        """The node is killed, or cuts the connection."""
        self.cut = True
        self._task.cancel()
        self._outbox.put_nowait(b"")

    def refuse(self, active: str) -> None:
        self.say(wire.ERROR, {"active": active, "code": "MAIN_ACTIVE"})
        self.end()

    def say(self, command: bytes, headers: dict[str, str], body: bytes = b"") -> None:
        self._outbox.put_nowait(encode(command, headers, body))

    async def _work(self) -> None:
        chance = self.cluster.chance
        while True:
            frame = await self._inbox.get()
            if chance.random() < 0.2:
                await asyncio.sleep(chance.expovariate(20))
            if frame.command == wire.CONNECT:
                if not self.cluster.serves(self.address):
                    self.refuse(self.cluster.active)
                self.say(wire.CONNECTED, {"version": "1.2", "heart-beat": "0,0", "server": "MOM/1"})
                continue
            self._carry_out(frame)
            if chance.random() < 0.2:
                await asyncio.sleep(chance.expovariate(20))  # the answer may be lost
            if frame.receipt is not None:
                self.say(wire.RECEIPT, {"receipt-id": frame.receipt.decode()})

    def _carry_out(self, frame: Frame) -> None:
        assert self.cluster.serves(self.address), "a node that does not serve was asked"
        transaction = frame.headers.get("transaction", "")
        if frame.command == wire.BEGIN:
            self._open[transaction] = []
        elif frame.command == wire.SEND and transaction:
            self._open[transaction].append(frame)
        elif frame.command == wire.SEND:
            self.cluster.store(frame)
        elif frame.command == wire.COMMIT:
            for part in self._open.pop(transaction):
                self.cluster.store(part)


class Cluster:
    """A main and its mirror: `active` serves, or is the last that did; with `both` all serve that are up."""

    def __init__(self, chance: random.Random, both: bool = False) -> None:
        self.chance = chance
        self.both = both
        self.up = set(NODES)
        self.active = NODES[0]
        self.serving = True
        self.pipes: list[Pipe] = []
        self.stored: list[bytes] = []
        self._ids: set[str] = set()

    def serves(self, address: str) -> bool:
        return self.both or (self.serving and self.active == address)

    def store(self, frame: Frame) -> None:
        id = frame.headers["dedup-id"] if "transaction" not in frame.headers else frame.body.decode()
        if id not in self._ids:
            self._ids.add(id)
            self.stored.append(frame.body)

    async def open(self, address: str) -> Transport:
        await asyncio.sleep(self.chance.uniform(0, 0.05))
        if address not in self.up:
            raise ConnectionRefusedError(f"nobody at {address}")
        pipe = Pipe(self, address)
        self.pipes.append(pipe)
        return PipeTransport(pipe)

    async def kill(self) -> None:
        """The main dies, the mirror takes over when the lease has expired, the old main returns as mirror."""
        dead = self.active
        self.up.discard(dead)
        self.serving = False
        self._end_all(dead)
        await asyncio.sleep(self.chance.uniform(0.5, 3))
        self.active = next(node for node in NODES if node != dead)
        self.serving = True
        await asyncio.sleep(self.chance.uniform(0.1, 3))
        self.up.add(dead)

    async def switch_over(self) -> None:
        """The main ends service and names the mirror, which serves from now on or a little later."""
        old = self.active
        new = next(node for node in NODES if node != old)
        self.serving = False
        for pipe in self.pipes:
            if pipe.address == old and not pipe.cut:
                pipe.refuse(new)
        await asyncio.sleep(self.chance.choice((0, 0.3)))
        self.active, self.serving = new, True

    async def order(self) -> None:
        """Each broker sends its clients to the other one."""
        for pipe in self.pipes:
            other = next(node for node in NODES if node != pipe.address)
            if not pipe.cut and not pipe.closed:
                pipe.say(
                    wire.MESSAGE,
                    {"subscription": "$mom.failover", "message-id": "1"},
                    b'{"reconnect": "%b"}' % other.encode(),
                )

    async def cut(self) -> None:
        """The network breaks, and works again."""
        self._end_all(self.chance.choice(NODES) if self.both else self.active)

    def _end_all(self, address: str) -> None:
        for pipe in self.pipes:
            if pipe.address == address:
                pipe.end()


async def send_all(mom: mom_client.Client, stop: asyncio.Event, chance: random.Random) -> int:
    """The number of messages sent: none fails, since sends wait for ever."""
    sent = 0
    while not stop.is_set():
        batch = range(sent, sent + chance.randint(1, 10))
        await asyncio.gather(*(mom.send("/queue/a", b"%d" % number) for number in batch))
        sent = batch.stop
        await asyncio.sleep(chance.expovariate(10))
    return sent


async def transact_all(
    mom: mom_client.Client, stop: asyncio.Event, chance: random.Random
) -> dict[bytes, str]:
    """By the first of its two bodies, the outcome of each transaction."""
    outcomes: dict[bytes, str] = {}
    while not stop.is_set():
        name = b"t%d" % len(outcomes)
        try:
            async with mom.transaction() as tx:
                await tx.send("/queue/b", name)
                await asyncio.sleep(chance.expovariate(10))
                await tx.send("/queue/b", name + b"'")
            outcomes[name] = "committed"
        except mom_client.TransactionInDoubt:
            outcomes[name] = "in doubt"
        except mom_client.ConnectionLost:
            outcomes[name] = "aborted"
        await asyncio.sleep(chance.expovariate(5))
    return outcomes


def check(stored: list[bytes], sent: int, outcomes: dict[bytes, str]) -> None:
    messages = [body for body in stored if not body.startswith(b"t")]
    assert sorted(map(int, messages)) == list(range(sent))
    for name, outcome in outcomes.items():
        counts = stored.count(name), stored.count(name + b"'")
        expected = {"committed": [(1, 1)], "aborted": [(0, 0)], "in doubt": [(0, 0), (1, 1)]}[outcome]
        assert counts in expected, (name, outcome)


@pytest.mark.parametrize("both", [False, True], ids=["mirror", "both"])
@pytest.mark.parametrize("number", rounds(6, 400))
async def test_storm(number: int, both: bool) -> None:
    chance = random.Random(FIRST_SEED + number)
    cluster = Cluster(chance, both)
    happenings = (cluster.kill, cluster.cut, cluster.order if both else cluster.switch_over)
    events: list[mom_client.ConnectionEvent] = []
    url = f"failover:({','.join(NODES)})?{OPTIONS[number % len(OPTIONS)]}"
    options: dict[str, Any] = {"opener": cluster.open, "listener": events.append, "heart_beat_s": 0}
    stop = asyncio.Event()
    async with asyncio.timeout(3600), mom_client.connect(url, **options) as mom:
        sending = asyncio.create_task(send_all(mom, stop, chance))
        transacting = asyncio.create_task(transact_all(mom, stop, chance))
        for _ in range(15):
            await asyncio.sleep(chance.expovariate(0.5))
            await chance.choice(happenings)()
        stop.set()
        sent, outcomes = await sending, await transacting
    check(cluster.stored, sent, outcomes)
    assert sent > 100 and "committed" in outcomes.values()
    assert all(pipe.closed for pipe in cluster.pipes)
    states = [event.kind for event in events if event.kind != "reconnect failed"]
    assert states[-1] == "closed"
    connected = True
    for state in states:
        if state != "closing":
            assert connected == (state == "closed"), states
            connected = state == "reconnected"
