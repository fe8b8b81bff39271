"""Descriptors: how many files and connections the process may have open; connections leave some to files.

The system gives a new connection the lowest number that is free. One with a number among the last is refused,
so these stay free for the journal, the database and what else is opened.
"""

from __future__ import annotations

import logging
import resource
import socket

from broker_app.net.log_limit import RareLog

log = logging.getLogger(__name__)

#: where the system has no bound of its own
_MOST = 1_048_576
#: of a bound, and at most so many
_RESERVED_PART, _MOST_RESERVED = 4, 512

_rare = RareLog(log, logging.WARNING)


def raise_limit() -> int:
    """Let the process have as many open as it may; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:  # macOS has another bound beside
        log.warning("the process keeps its limit of %d open files: %s", soft, error)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def has_room(connection: socket.socket) -> bool:
    """Whether a new connection leaves enough to the files. The log has that it does not."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    reserve = min(limit // _RESERVED_PART, _MOST_RESERVED)
    if limit == resource.RLIM_INFINITY or connection.fileno() < limit - reserve:
        return True
    _rare.say(
        "connections are refused: the process may have %d files open, of which %d are kept for the journal "
        "and others; raise the hard limit (ulimit -Hn, LimitNOFILE) for more clients",
        limit,
        reserve,
    )
    return False
