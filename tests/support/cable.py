"""A network of its own behind a cable that can be pulled out: a namespace of Linux, and veth devices."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.missing import missing


class Cable:
    """`host` is the address at the far end; what is started behind `prefix` is there."""

    def __init__(self, name: str, subnet: str) -> None:
        self.name = name
        self.host = f"{subnet}.2"
        self._near, self._far = f"{name}a", f"{name}b"
        self._near_address = f"{subnet}.1/24"
        self.prefix = ("ip", "netns", "exec", name)

    def lay(self) -> None:
        """Raises CalledProcessError where that is not allowed, or not known."""
        _ip("netns", "add", self.name)
        _ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.name)
        _ip("address", "add", self._near_address, "dev", self._near)
        _ip("-n", self.name, "address", "add", f"{self.host}/24", "dev", self._far)
        _ip("-n", self.name, "link", "set", "lo", "up")
        _ip("-n", self.name, "link", "set", self._far, "up")
        self.plug_in()

    def pull_out(self) -> None:
        """No packet gets through any more; nobody is told."""
        _ip("link", "set", self._near, "down")

    def plug_in(self) -> None:
        _ip("link", "set", self._near, "up")

    def remove(self) -> None:
        """The devices go with the namespace."""
        subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)


@contextmanager
def cable() -> Iterator[Cable]:
    """A cable for the length of a `with` block. It needs root and `ip`: without, the test is skipped at home
    and fails in CI."""
    pid = os.getpid()
    made = Cable(f"mom{pid % 100_000}", f"10.{200 + pid // 256 % 50}.{pid % 256}")
    try:
        made.lay()
    except (OSError, subprocess.CalledProcessError) as error:
        made.remove()
        missing(f"a network of its own cannot be made here: {getattr(error, 'stderr', None) or error}")
    try:
        yield made
    finally:
        made.remove()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
