"""The command line as a child process, as a person starts it; its modules are loaded already."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.forked import Forked
from tests.support.patience import patient


class Result(NamedTuple):
    """The result of a command: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The lines of a TSV, split."""
        return [line.split("\t") for line in self.out.splitlines()]

    def json(self) -> Any:
        return json.loads(self.out)


Mom = Callable[..., Result]


class CommandLine:
    """Starts `mom` with a home of its own, so that nothing of the user's is read or changed."""

    def __init__(self, home: Path) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("MOM_", "XDG_"))
        }
        inherited.pop("DJANGO_SETTINGS_MODULE", None)
        self.environment = {
            **inherited,
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }

    def about(self, broker: BrokerProcess) -> None:
        """Log in to `broker` from now on, as its administrator."""
        password = broker.password.replace(" ", "%20")
        self.environment["MOM_URL"] = f"http://{broker.user}:{password}@{broker.host}:{broker.port}"

    def popen(self, *arguments: str, **more: Any) -> "subprocess.Popen[str]":
        return Forked(
            [sys.executable, "-m", "broker_app.cli", *arguments],
            env={**self.environment, **more.pop("environment", {})},
            cwd=more.pop("cwd", self.environment["HOME"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def at_terminal(self, *arguments: str, answer: str = "", **more: Any) -> Result:
        """Runs at a terminal of its own, at which `answer` is typed; all that is shown there is `out`."""
        ours, its = pty.openpty()
        process = Forked(
            [sys.executable, "-m", "broker_app.cli", *arguments],
            env={**self.environment, **more.pop("environment", {})},
            cwd=self.environment["HOME"],
            stdin=its,
            stdout=its,
            stderr=its,
            **more,
        )
        os.close(its)
        os.write(ours, answer.encode())
        shown = b""
        # The end of the last process at a terminal is an error to Linux.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                shown += part
        os.close(ours)
        return Result(process.wait(patient(60)), shown.decode(), "")

    def __call__(self, *arguments: str, stdin: str = "", timeout_s: float = 60, **more: Any) -> Result:
        with self.popen(*arguments, **more) as process:
            try:
                out, err = process.communicate(stdin, timeout=patient(timeout_s))
            except subprocess.TimeoutExpired:
                process.kill()  # leaving the block would wait for its end
                raise
        return Result(process.returncode, out, err)


@pytest.fixture
def command_line(processes: None, tmp_path: Path) -> CommandLine:
    """`mom` without a broker."""
    home = tmp_path / "home"
    home.mkdir()
    return CommandLine(home)


@pytest.fixture
def mom(command_line: CommandLine, broker: BrokerProcess) -> CommandLine:
    """`mom`, logged in to the broker of this module."""
    command_line.about(broker)
    return command_line
