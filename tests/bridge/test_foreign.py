"""Remote brokers that are no MOM: at least once, and an ERROR ends the connection of all flows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mom_client.stomp import Frame, Parser, encode
from tests.bridge.pair import pair, until


class Stranger:
    """A broker that takes every message but those for the queue `bad`. `names` is whether its ERROR has the
    receipt of what it is about; `sent` are the SENDs that it took."""

    def __init__(self, *, names: bool = True, server: str = "Stranger/1") -> None:
        self.sent: list[Frame] = []
        self.connections = 0
        self._names = names
        self._server = server

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        parser = Parser()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                for frame in parser.receive(data):
                    if isinstance(frame, Frame):
                        writer.write(self._answer(frame))
                        if frame.headers.get("destination") == "/queue/bad":
                            writer.close()
                            return
        writer.close()

    def _answer(self, frame: Frame) -> bytes:
        if frame.command == b"CONNECT":
            headers = {"version": "1.2", "server": self._server}
            return encode(b"CONNECTED", headers, content_length=False)
        if frame.command != b"SEND":
            return b""
        if frame.headers["destination"] == "/queue/bad":
            named = {"receipt-id": (frame.receipt or b"").decode()} if self._names else {}
            return encode(b"ERROR", {"message": "no", **named}, b"not here")
        self.sent.append(frame)
        return encode(b"RECEIPT", {"receipt-id": (frame.receipt or b"").decode()}, content_length=False)


@contextlib.asynccontextmanager
async def served(stranger: Stranger) -> AsyncIterator[int]:
    server = await asyncio.start_server(stranger.serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_a_foreign_broker_receives_the_properties_of_a_message(tmp_path: Path) -> None:
    stranger = Stranger()
    async with served(stranger) as port, pair(tmp_path, port=port) as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1", headers={"colour": "red"})
        await both.send(john, "orders", b"2", persistent=False, priority=9, ttl_s=60.0)
        await until(lambda: both.flow("orders")["accepted"] == 2)
        assert both.report()["foreign"] is True
        first, second = (frame.headers for frame in stranger.sent)
        assert (first["colour"], first["persistent"], first["priority"]) == ("red", "true", "4")
        assert "expires" not in first
        assert (second["persistent"], second["priority"]) == ("false", "9")
        assert int(second["expires"]) > 0
        assert first["mom-message-id"] != second["mom-message-id"]
        assert "mom-flow" not in first


async def test_a_producer_sets_neither_the_id_nor_other_persistence_headers(tmp_path: Path) -> None:
    stranger = Stranger()
    async with served(stranger) as port, pair(tmp_path, port=port) as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1", headers={"mom-message-id": "another's", "persistent": "1"})
        await both.send(john, "orders", b"2", headers={"persistent": "0"})
        await until(lambda: both.flow("orders")["accepted"] == 2)
        first, second = (frame.headers for frame in stranger.sent)
        assert first["mom-message-id"] != "another's"
        assert (first["persistent"], second["persistent"]) == ("true", "false")


async def test_rabbitmq_receives_its_own_persistence_and_name_headers(tmp_path: Path) -> None:
    stranger = Stranger(server="RabbitMQ/3.10")
    async with served(stranger) as port, pair(tmp_path, port=port) as both, both.home.stomp("john") as john:
        await both.send(john, "a/b", b"1", persistent=False)
        await both.send(john, "a/b", b"2")
        await until(lambda: both.flow("a/b")["accepted"] == 2)
        first, second = (frame.headers for frame in stranger.sent)
        assert first["destination"] == "/queue/a%2Fb"
        assert "persistent" not in first
        assert second["persistent"] == "true"


@pytest.mark.parametrize("names", [True, False])
async def test_an_error_holds_up_the_flow_that_it_is_about_and_no_other(tmp_path: Path, names: bool) -> None:
    stranger = Stranger(names=names)
    async with served(stranger) as port, pair(tmp_path, port=port) as both, both.home.stomp("john") as john:
        await both.send(john, "good", b"1")
        await until(lambda: both.flow("good")["accepted"] == 1)
        await both.send(john, "bad", b"1")
        await until(lambda: both.flow("bad")["error"])
        assert both.flow("bad")["error"]["code"] == "TARGET_REFUSED"
        assert "not here" in both.flow("bad")["error"]["detail"]
        await both.send(john, "good", *(str(number) for number in range(2, 100)))
        await until(lambda: both.flow("good")["accepted"] >= 99)
        assert both.flow("good")["error"] is None
        assert both.flow("bad")["depth"] == 1
        await until(lambda: stranger.connections > 3)
        await both.send(john, "good", b"100")
        await until(lambda: stranger.sent[-1].body == b"100")
        bodies = [int(frame.body) for frame in stranger.sent]
        assert list(dict.fromkeys(bodies)) == list(range(1, 101))


async def test_a_message_refused_too_often_by_a_foreign_broker_is_dead_lettered_if_configured(
    tmp_path: Path,
) -> None:
    stranger = Stranger()
    async with (
        served(stranger) as port,
        pair(tmp_path, port=port, dead_letter_after=2, retry_s=0.1) as both,
        both.home.stomp("john") as john,
    ):
        await both.send(john, "bad", b"1", b"2")
        await until(lambda: both.flow("bad")["dead_lettered"] == 2 and both.flow("bad")["depth"] == 0)
        assert both.flow("bad")["refused"] == 4
