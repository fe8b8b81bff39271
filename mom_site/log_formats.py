"""Formats of the lines of the log: text to be read, or JSON for programs that collect logs."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from typing import Any, Final


class _Zoned(logging.Formatter):
    """Writes times with their zone: logs of machines in several zones are read together."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


class TextFormat(_Zoned):
    """Time, severity, logger and message."""

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname:<7} {name}: {message}", style="{")


class JsonFormat(_Zoned):
    """One object a line, with the facts of an event as members of their own."""

    def format(self, record: logging.LogRecord) -> str:
        about: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        about |= {name: fact for name, fact in getattr(record, "facts", {}).items() if name not in about}
        if record.exc_info:
            about["exception"] = self.formatException(record.exc_info)
        return json.dumps(about, ensure_ascii=False, default=str)


#: format → the formatter
FORMATS: Final[dict[str, type[logging.Formatter]]] = {"text": TextFormat, "json": JsonFormat}
