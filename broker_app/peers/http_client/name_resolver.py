"""The resolver of host names, in threads of its own: a name server that does not answer holds up no other
part of the broker, and one name takes one thread, however many ask for it."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

#: names that are resolved at the same time
_THREADS: Final = 32


class Resolver(Protocol):
    """Finds the addresses of hosts."""

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of `host`, as numbers. Raises OSError."""

    def close(self) -> None:
        """End; nothing is waited for."""


class NameResolver:
    """Resolves names as the operating system does."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="http-dns")
        self._under_way: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of `host`, as numbers. Raises OSError."""
        key = host, port
        found = self._under_way.get(key)
        if found is None:
            loop = asyncio.get_running_loop()
            found = asyncio.ensure_future(loop.run_in_executor(self._threads, _resolve, *key))
            self._under_way[key] = found
            found.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(found)

    def _forget(self, key: tuple[str, int], done: asyncio.Future[list[str]]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # all that waited for it may have given up

    def close(self) -> None:
        """Wait for no name server."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    return list(dict.fromkeys(socket.getnameinfo(address, numeric)[0] for *_, address in found))
