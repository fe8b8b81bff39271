"""The limit of open files and connections of the process.

The system gives a new connection the lowest free descriptor. A connection with one of the highest is refused,
so that these stay free for the journal, the database and other files.
"""

from __future__ import annotations

import logging
import resource
import socket

from broker_app.base.log_limit import RareLog

log = logging.getLogger(__name__)

#: used if the system has no limit
_MOST = 1_048_576
#: the part of the limit that is reserved for files, and its maximum
_RESERVED_PART, _MAX_RESERVED = 4, 512

_rare = RareLog(log, logging.WARNING)


def raise_limit() -> int:
    """Raise the limit of open files to the hard limit. Returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:  # macOS has a second limit
        log.warning("the process keeps its limit of %d open files: %s", soft, error)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def has_room(connection: socket.socket) -> bool:
    """Return True if enough descriptors stay free with a new connection; otherwise a warning is logged."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    reserve = min(limit // _RESERVED_PART, _MAX_RESERVED)
    if limit == resource.RLIM_INFINITY or connection.fileno() < limit - reserve:
        return True
    _rare.log(
        "connections are refused: the process may have %d files open, of which %d are kept for the journal "
        "and others; raise the hard limit (ulimit -Hn, LimitNOFILE) for more clients",
        limit,
        reserve,
    )
    return False
