"""The secret key of a node: made once, kept in its data directory, readable only by its user.

Its file has the key in the first line. Former keys may stand below it: what was signed or encrypted with them
can still be read, and is written with the newest.
"""

import os
import secrets
import tempfile
from pathlib import Path


def secret_key(path: Path) -> str:
    """The newest key, made when there is none. Processes that start together agree on one."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _publish(path, secrets.token_urlsafe(48))
    return _keys(path)[0]


def former_keys(path: Path) -> list[str]:
    """Keys of former times, the newest of them first."""
    return _keys(path)[1:] if path.exists() else []


def _keys(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").split()


def _publish(path: Path, key: str) -> None:
    # mkstemp makes the file with mode 0600; the link fails if another process has made it meanwhile.
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key + "\n")
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)
