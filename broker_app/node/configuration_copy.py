"""Data directories whose configuration is a copy: that of the active broker replaces it, and at each start.

A broker that shares its journal and has no `MOM_DATABASE` leaves a mark in its data directory. Commands that
change the configuration there, without the broker, look for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from broker_app.config import ADDRESS

#: the mark
FILE: Final = "replicated_configuration"
#: seconds for an answer of the broker
_ANSWER_S: Final = 2.0
#: bytes of an answer that are read
_MOST_BYTES: Final = 4096


class ConfigurationCopy(Exception):
    """A change of a configuration that would be lost; the text says where to make it instead."""


def mark(data: Path, *, is_copy: bool) -> None:
    """Note whether the configuration in `data` is a copy. Raises OSError."""
    if is_copy:
        (data / FILE).touch(mode=0o600)
    else:
        (data / FILE).unlink(missing_ok=True)


def refuse_change(data: Path) -> None:
    """Raise ConfigurationCopy where a change in `data` would be lost: the broker there does not serve now."""
    if (data / FILE).exists() and not _serves(data):
        raise ConfigurationCopy(
            "the broker of this directory does not serve now, and its configuration is replaced by that of "
            "the active broker: make the change there, or while this broker serves"
        )


def _serves(data: Path) -> bool:
    """True if the broker that has written its address to `data` is ready, as far as that can be found out."""
    # Here, since most commands do not ask, and are to start fast.
    import ssl
    import urllib.error
    import urllib.request
    from http import HTTPStatus

    try:
        address = (data / ADDRESS).read_text(encoding="utf-8").strip()
        urllib.request.urlopen(f"{address}/health/ready", timeout=_ANSWER_S).close()
    except urllib.error.HTTPError as error:
        with error:
            # One whose store is full is not ready for messages, and serves.
            return error.code != HTTPStatus.SERVICE_UNAVAILABLE or b"store-full" in error.read(_MOST_BYTES)
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)  # it answers, with a certificate that is not known here
    except (OSError, ValueError):
        return False
    return True
