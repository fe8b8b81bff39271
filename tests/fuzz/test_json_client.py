"""The end of a fuzz leaves no connections: the garbage collector would report them in some later test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from tests.fuzz.json_client import JsonFuzz


class Silent:
    """A server of WebSockets that answers no close; the events are of its first connection."""

    def __init__(self) -> None:
        self.closing, self.ended = asyncio.Event(), asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol: Any = ServerProtocol(subprotocols=["mom.v1.json"])  # type: ignore[list-item]
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                protocol.receive_data(data)
                for event in protocol.events_received():
                    if isinstance(event, Request):
                        protocol.send_response(protocol.accept(event))
                        writer.writelines(protocol.data_to_send())
                    elif isinstance(event, Frame) and event.opcode is Opcode.CLOSE:
                        self.closing.set()
        writer.close()
        self.ended.set()


async def test_a_client_that_is_cancelled_while_it_closes_leaves_no_connection() -> None:
    silent = Silent()
    may_get: Callable[[str], bool] = lambda address: True  # noqa: E731
    async with await asyncio.start_server(silent.serve, "127.0.0.1", 0) as server:
        broker: Any = SimpleNamespace(host="127.0.0.1", port=server.sockets[0].getsockname()[1])
        running = asyncio.create_task(JsonFuzz(broker, "u", "p", Random(1), may_get).run())
        await silent.closing.wait()
        running.cancel()
        await asyncio.wait([running])
        for _ in range(100):  # on this machine an end arrives at once
            await asyncio.sleep(0)
        assert silent.ended.is_set()
