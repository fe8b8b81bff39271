"""Python programs of this house as processes that start at once, for tests that start hundreds of them.

`Forked` is `subprocess.Popen` for Python with `manage.py …` or `-m broker_app.cli …`. Its process is forked
from one that has loaded what such programs import and the site of Django, and has forgotten its settings:
each program has those of its own environment. That one is this module as a program, which all processes of a
run share; a process alone starts its own at the first need. Tests of starting itself use `subprocess`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.urls import get_resolver
from django.utils.functional import empty

from mom_site.database import file_of
from tests.support.children import NETWORK, Child, end_with_parent, enter_network
from tests.support.forked_time import FORKED_TIME
from tests.support.temporary import temporary_directory

ROOT = Path(__file__).resolve().parents[2]
_COMMANDS = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "broker_app" / "cli").rglob("[a-z]*.py"))
]
LOADED = (
    "argon2 broker_app.node.node broker_app.storage.offline broker_app.net.server.serve"
    " channels.generic.websocket channels.routing channels.security.websocket"
    " django.db.backends.sqlite3.base inflection jsonschema servestatic.middleware"
    " redis uritemplate uvloop yaml"
).split() + _COMMANDS
#: settings with which the site has other applications and addresses; such a program is started, not forked
OTHER_SITE = ("MOM_OIDC", "MOM_CONSOLE_URL", "--oidc", "--console-url")
#: the database of a broker without anything in it
_database = b""
#: variable with the address of the program that processes share
_ADDRESS = "FORKED_ADDRESS"
_LARGEST = 1024 * 1024


class Forked(subprocess.Popen[Any]):
    """A process that was forked, in a `network` or in that of the thread that starts it; everything else is
    as in `subprocess`."""

    def __init__(self, *arguments: Any, network: Path = NETWORK, **options: Any) -> None:
        self._network = network
        super().__init__(*arguments, **options)

    def _execute_child(  # the one place where Popen makes a process
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: Any, shell: Any, p2cread: int, p2cwrite: int, c2pread: int,
        c2pwrite: int, errread: int, errwrite: int, *rest: Any,
    ) -> None:  # fmt: skip
        order = {
            "arguments": [os.fspath(argument) for argument in args[1:]],
            "cwd": os.fspath(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
        }
        ends = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        with self._network.open("rb") as network:
            self.pid = int(_ask(order, [*ends, network.fileno()]))
        FORKED_TIME.begin(self.pid)
        self._ended = os.pidfd_open(self.pid)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and _readable(self._ended, 0):
            self._reap()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if not _readable(self._ended, timeout):
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            self._reap()
        return self.returncode

    def _reap(self) -> None:
        status, seconds = _ask({"reap": self.pid}, []).split()
        os.close(self._ended)
        FORKED_TIME.end(self.pid, float(seconds))
        self._handle_exitstatus(int(status))  # type: ignore[attr-defined]


def _readable(file: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if timeout is None else max(0, timeout) * 1000))


_one_at_a_time = Lock()


def _ask(order: dict[str, Any], files: list[int]) -> bytes:
    with _one_at_a_time:
        socket.send_fds(_program(), [json.dumps(order).encode()], files)
        return _program().recv(64)


def share() -> None:
    """Let the processes that this one starts use one program."""
    os.environ[_ADDRESS] = str(_start())


@cache
def _program() -> socket.socket:
    """The conversation with the program that forks. What was forked ends with it."""
    conversation = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    conversation.connect(os.environ.get(_ADDRESS) or str(_start()))
    atexit.register(conversation.close)
    return conversation


def _start() -> Path:
    """Start the program, which ends with this process; returns its address."""
    folder = temporary_directory("forked")
    address = Path(folder.name) / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen()
        command = [sys.executable, "-m", "tests.support.forked", str(listener.fileno())]
        program = Child(command, cwd=ROOT, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL)

    def end() -> None:
        program.kill()
        program.wait()
        folder.cleanup()

    atexit.register(end)
    return address


class Program:
    """Forks processes to order, and ends those of a client that has gone."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._clients = selectors.DefaultSelector()
        self._clients.register(listener, selectors.EVENT_READ)
        #: processes that were not reaped yet
        self._forked: dict[socket.socket, set[int]] = {}

    def serve(self) -> dict[str, Any]:
        """Return in each process that is forked, with its order."""
        while True:
            for key, _ in self._clients.select():
                if key.fileobj is self._listener:
                    client = self._listener.accept()[0]
                    self._clients.register(client, selectors.EVENT_READ)
                    self._forked[client] = set()
                elif (order := self._answer(key.fileobj)) is not None:  # type: ignore[arg-type]
                    return order

    def _answer(self, client: socket.socket) -> dict[str, Any] | None:
        """Carry an order out; returns it in the process that was forked for it."""
        message, files, _, _ = socket.recv_fds(client, _LARGEST, 4)
        if not message:
            self._end(client)
            return None
        order: dict[str, Any] = json.loads(message)
        if "reap" in order:
            _, status, usage = os.wait4(order["reap"], 0)
            self._forked[client].discard(order["reap"])
            answer = f"{status} {usage.ru_utime + usage.ru_stime}"
        elif pid := os.fork():
            self._forked[client].add(pid)
            for file in files:
                os.close(file)
            answer = str(pid)
        else:
            end_with_parent()
            self._close()
            *streams, network = files
            enter_network(network)
            for number, file in enumerate(streams):
                os.dup2(file, number)
            os.closerange(3, 1024)
            return order
        client.send(answer.encode())
        return None

    def _close(self) -> None:
        """Close what only the program needs: if it were collected later, other files would be closed."""
        self._clients.close()
        for open_ in (self._listener, *self._forked):
            open_.close()

    def _end(self, client: socket.socket) -> None:
        self._clients.unregister(client)
        client.close()
        for pid in self._forked.pop(client):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _load_site() -> None:
    """Load models and addresses, and make an empty database, which is most of a broker's start, with settings
    that are forgotten."""
    global _database
    with temporary_directory("site") as data:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "mom_site.settings", "MOM_DATA": data}
        settings.LOGGING_CONFIG = None  # the log is each program's own
        django.setup()
        importlib.import_module("broker_app.management.commands.broker")
        get_resolver().check()
        # Documents and the list of passwords that are too common are the same for all.
        importlib.import_module("broker_app.web.api").document()
        importlib.import_module("broker_app.net.asyncapi").document()
        importlib.import_module("django.contrib.auth.password_validation").get_default_password_validators()
        importlib.import_module("tests.support.passwords").hash_quickly()
        call_command("migrate", verbosity=0, interactive=False)
        connections.close_all()
        _database = file_of(Path(data)).read_bytes()
    connections.__dict__.clear()
    connections.__init__()  # type: ignore[misc]
    settings._wrapped = empty  # type: ignore[assignment]  # as it was before its first use
    del sys.modules["mom_site.settings"]


def _become(arguments: list[str], cwd: str, environment: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    if any(word.startswith(OTHER_SITE) for word in (*environment, *arguments)):
        os.execv(sys.executable, [sys.executable, *arguments])
    if arguments[1] == "broker" and "MOM_DATABASE" not in environment:
        _give_database(Path(environment["MOM_DATA"]))
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def _give_database(data: Path) -> None:
    """Save a broker with a new data directory the migrations."""
    if not data.exists():
        data.mkdir(mode=0o700, parents=True)
        file_of(data).touch(mode=0o600)
        file_of(data).write_bytes(_database)


def _ended(failure: BaseException | None) -> int:
    """The exit code of a program that ended so; an unexpected error is printed by Python."""
    if failure is None:
        return 0
    if isinstance(failure, SystemExit) and isinstance(failure.code, int | None):
        return failure.code or 0
    if isinstance(failure, SystemExit):
        print(failure.code, file=sys.stderr)
    else:
        traceback.print_exception(failure)
    return 1


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in LOADED:
        importlib.import_module(name)
    _load_site()
    gc.freeze()  # or each process would look at all of it when it ends
    order = Program(socket.socket(fileno=int(sys.argv[1]))).serve()
    failure: BaseException | None = None
    try:
        _become(**order)
    except BaseException as raised:
        failure = raised
    code = _ended(failure)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking all modules apart would take longer than most programs do
