"""A network of its own with a cable that can be pulled out: namespaces of Linux that have no other route.

A switch stands between its two ends, so that neither end notices when no packet gets through.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.children import NETWORK, enter_network
from tests.support.missing import missing

_NAMESPACES = Path("/var/run/netns")


class Cable:
    """`host` is the address at the far end, whose network is `far`; a command behind `prefix` is there. The
    test is at the near end, `near_host`, and so is what it starts."""

    near_host, host = "10.200.0.1", "10.200.0.2"

    def __init__(self, name: str) -> None:
        self._near, self._far, self._switch = f"{name}-near", f"{name}-far", f"{name}-switch"
        self.far = _NAMESPACES / self._far
        self.prefix = ("ip", "netns", "exec", self._far)

    def lay(self) -> None:
        """Raises CalledProcessError where that is not allowed, or not known."""
        for namespace in (self._near, self._far, self._switch):
            _ip("netns", "add", namespace)
            _ip("-n", namespace, "link", "set", "lo", "up")
        _ip("-n", self._switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "switch", "up")
        for namespace, port, address in ((self._near, "near", self.near_host), (self._far, "far", self.host)):
            ends = ("cable", "type", "veth", "peer", "name", port, "netns", self._switch)
            _ip("-n", namespace, "link", "add", *ends)
            _ip("-n", namespace, "address", "add", f"{address}/24", "dev", "cable")
            _ip("-n", namespace, "link", "set", "cable", "up")
            _ip("-n", self._switch, "link", "set", port, "master", "switch", "up")

    def pull_out(self) -> None:
        """No packet gets through any more, and neither end notices."""
        _ip("-n", self._switch, "link", "set", "far", "nomaster")

    def plug_in(self) -> None:
        _ip("-n", self._switch, "link", "set", "far", "master", "switch")

    @contextmanager
    def at_the_near_end(self) -> Iterator[None]:
        """Move this thread, and the threads and processes that it starts, to the near end of the cable."""
        with NETWORK.open("rb") as before, (_NAMESPACES / self._near).open("rb") as near:
            enter_network(near.fileno())
            try:
                yield
            finally:
                enter_network(before.fileno())

    def remove(self) -> None:
        """The devices go with the namespaces."""
        for namespace in (self._near, self._far, self._switch):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


@contextmanager
def cable() -> Iterator[Cable]:
    """A cable for the length of a `with` block, at whose near end the test is. It needs root and `ip`:
    without, the test is skipped at home and fails in CI."""
    made = Cable(f"mom{os.getpid()}")
    try:
        made.lay()
    except (OSError, subprocess.CalledProcessError) as error:
        made.remove()
        missing(f"a network of its own cannot be made here: {getattr(error, 'stderr', None) or error}")
    try:
        with made.at_the_near_end():
            yield made
    finally:
        made.remove()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
