"""Python programs of this house as processes that start at once, for tests that start hundreds of them.

`Forked` is `subprocess.Popen` for Python with `manage.py …` or `-m broker_app.cli …`. Its process is forked
from one that has loaded what such programs import and has done nothing else: no settings, no threads, no
files. That one is this module as a program; each process of tests has its own, from the first need on. Tests
of starting itself use `subprocess`.
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
import signal
import socket
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from tests.support.children import end_with_parent

ROOT = Path(__file__).resolve().parents[2]
_COMMANDS = [path.stem for path in sorted((ROOT / "broker_app" / "cli").glob("[a-z]*.py"))]
# Of Django only what does not look at its settings.
LOADED = (
    """
    broker_app.node broker_app.serve broker_app.offline broker_app.web.lazy_imports
    argon2 channels.generic.websocket channels.routing channels.security.websocket csp.middleware
    cryptography.x509 django.contrib.admin.options django.contrib.admin.sites django.contrib.auth.hashers
    django.contrib.messages.middleware django.contrib.sessions.middleware django.contrib.staticfiles.finders
    django.core.handlers.asgi django.core.management django.core.management.commands.migrate
    django.db.backends.sqlite3.base django.middleware.csrf django.template.loader django.views.generic
    django.views.i18n inflection jsonschema rest_framework.serializers servestatic.middleware uritemplate
    uvloop yaml
""".split()
    + [f"broker_app.cli.{name}" for name in _COMMANDS]
)
_LARGEST = 1024 * 1024


class Forked(subprocess.Popen[Any]):
    """A process that was forked; everything else is as in `subprocess`."""

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
        self.pid = _ask(order, ends)
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
        status = _ask({"reap": self.pid}, [])
        os.close(self._ended)
        self._handle_exitstatus(status)  # type: ignore[attr-defined]


def _readable(file: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if timeout is None else max(0, timeout) * 1000))


_one_at_a_time = Lock()


def _ask(order: dict[str, Any], files: list[int]) -> int:
    with _one_at_a_time:
        socket.send_fds(_program(), [json.dumps(order).encode()], files)
        return int(_program().recv(64))


@cache
def _program() -> socket.socket:
    """The conversation with the program that forks; it ends with this process."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.support.forked", str(its.fileno())]
    program = subprocess.Popen(command, cwd=ROOT, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL)
    its.close()

    def end() -> None:
        ours.close()
        program.wait()

    atexit.register(end)
    return ours


def _serve(conversation: socket.socket) -> dict[str, Any]:
    """Forks processes to order, and returns in each of them, with its order."""
    while True:
        message, files, _, _ = socket.recv_fds(conversation, _LARGEST, 3)
        if not message:
            sys.exit()
        order: dict[str, Any] = json.loads(message)
        if "reap" in order:
            _, answer = os.waitpid(order["reap"], 0)
        elif answer := os.fork():
            for file in files:
                os.close(file)
        else:
            end_with_parent()
            for number, file in enumerate(files):
                os.dup2(file, number)
            os.closerange(3, 1024)
            return order
        conversation.send(b"%d" % answer)


def _become(arguments: list[str], cwd: str, environment: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


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
    gc.freeze()  # or each process would look at all of it when it ends
    order = _serve(socket.socket(fileno=int(sys.argv[1])))
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
