"""A plugin of pytest for runs in several processes: one collects the tests, the others are forked from it.

With pytest-xdist alone, each process imports and collects all tests again, which takes ten seconds of a
processor. `pytest -n 6 -p tests.support.collected`
"""

from __future__ import annotations

import atexit
import gc
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support import joining
from tests.support.children import Child, end_with_parent
from tests.support.temporary import temporary_directory

_OPTION = "--fork-at"
#: in the process that collects and in those that are forked from it
_collected: Collected


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_OPTION, type=int, help="for the process that collects: the file of its listener")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Lets the process that collects be configured like those of pytest-xdist."""
    global _collected
    if config.option.fork_at is not None:
        # It is imported here, because pytest prepares that package only when it has seen its options.
        from xdist import remote  # type: ignore[import-untyped]

        remote.setup_config(config, None)
        config.workerinput, config.workeroutput = {}, {}  # type: ignore[attr-defined]
        gc.disable()  # all that it collects stays, and would be looked at again and again
        _collected = Collected(remote, socket.socket(fileno=config.option.fork_at))
        config.pluginmanager.register(_collected)


@pytest.hookimpl(trylast=True)  # it inherits what others put into the environment
def pytest_configure(config: pytest.Config) -> None:
    """Starts the process that collects, in the one that distributes tests."""
    if config.option.numprocesses and not config.option.collectonly:
        config.pluginmanager.register(Distributor(config))


def _exit() -> NoReturn:
    """End this process without taking all modules apart, which takes seconds."""
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(0)


def run(channel: Any) -> None:
    """Run tests in a process that was forked; the channel is that to pytest-xdist."""
    _collected.run(channel)


class Distributor:
    """The process that collects, and how pytest-xdist gets others from it."""

    def __init__(self, config: pytest.Config) -> None:
        folder = temporary_directory("collected")
        address = str(Path(folder.name) / "socket")
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(address)
            listener.listen()
            self._connection.connect(address)
            options = [f"{_OPTION}={listener.fileno()}", *map(str, config.invocation_params.args)]
            self._program = Child(
                [sys.executable, "-m", "pytest", *options],
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        join = shlex.join([sys.executable, "-I", "-S", joining.__file__, address])
        config.option.tx = [f"popen//python={join}"] * config.option.numprocesses
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(self._end)

    def _end(self) -> None:
        self._connection.close()
        self._program.wait()

    def pytest_xdist_setupnodes(self) -> None:
        """Waits until the tests are collected. Raises UsageError if the command is wrong."""
        with suppress(ConnectionResetError):
            if self._connection.recv(1):
                return
        raise pytest.UsageError("the tests were not collected; the reason stands above or below")

    def pytest_xdist_getremotemodule(self) -> str:
        """Returns what runs in each process instead of a module of pytest-xdist."""
        return "from tests.support import collected; collected.run(channel)"


class Collected:
    """The collected tests, in the process that collects and in those that are forked from it."""

    def __init__(self, remote: Any, listener: socket.socket) -> None:
        #: the module of pytest-xdist for processes that collect their own tests
        self._remote = remote
        self._listener = listener
        self._failures: list[pytest.CollectReport] = []
        self._session: pytest.Session

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Names the groups as pytest-xdist does."""
        self._remote.WorkerInteractor.pytest_collection_modifyitems(None, config, items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self._failures.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> NoReturn:
        """Forks a process at each connection, until the first one ends, which is the distributor's."""
        self._session = session
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # those that it forks end first
        gc.freeze()  # so does each process that is forked
        gc.enable()
        distributor, _ = self._listener.accept()
        distributor.send(b"1")
        while distributor not in select.select([distributor, self._listener], [], [])[0]:
            self._fork()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # so the time of the run has theirs; one that goes on ends with this process
        _exit()

    def pytest_unconfigure(self) -> None:
        self._listener.close()

    def _fork(self) -> None:
        connection, _ = self._listener.accept()
        _, files, _, _ = socket.recv_fds(connection, 1, 3)
        sys.stdout.flush()
        if not os.fork():
            self._become(files)
        for file in files:
            os.close(file)
        connection.close()  # the process keeps it open, until it ends

    def _become(self, files: list[int]) -> NoReturn:
        """Be a process of pytest-xdist, with its standard streams."""
        end_with_parent()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        atexit._clear()  # the other process does that
        self._listener.close()
        self._session.config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdin, sys.stdout = os.fdopen(0, "r", 1, closefd=False), os.fdopen(1, "w", 1, closefd=False)
        try:
            exec(eval(sys.stdin.readline()), {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
        _exit()

    def run(self, channel: Any) -> None:
        """Run the tests that pytest-xdist orders, as `pytest` does once it has collected them."""
        given, _, options, sys.path[:] = channel.receive()
        os.environ["PYTEST_XDIST_TESTRUNUID"] = given["testrunuid"]
        os.environ["PYTEST_XDIST_WORKER"] = given["workerid"]
        os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(given["workercount"])
        session, config = self._session, self._session.config
        config.workerinput.update(given)  # type: ignore[attr-defined]
        config.option.basetemp = options["basetemp"]
        config._tmp_path_factory._given_basetemp = Path(options["basetemp"])  # type: ignore[attr-defined]
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.start_global_capturing()
        capture.suspend_global_capture()
        process = self._remote.interactor = self._remote.WorkerInteractor(config, channel)
        process.pytest_sessionstart(session)
        for report in self._failures:
            process.pytest_collectreport(report)
        process.pytest_collection_finish(session)
        try:
            process.pytest_runtestloop(session)
        except BaseException:
            config.notify_exception(pytest.ExceptionInfo.from_current(), config.option)
        code = pytest.ExitCode.TESTS_FAILED if session.testsfailed else pytest.ExitCode.OK
        config.hook.pytest_sessionfinish(session=session, exitstatus=code)
        config._ensure_unconfigure()
