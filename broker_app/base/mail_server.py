"""The address of a mail server, as the setting `smtp` has it: smtp://USER:PASSWORD@HOST:PORT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

#: encryption of the connection by scheme, and its port
PLAIN, STARTTLS, TLS = SCHEMES = ("smtp", "smtp+starttls", "smtps")
_PORTS: Final = {PLAIN: 25, STARTTLS: 587, TLS: 465}


class MailServer(NamedTuple):
    """`security` is one of the schemes; without a `user` there is no login."""

    host: str
    port: int
    security: str = PLAIN
    user: str = ""
    password: str = ""


def parse(address: str) -> MailServer:
    """Raises ValueError with a sentence, which does not repeat the address: it can contain a password."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise ValueError("the address of the mail server has no valid host and port") from None
    if parts.scheme not in SCHEMES or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(
            "the address of the mail server is smtp://HOST:PORT, smtp+starttls://HOST:PORT or "
            "smtps://HOST:PORT, with USER:PASSWORD@ before the host for a login"
        )
    return MailServer(
        parts.hostname,
        port or _PORTS[parts.scheme],
        parts.scheme,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


def faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The error of the setting, if it has one."""
    try:
        if values.get("smtp") is not None:
            parse(values["smtp"])
    except ValueError as error:
        yield "smtp", str(error)
