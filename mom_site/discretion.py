"""A filter of the log, which leaves out what may be secret."""

from __future__ import annotations

import logging
import re

_LINK = re.compile(r"(/login/once/)[^\s?'\"]+")


class WithoutLinks(logging.Filter):
    """Takes the secret out of the addresses of one-time links: they may not have been used yet."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "/login/once/" in message:
            record.msg, record.args = _LINK.sub(r"\1…", message), ()
        return True
