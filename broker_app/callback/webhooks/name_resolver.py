"""The resolver of host names, in threads of its own: a name server that does not answer holds up no other
part of the broker, and one name takes one thread, however many ask for it."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

#: names that are resolved at the same time
_THREADS: Final = 32
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class NameResolver(AbstractResolver):
    """Resolves names as the operating system does."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="webhook-dns")
        self._under_way: dict[tuple[str, int, int], asyncio.Future[list[ResolveResult]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`. Raises OSError."""
        key = host, port, int(family)
        found = self._under_way.get(key)
        if found is None:
            loop = asyncio.get_running_loop()
            found = asyncio.ensure_future(loop.run_in_executor(self._threads, _resolve, *key))
            self._under_way[key] = found
            found.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(found)

    def _forget(self, key: tuple[str, int, int], done: asyncio.Future[list[ResolveResult]]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # all that waited for it may have given up

    async def close(self) -> None:
        """Wait for no name server."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _resolve(host: str, port: int, family: int) -> list[ResolveResult]:
    found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        ResolveResult(
            hostname=host,
            host=socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0],
            port=port,
            family=kind,
            proto=protocol,
            flags=_NUMERIC,
        )
        for kind, _, protocol, _, address in found
    ]
