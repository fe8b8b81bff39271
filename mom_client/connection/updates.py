"""A text of addresses outside the broker, for when no known address answers (`updateURIsURL`)."""

import asyncio
import http.client
import io
import logging
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

__all__ = ["UpdateSource"]

log = logging.getLogger("mom_client")

MAX_BYTES = 64 * 1024
READ_S = 5.0
_PIECE = 8192
#: bytes of an exchange, with all heads
MAX_EXCHANGE = 256 * 1024


class UpdateSource:
    """A URL or a local path; its text has addresses, separated by commas or lines.

    Raises ValueError for a URL that is neither http, https nor file.
    """

    def __init__(self, source: str, *, rebalance: bool = True) -> None:
        scheme = urllib.parse.urlsplit(source).scheme if "://" in source or source.startswith("file:") else ""
        if scheme not in ("", "http", "https", "file"):
            raise ValueError(
                f"updateURIsURL {source[:80]!r} is neither a path nor http://, https:// or file:"
            )
        self._source = source
        self._remote = bool(scheme)
        self._rebalance = rebalance
        self._last: frozenset[str] | None = None

    async def read(self) -> tuple[list[str], bool]:
        """The addresses, and whether they are others than those read before.

        Reads in a thread, at most `MAX_BYTES` and `READ_S`. What cannot be read is a warning, and no address.
        """
        try:
            async with asyncio.timeout(READ_S):
                text = await asyncio.to_thread(self._read)
        except (OSError, ValueError, http.client.HTTPException) as error:  # TimeoutError is an OSError
            reason = f"no answer within {READ_S:g} s" if isinstance(error, TimeoutError) else error
            log.warning("updateURIsURL %s cannot be read: %s", self._source, reason)
            return [], False
        addresses = [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]
        now = frozenset(addresses)
        changed = self._rebalance and self._last is not None and now != self._last
        self._last = now
        return addresses, changed

    def _read(self) -> str:
        if not self._remote:
            with Path(self._source).open("rb") as file:
                return _text(file.read(MAX_BYTES + 1))
        deadline = time.monotonic() + READ_S
        data = b""
        opener = urllib.request.build_opener(_HttpHandler, _HttpsHandler)
        with opener.open(self._source, timeout=READ_S) as reply:
            while len(data) <= MAX_BYTES and (piece := reply.read1(_PIECE)):
                data += piece
                if time.monotonic() > deadline:
                    raise TimeoutError
        return _text(data)


class _BoundedReader(io.RawIOBase):
    """Reads at most `MAX_EXCHANGE` bytes, within `READ_S`."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self._left = MAX_EXCHANGE
        self._deadline = time.monotonic() + READ_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if time.monotonic() > self._deadline:
            raise TimeoutError
        count: int | None = self._raw.readinto(buffer)
        self._left -= count or 0
        if self._left < 0:
            raise OSError(f"it sent more than {MAX_EXCHANGE:,} bytes")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer that is bounded with its head, and with what comes before it (100 Continue)."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.fp = io.BufferedReader(_BoundedReader(self.fp.detach()))


class _HttpConnection(http.client.HTTPConnection):
    response_class = _Answer


class _HttpsConnection(http.client.HTTPSConnection):
    response_class = _Answer


class _HttpHandler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_HttpConnection, request)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_HttpsConnection, request)


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    return data.decode()
