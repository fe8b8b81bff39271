"""A server process that we started and that we alone end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class ServerFailed(Exception):
    """A server did not start, or ended by itself; the text has the end of its log."""


class Child:
    """One child process with its log in a file; a session of its own, so Ctrl-C reaches only us."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, cwd: Path, env: Mapping[str, str]
    ) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**os.environ, **env},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def check_success(self) -> None:
        """Wait until the process has ended. Raises `ServerFailed` if it did not end with status 0."""
        if code := self._process.wait():
            raise ServerFailed(f"{self.name} ended with status {code}\n{self._log_end()}")

    def check(self) -> None:
        """Raise `ServerFailed` if the process has ended."""
        if (code := self._process.poll()) is not None:
            raise ServerFailed(f"{self.name} ended with status {code}\n{self._log_end()}")

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> float:
        """Wait until `ready()`; returns the seconds it took. Raises `ServerFailed` after `timeout` s."""
        begin = time.monotonic()
        while not ready():
            self.check()
            if time.monotonic() - begin > timeout:
                raise ServerFailed(f"{self.name} was not ready after {timeout:.0f} s\n{self._log_end()}")
            time.sleep(0.05)
        return time.monotonic() - begin

    def kill(self) -> None:
        """End it and its children with SIGKILL."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self, timeout: float = 60) -> float:
        """End it with SIGTERM, after `timeout` s with SIGKILL; returns the seconds it took."""
        begin = time.monotonic()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        return time.monotonic() - begin

    def _log_end(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-25:])
