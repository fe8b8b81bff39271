"""Ports for servers that tests start, which nothing else takes meanwhile.

A port that was free a moment ago may be the source of somebody's connection now, and the next process of
tests asks for free ports as well. Those here lie outside of the range from which the kernel gives, and a
process that needs some locks a block of them until it ends, also while its servers are restarted.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_BLOCK, _BLOCKS = 50, 200
_LOCKS = Path(tempfile.gettempdir()) / f"mom-test-ports-{os.getuid()}"


def reserve_ports(count: int) -> list[int]:
    """Ports on loopback that are this process's until it ends."""
    return [reserve_port() for _ in range(count)]


def reserve_port() -> int:
    """A port on loopback that is this process's until it ends. Raises RuntimeError when there is none."""
    return next(port for port in _ports(os.getpid()) if _is_free(port))


@cache
def _ports(_: int) -> Iterator[int]:
    """Those of a process, which a forked one does not share."""
    return _of_blocks()


def _of_blocks() -> Iterator[int]:
    _LOCKS.mkdir(exist_ok=True)
    first = _first()
    for number in random.Random().sample(range(_BLOCKS), _BLOCKS):
        if _lock(number):
            yield from range(first + number * _BLOCK, first + (number + 1) * _BLOCK)
    raise RuntimeError(f"no port from {first} on is free: other tests have locked all blocks in {_LOCKS}")


def _first() -> int:
    """The first port of a range that does not overlap the kernel's."""
    kernels = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    below = int(kernels[0]) - _BLOCK * _BLOCKS
    return below if below > 1024 else int(kernels[1]) + 1


def _lock(number: int) -> bool:
    """Whether the block is this process's now; its file stays open until the process ends."""
    file = os.open(_LOCKS / str(number), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    return True


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
