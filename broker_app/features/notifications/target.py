"""The target of a notification: `queue:NAME`, `https://…` or `mailto:ADDRESS`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from broker_app.base.refused import Refused
from broker_app.core.destination import parse

QUEUE, WEBHOOK, MAIL = "queue", "webhook", "mail"
#: characters of one, and targets of an alert rule
LONGEST: Final = 1_000
MOST_TARGETS: Final = 10
_MAIL = re.compile(r"[^\s@<>,;:\"()\[\]\\]{1,64}@[\w.-]{1,255}", re.ASCII)


class NotificationTarget(NamedTuple):
    """`where` is a queue's address, a URL or a mail address."""

    kind: str
    where: str

    @classmethod
    def of(cls, text: str) -> NotificationTarget:
        """Raises ValueError with the forms that a target can have."""
        scheme, colon, rest = text.partition(":")
        if len(text) > LONGEST or not text.isprintable() or not colon:
            raise ValueError("must be queue:NAME, an address such as https://host/path, or mailto:ADDRESS")
        if scheme == QUEUE:
            try:
                return cls(QUEUE, parse(f"/queue/{rest}").address)
            except Refused as refused:
                raise ValueError(refused.detail) from None
        if scheme == "mailto":
            if not _MAIL.fullmatch(rest):
                raise ValueError("must be one plain mail address behind mailto:")
            return cls(MAIL, rest)
        if scheme in ("http", "https"):
            _check_url(text)
            return cls(WEBHOOK, text)
        raise ValueError("must begin with queue:, https://, http:// or mailto:")


def _check_url(text: str) -> None:
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not text.isascii() or " " in text:
        raise ValueError("must be an address such as https://host/path, of ASCII and without blanks")
    if parts.username is not None:
        raise ValueError("remove user and password from the address: it is shown to administrators")
