"""The secret key of a node: made once, kept in its data directory, readable by its user alone."""

import os
import secrets
import tempfile
from pathlib import Path


def secret_key(data: Path) -> str:
    """The key in `data`/secret_key, made when there is none. Processes that start together agree on one."""
    path = data / "secret_key"
    if not path.exists():
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        _publish(path, secrets.token_urlsafe(48))
    return path.read_text(encoding="ascii").strip()


def _publish(path: Path, key: str) -> None:
    # mkstemp makes the file with mode 0600; the link makes it appear whole, and only if nobody was faster.
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key + "\n")
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)
