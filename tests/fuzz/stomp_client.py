"""A client that sends valid, nearly valid and invalid STOMP, and checks only what it may receive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random

from mom_client.stomp.frame import MESSAGE, Frame
from mom_client.stomp.parser import Parser
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient

#: names below which different users have different rights
OPEN, PRIVATE, FORBIDDEN = "open", "dora", "secret"
QUEUES = [f"/queue/{below}.{name}" for below in (OPEN, PRIVATE, FORBIDDEN) for name in "abc"]
TOPICS = [f"/topic/{below}.{name}" for below in (OPEN, PRIVATE, FORBIDDEN) for name in ("x", "y", "x.deep")]
FILTERS = ["/topic/>", "/topic/open.*", "/topic/open.>", "/topic/*.x", "/topic/$mom.>", "/topic/$mom.stats.>"]
ODD = [
    "/queue/", "/topic/$mom.stats", "/queue/open.a.dead", "/temp-queue/r", "/temp-topic/r", "queue", "",
    "/queue/storeAndForward:b/queue/x", "/queue/storeAndForwardSyncQueue", "/topic/open.*.>.x", "/x/y",
]  # fmt: skip
SELECTORS = [
    "n > 5", "n BETWEEN 1 AND 3 OR name LIKE 'a%'", "name IN ('a', 'b') AND n IS NOT NULL", "n * n / 0 = 1",
    "name LIKE '%_a_%b%'", "NOT (n = 1)", "n >", "JMSPriority > 4", "(((n", "n * 1e308 * 1e308 > 0",
]  # fmt: skip
#: where a client hears what was refused to it
REFUSALS = "/user/$mom.refused"
NUMBERS = ["0", "1", "5", "1000", "-1", "x", "99999999999999999999", "1e9", "4611686018427387904", ""]
TRUTHS = ["true", "false", "TRUE", "perhaps", ""]
NAMES = ["r", "s", "", "\u00fc", "a" * 300]


class StompFuzz:
    """One user's connections, one after the other. `may_get` is whether a destination may be delivered to
    it."""

    def __init__(
        self,
        broker: BrokerProcess,
        user: str,
        password: str,
        random: Random,
        may_get: Callable[[str], bool],
    ) -> None:
        self._broker = broker
        self._login = f"login:{user}\npasscode:{password}\n"
        self._user = user
        self._random = random
        self._may_get = may_get
        self._acks: list[str] = []
        self.broken: list[str] = []
        self.frames_sent = self.frames_got = 0

    async def run(self) -> None:
        """Connect, talk and leave, for ever."""
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(patient(20)):
                    await self._connection()
            await asyncio.sleep(0.02)

    async def _connection(self) -> None:
        random = self._random
        reader, writer = await asyncio.open_connection(self._broker.host, self._broker.stomp_port)
        self._acks.clear()
        version, soft = random.choice(["1.0", "1.1", "1.2", "1.2"]), random.choice(["true", "false"])
        reading = asyncio.create_task(self._read(reader, version))
        try:
            beat = random.choice(["0,0", "0,0", "1000,1000", "0,500"])
            writer.write(
                f"CONNECT\naccept-version:{version}\nhost:/\nheart-beat:{beat}\nmom-soft-errors:{soft}\n"
                f"{self._login}\n\0".encode()
            )
            for _ in range(random.randrange(1, 60)):
                writer.write(b"".join(self._frame() for _ in range(random.choice([1, 1, 3, 30]))))
                if random.random() < 0.01:
                    writer.write(random.randbytes(random.randrange(1, 200)))
                await writer.drain()
                await asyncio.sleep(random.choice([0, 0.005, 0.02, 0.05]))  # others have a turn, too
                if reading.done():
                    break
            if random.random() < 0.3:
                writer.write(b"DISCONNECT\nreceipt:bye\n\n\0")
                await writer.drain()
            if random.random() < 0.1:
                writer.transport.abort()
        finally:
            reading.cancel()
            writer.close()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader, version: str) -> None:
        parser = Parser(role="client", strict=True)
        parser.version = version
        while data := await reader.read(65536):
            for frame in parser.receive(data):
                if not isinstance(frame, Frame):
                    self.broken.append(f"the broker wrote what is no frame: {frame}")
                elif frame.command == MESSAGE:
                    self._take(frame)
            if self._random.random() < 0.01:
                await asyncio.sleep(0.3)  # a client that is slow for a moment

    def _take(self, frame: Frame) -> None:
        self.frames_got += 1
        destination = frame.headers.get("destination", "")
        if destination == REFUSALS:
            return  # its own, for it asked for soft errors
        if not self._may_get(destination):
            self.broken.append(
                f"{self._user} got a message of {destination}: {dict(frame.headers)} {frame.body[:1000]!r}"
            )
        ack = frame.headers.get("ack") or frame.headers.get("message-id")
        if ack and len(self._acks) < 1000:
            self._acks.append(ack)

    # ------------------------------------------------------------------ its output

    def _frame(self) -> bytes:
        self.frames_sent += 1
        random = self._random
        make = random.choices(
            [
                self._send,
                self._subscribe,
                self._unsubscribe,
                self._settle,
                self._transaction,
                self._look_at_broker,
                self._other,
            ],
            [40, 14, 8, 25, 8, 4, 1],
        )[0]
        return make()

    def _send(self) -> bytes:
        random = self._random
        lines = [f"destination:{self._destination(QUEUES + TOPICS)}"]
        for name, values in (
            ("persistent", TRUTHS), ("priority", NUMBERS), ("expires", NUMBERS), ("ttl", NUMBERS),
            ("delay-s", ["0", "0.1", "1", "x", "1e99"]), ("dedup-id", NAMES), ("group", NAMES),
            ("reply-to", ["/temp-queue/r", "/queue/open.a", "x"]), ("n", NUMBERS), ("name", NAMES),
            ("transaction", ["t", "u", "none"]), ("correlation-id", NAMES),
        ):  # fmt: skip
            if random.random() < 0.08:
                lines.append(f"{name}:{random.choice(values)}")
        body = b"b" * random.choice([0, 1, 10, 100, 100, 5000, 50_000])
        if random.random() < 0.5:
            length = len(body) if random.random() < 0.995 else random.randrange(10)
            lines.append(f"content-length:{length}")
        return self._said("SEND", lines, body)

    def _subscribe(self) -> bytes:
        random = self._random
        lines = [f"destination:{self._destination(QUEUES + TOPICS + FILTERS)}", f"id:{self._id()}"]
        lines.append(
            f"ack:{random.choice(['auto', 'client', 'client-individual', 'client-individual', 'odd'])}"
        )
        for name, values in (
            ("selector", SELECTORS), ("credit", ["1", "2", "100", *NUMBERS]), ("snapshot", ["true", *TRUTHS]),
            ("durable-name", ["d", "e", "\u00fc"]), ("shared-name", ["d", "s"]), ("exclusive", TRUTHS),
            ("from", ["first", "last", "seq:0", "seq:99", "time:0", "x"]), ("lease-s", NUMBERS),
        ):  # fmt: skip
            if random.random() < 0.15:
                lines.append(f"{name}:{random.choice(values)}")
        said = self._said("SUBSCRIBE", lines)
        return said + self._unsubscribe() if random.random() < 0.1 else said

    def _look_at_broker(self) -> bytes:
        """Ask for states, with a queue of one's own among them that goes with the connection."""
        address = self._random.choice(["/topic/$mom.>", "/topic/$mom.stats.>"])
        lines = [f"destination:{address}", f"id:{self._id()}", "snapshot:true"]
        if self._random.random() < 0.3:
            lines.append(f"durable-name:{self._random.choice('de')}")
        own = self._said("SUBSCRIBE", ["destination:/temp-queue/own", "id:own"])
        return own + self._said("SUBSCRIBE", lines) + self._unsubscribe()

    def _unsubscribe(self) -> bytes:
        lines = [f"id:{self._id()}"]
        if self._random.random() < 0.2:
            lines.append("delete:true")
        return self._said("UNSUBSCRIBE", lines)

    def _settle(self) -> bytes:
        random = self._random
        id = (
            random.choice(self._acks)
            if self._acks and random.random() < 0.97
            else random.choice(["0", "x", ""])
        )
        lines = [f"id:{id}", f"message-id:{id}", f"subscription:{self._id()}"]
        if random.random() < 0.1:
            lines.append(f"transaction:{random.choice('tu')}")
        if random.random() < 0.3:
            lines.append(f"requeue:{random.choice(TRUTHS)}")
        return self._said(random.choice(["ACK", "ACK", "NACK"]), lines)

    def _transaction(self) -> bytes:
        random = self._random
        command = random.choice(["BEGIN", "BEGIN", "COMMIT", "COMMIT", "ABORT"])
        return self._said(command, [f"transaction:{random.choice('tu')}"])

    def _other(self) -> bytes:
        random = self._random
        line = f"{random.choice(NAMES)}:{random.choice(NUMBERS)}"
        return self._said(random.choice(["CONNECT", "BAD", "MESSAGE", "send", "DISCONNECT", ""]), [line])

    def _destination(self, usual: list[str]) -> str:
        return self._random.choice(usual if self._random.random() < 0.97 else ODD)

    def _id(self) -> str:
        return self._random.choice("1234")

    def _said(self, command: str, lines: list[str], body: bytes = b"") -> bytes:
        if self._random.random() < 0.2:
            lines.append(f"receipt:{self._random.randrange(1000)}")
        return "\n".join([command, *lines, "\n"]).encode() + body + b"\0"
