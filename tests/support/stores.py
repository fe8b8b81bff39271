"""The stores that brokers can share, each as a server of the tests' own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tests.support.postgres import postgres_server
from tests.support.redis import redis_server
from tests.support.temporary import temporary_directory


@dataclass(frozen=True)
class Stores:
    """A server at a port of loopback; `template` is its address, with {port}. A directory has no port."""

    template: str
    port: int

    def url(self, port: int | None = None) -> str:
        """Its address, or that of a proxy to it."""
        return self.template.format(port=port or self.port)


@contextmanager
def _postgres() -> Iterator[Stores]:
    with postgres_server() as server:
        yield Stores("postgresql://postgres@127.0.0.1:{port}/postgres", server.port)


@contextmanager
def _redis() -> Iterator[Stores]:
    with redis_server() as server:
        yield Stores("redis://127.0.0.1:{port}", server.port)


@contextmanager
def _files() -> Iterator[Stores]:
    with temporary_directory("store") as directory:
        yield Stores(f"file:{directory}", 0)


#: by name
STORES: dict[str, Callable[[], AbstractContextManager[Stores]]] = {
    "postgres": _postgres,
    "redis": _redis,
    "files": _files,
}
