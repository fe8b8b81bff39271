"""The audit of messages: one entry for each, in the event log or in a file."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from broker_app.base.events import MESSAGE_AUDITED
from broker_app.base.refused import Refused
from broker_app.reflex.api import ACCEPT, Verdict
from broker_app.reflex.chain import InBroker
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.shipped.context import Context
from broker_app.reflex.shipped.options import Option, one_of, texts
from broker_app.reflex.subject import MessageSubject, Subject

EVENTS, FILE = "events", "file"
OPTIONS: Final = (
    Option(
        "to",
        f"{FILE}: a file in the data directory; {EVENTS}: the event log, for few messages",
        one_of(FILE, EVENTS),
    ),
    Option("headers", "headers that an entry contains", texts),
)
#: characters of the value of a header in an entry
_MAX_VALUE: Final = 500
#: bytes of a file, after which another one is begun; the one before it is kept
MAX_FILE_BYTES: Final = 64 * 1024 * 1024


class AuditFile:
    """Appends lines of JSON to a file. A line is written before the message is accepted, and survives the end
    of this process. Raises Refused when it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._size = 0

    def append(self, entry: dict[str, Any]) -> None:
        """Write one entry."""
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
        try:
            if self._descriptor < 0 or self._size + len(line) > MAX_FILE_BYTES:
                self._begin(len(line))
            self._size += os.write(self._descriptor, line)
        except OSError as error:
            raise Refused("store-full", f"{self._path} cannot be written: {error.strerror}") from error

    def _begin(self, size: int) -> None:
        self.close()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size + size > MAX_FILE_BYTES:
            self._path.replace(self._path.with_suffix(".1.jsonl"))
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def audit(declaration: Declaration, context: Context) -> InBroker:
    """Note each message."""
    names = list(declaration.options.get("headers", ()))
    to_file = declaration.options.get("to", FILE) == FILE
    file = AuditFile(context.data / "audit" / f"{_file_name(declaration.name)}.jsonl")

    def decide(subject: Subject, trial: bool) -> Verdict:
        assert isinstance(subject, MessageSubject)
        if trial:
            return ACCEPT
        facts = _facts(subject, names)
        if to_file:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            file.append({"at": now, "reflex": declaration.name, "kind": declaration.kind, **facts})
        else:
            context.events.report(MESSAGE_AUDITED, declaration.name, **facts)
        return ACCEPT

    return decide


def _facts(subject: MessageSubject, names: list[str]) -> dict[str, Any]:
    headers = subject.headers if names else {}
    return {
        "destination": subject.address,
        "type": subject.type,
        "user": subject.user,
        "bytes": len(subject.body),
        **({"id": subject.message_id.decode()} if subject.message_id else {}),
        "headers": {name: headers[name][:_MAX_VALUE] for name in names if name in headers},
    }


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)
