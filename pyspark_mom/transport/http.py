"""Reads a journal from its broker, over HTTP: stored frames, as docs/protocol.md describes them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from broker_app.journal import codec
from pyspark_mom.credentials import Credential
from pyspark_mom.errors import (
    AccessDenied,
    BrokerUnreachable,
    JournalReplaced,
    JournalUnreadable,
)
from pyspark_mom.http_connection import BUSY, DENIED, HttpConnection, Reply
from pyspark_mom.tls import Tls
from pyspark_mom.transport import Span, StoredFrame

#: bytes of frames that are asked for at a time; one batch may be larger
_RUN_BYTES: Final = 8 * 1024 * 1024
_MEDIA_TYPE: Final = "application/vnd.mom.journal"
#: seconds before a request is repeated that the broker was too busy for: first, and longest
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
_GONE, _CONFLICT, _NOT_FOUND = 410, 409, 404


class HttpJournal:
    """See `transport.Journal`. `url` has the addresses of the broker, with commas; `timeout_s` is the longest
    time without an answer."""

    def __init__(self, broker: str, url: str, credential: Credential, *, tls: Tls, timeout_s: float) -> None:
        self._broker = broker
        self._url = url
        self._timeout_s = timeout_s
        self._connection = HttpConnection(
            url, credential, tls=tls, timeout_s=timeout_s, broker=broker, large=_MEDIA_TYPE
        )

    def span(self) -> Span:
        """See `transport.Journal.span`."""
        found = self._checked(self._ask("GET", "journal/span"))
        try:
            return Span(found["low"], found["end"], found["epoch"], int(found["journal"], 16))
        except (KeyError, TypeError, ValueError) as error:
            raise self._strange(f"{found!r:.200}") from error

    def frames(self, start: int, end: int) -> Iterator[StoredFrame]:
        """See `transport.Journal.frames`."""
        position = start
        while position < end:
            path = f"journal/batches?from={position}&to={end}&max_bytes={_RUN_BYTES}"
            reply = self._ask("GET", path, patience_s=self._timeout_s)
            if reply.status == _GONE:
                low = reply.json.get("low")
                if not isinstance(low, int) or low <= position:
                    raise self._strange(reply.detail)
                position = low  # a gap, which the check of the range notices
                continue
            if reply.status == _CONFLICT:
                raise JournalReplaced(f"{self._broker}: {reply.detail}")
            self._check(reply)
            before = position
            for found in self._frames_of(reply.body):
                yield found
                position = found.frame.next_position
            if position <= before:
                raise BrokerUnreachable(
                    f"{self._broker}: the broker has sent no frame for position {position}; try again"
                )

    def position_at(self, time_us: int) -> int:
        """See `transport.Journal.position_at`."""
        # The broker counts milliseconds: those that have begun are taken whole.
        at = datetime.fromtimestamp(-(-time_us // 1000) / 1000, UTC).isoformat(timespec="milliseconds")
        found = self._checked(self._ask("GET", f"journal/position?time={quote(at)}"))
        position = found.get("position")
        if not isinstance(position, int):
            raise self._strange(f"{found!r:.200}")
        return position

    def set_cursor(self, name: str, position: int) -> None:
        """Report that everything before a position was read. Raises MomError."""
        body = json.dumps({"position": position}).encode()
        self._check(self._ask("PUT", f"pipeline/cursors/{quote(name, safe='')}", body))

    def close(self) -> None:
        """See `transport.Journal.close`."""
        self._connection.close()

    # ------------------------------------------------------------------------ frames

    def _frames_of(self, body: bytes) -> Iterator[StoredFrame]:
        """The whole frames of a reply, which may have ended early."""
        at = 0
        while (frame := codec.decode_frame(body, at)) is not None and at + frame.length <= len(body):
            if frame.length < codec.FRAME_HEADER_BYTES:
                break
            yield StoredFrame(frame, body[at : at + frame.length])
            at += frame.length

    # ---------------------------------------------------------------------- requests

    def _ask(self, method: str, path: str, body: bytes | None = None, *, patience_s: float = 0.0) -> Reply:
        """The reply to a request, which is repeated for so many seconds while the broker is busy or away."""
        deadline, pause = time.monotonic() + patience_s, _FIRST_PAUSE_S
        while True:
            try:
                reply = self._connection.ask(method, path, body)
            except BrokerUnreachable:
                if time.monotonic() + pause > deadline:
                    raise
            else:
                if reply.status not in BUSY or time.monotonic() + pause > deadline:
                    return reply
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    # ------------------------------------------------------------------------ errors

    def _checked(self, reply: Reply) -> dict[str, Any]:
        self._check(reply)
        return reply.json

    def _check(self, reply: Reply) -> None:
        """Raise the error of a reply that is none of success."""
        if reply.status in DENIED:
            raise AccessDenied(
                f"{self._broker}: {reply.detail}; name with credential a token, or USER:PASSWORD, with the "
                "right journal:read"
            )
        if reply.status in BUSY:
            raise BrokerUnreachable(f"{self._broker}: {self._url} is not ready: {reply.detail}")
        if not reply.succeeded:
            raise self._strange(reply.detail)

    def _strange(self, what: str) -> JournalUnreadable:
        return JournalUnreadable(
            f"{self._broker}: {self._url} answered {what}; the address must be that of a MOM broker that has "
            "/api/v1/journal"
        )
