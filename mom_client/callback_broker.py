"""The callback broker of this user on this machine: the file by which programs find it.

The callback broker writes the file when it listens, and removes it when it stops; only its user can read it.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["NAME", "HostBroker", "file_path", "read_file", "state_directory"]

#: the name of every callback broker
NAME = "REcallback"
_FILE = "programs.json"


class HostBroker(NamedTuple):
    """A callback broker: its STOMP and web addresses, a token for programs of its user, its process id."""

    stomp: str
    url: str
    token: str
    pid: int


def state_directory() -> Path:
    """The directory of the callback broker: below XDG_STATE_HOME, else in the home directory."""
    base = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(base) / "mom" / NAME


def file_path() -> Path:
    """The path of the file."""
    return state_directory() / _FILE


def read_file() -> HostBroker | None:
    """The callback broker that the file names; None without a usable file. It may have ended since."""
    try:
        facts = json.loads(file_path().read_text(encoding="utf-8"))
        return HostBroker(
            str(facts["stomp"]), str(facts["url"]), str(facts["token"]), int(facts.get("pid", 0))
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
