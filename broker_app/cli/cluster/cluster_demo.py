"""`mom cluster demo`: three brokers of a cluster on this machine, for a first try."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Final, NamedTuple

import typer

from broker_app.base.process.parent_process import end_with_parent
from broker_app.base.process.private_files import write_for_owner_alone
from broker_app.cli.base import contexts, invocation
from broker_app.cli.base.failures import FAILED, Failure
from broker_app.cli.base.output import Output
from broker_app.config import PREFIX

_NAMES: Final = ("b1", "b2", "b3")
_COLUMNS: Final = ("name", "console", "stomp", "cluster")
_HOST: Final = "127.0.0.1"
#: seconds in which all brokers serve, in which they end, and between two looks at them
_READY_S: Final = 60.0
_STOP_S: Final = 30.0
_LOOK_S: Final = 0.2
#: characters of a log that a failure shows
_LOG_CHARACTERS: Final = 2_000


class _Ports(NamedTuple):
    web: int
    stomp: int
    cluster: int


class _Broker:
    """One of the brokers. Its data, its log and a token are in the folder, under its name."""

    def __init__(self, name: str, folder: Path, ports: _Ports) -> None:
        self.name = name
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self.token_file = folder / f"{name}.token"
        self.ports = ports
        self.url = f"http://{_HOST}:{ports.web}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, brokers: str, secret: str) -> None:
        """Start it as one of the `brokers`, which have the secret in common."""
        options = {
            "name": self.name, "data": self.data, "port": self.ports.web, "stomp-port": self.ports.stomp,
            "cluster-port": self.ports.cluster, "cluster": brokers,
        }  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "broker_app.cli", "up"),
                    *(part for option, value in options.items() for part in (f"--{option}", str(value))),
                ],
                env=environment | {f"{PREFIX}CLUSTER_SECRET": secret},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this process, which ends them
                preexec_fn=partial(end_with_parent, signal.SIGTERM),
            )

    def addresses(self) -> dict[str, str]:
        """Its addresses for people, clients and the other brokers."""
        return {
            "name": self.name,
            "console": f"{self.url}/console/",
            "stomp": f"{_HOST}:{self.ports.stomp}",
            "cluster": f"{_HOST}:{self.ports.cluster}",
        }

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll() if self._process is not None else None

    def is_ready(self) -> bool:
        """Return whether it serves. Raises Failure if it has ended."""
        if self.exit_code is not None:
            raise Failure(
                FAILED,
                f"broker {self.name} has ended instead of starting:\n{self.last_lines()}",
                where=str(self.log),
                fix="delete the folder, or name another one, for a demo with new data",
            )
        import urllib.request  # here: other commands start sooner without it

        try:
            with urllib.request.urlopen(f"{self.url}/health/ready", timeout=5):
                return True
        except OSError:
            return False

    def keep_token(self) -> None:
        """Write a token of it to a file, unless there is one from before."""
        target = contexts.local(self.data)
        if self.token_file.exists() or target is None:
            return
        from broker_app.cli.base.rest import Rest  # here, for the same reason

        self.token_file.write_text(Rest(target).call("POST", "/tokens", {"name": "demo"})["token"] + "\n")

    def last_lines(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-_LOG_CHARACTERS:]

    def begin_stop(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            self._process.terminate()

    def wait_stopped(self) -> None:
        """Wait until it has ended; kill it if that takes too long."""
        if self._process is None:
            return
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def demo(
    ctx: typer.Context,
    folder: Annotated[
        Path, typer.Argument(help="directory of their data; that of an earlier demo is used again")
    ] = Path("cluster-demo"),
) -> None:
    """Start three brokers of a cluster on this machine, for a first try, until Ctrl-C.

    They have free ports and a secret that is made for them. What is sent to one of them reaches consumers at
    the others: the output has commands that show it. docs/clusters.md has the same by hand.
    """
    output = invocation.of(ctx).output
    write_for_owner_alone()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        brokers = [
            _Broker(name, folder.resolve(), ports) for name, ports in zip(_NAMES, _free_ports(), strict=True)
        ]
        stop = _stop_event()
        with _running(brokers):
            if _wait_until_ready(brokers, stop):
                for broker in brokers:
                    broker.keep_token()
                _show(output, brokers)
                _watch(output, brokers, stop)
    except OSError as error:
        raise Failure(
            FAILED, f"the brokers cannot be started: {error.strerror}", where=str(error.filename)
        ) from error


def _free_ports() -> list[_Ports]:
    """Ports for each broker. Their numbers must be known before one starts, since each needs those of all."""
    with contextlib.ExitStack() as opened:
        sockets = [
            [opened.enter_context(socket.create_server((_HOST, 0))) for _ in _Ports._fields] for _ in _NAMES
        ]
        return [_Ports(*(one.getsockname()[1] for one in three)) for three in sockets]


def _stop_event() -> Event:
    """Set by Ctrl-C and SIGTERM."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


@contextlib.contextmanager
def _running(brokers: list[_Broker]) -> Iterator[None]:
    """The brokers from their start to their end."""
    listed = ",".join(f"{_HOST}:{broker.ports.cluster}" for broker in brokers)
    secret = secrets.token_urlsafe(32)
    try:
        for broker in brokers:
            broker.start(listed, secret)
        yield
    finally:
        for broker in brokers:
            broker.begin_stop()
        for broker in brokers:
            broker.wait_stopped()


def _wait_until_ready(brokers: list[_Broker], stop: Event) -> bool:
    """Return whether all serve; False if they are to end. Raises Failure."""
    deadline = time.monotonic() + _READY_S
    waiting = list(brokers)
    while waiting:
        waiting = [broker for broker in waiting if not broker.is_ready()]
        if time.monotonic() > deadline:
            names = ", ".join(broker.name for broker in waiting)
            raise Failure(FAILED, f"not ready within {_READY_S:g} s: {names}", where=str(waiting[0].log))
        if waiting and stop.wait(_LOOK_S):
            return False
    return True


def _show(output: Output, brokers: list[_Broker]) -> None:
    first, last = brokers[0], brokers[-1]
    output.rows(_COLUMNS, [broker.addresses() for broker in brokers])
    output.say(
        f"data, logs and tokens are in {first.data.parent}, the password of admin in NAME/first_password"
    )
    output.say("send to one broker and receive at another, in another terminal:")
    output.say(f"  mom pub orders hello --url {first.url} --token-file {first.token_file}")
    output.say(f"  mom sub orders --count 1 --url {last.url} --token-file {last.token_file}")
    output.say("Ctrl-C stops all")


def _watch(output: Output, brokers: list[_Broker], stop: Event) -> None:
    """Report brokers that end, until all have or this process is to end."""
    running = list(brokers)
    while running and not stop.wait(_LOOK_S):
        for broker in [broker for broker in running if broker.exit_code is not None]:
            running.remove(broker)
            output.say(f"{broker.name} has ended with {broker.exit_code}; its log is {broker.log}")
