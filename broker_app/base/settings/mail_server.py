"""The address of a mail server, as the setting `smtp` has it: smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

#: encryption of the connection by scheme, and its port
PLAIN, STARTTLS, TLS = SCHEMES = ("smtp", "smtp+starttls", "smtps")
_FROM: Final = re.compile(r"from=([^\s@&]+@[^\s@&]+)")
_PORTS: Final = {PLAIN: 25, STARTTLS: 587, TLS: 465}


class MailServer(NamedTuple):
    """`security` is one of the schemes; without a `user` there is no login."""

    host: str
    port: int
    security: str = PLAIN
    user: str = ""
    password: str = ""
    sender: str = "mom@localhost"


def parse(address: str) -> MailServer:
    """Raises ValueError with a sentence, which does not repeat the address: it can contain a password."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise ValueError("the address of the mail server has no valid host and port") from None
    sender = _FROM.fullmatch(parts.query)
    is_address = parts.scheme in SCHEMES and parts.hostname and not parts.path.strip("/")
    if not is_address or (parts.query and sender is None):
        raise ValueError(
            "the address of the mail server is smtp://HOST:PORT, smtp+starttls://HOST:PORT or "
            "smtps://HOST:PORT, with USER:PASSWORD@ before the host for a login, and ?from=NAME@HOST "
            "at the end for the sender"
        )
    server = MailServer(
        parts.hostname or "",
        port or _PORTS[parts.scheme],
        parts.scheme,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )
    return server if sender is None else server._replace(sender=unquote(sender[1]))


def faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The error of the setting, if it has one."""
    try:
        if values.get("smtp") is not None:
            parse(values["smtp"])
    except ValueError as error:
        yield "smtp", str(error)
