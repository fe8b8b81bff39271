"""A webhook: one POST of JSON, on a new connection, with a timeout. Redirects are not followed."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

#: seconds for all of it
TIMEOUT_S: Final = 15.0
#: header lines of an answer that are read
_MAX_LINES: Final = 100


async def post(url: str, body: bytes, headers: dict[str, str]) -> None:
    """Raises OSError or ValueError with a sentence if the receiver did not accept it."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if secure else 80)
    context = ssl.create_default_context() if secure else None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                writer.write(_request(parts.netloc, parts.path, parts.query, body, headers))
                await writer.drain()
                status, where = await _answer(reader)
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise OSError(f"{host}:{port} has not answered within {TIMEOUT_S:g} s") from None
    if 300 <= status < 400:
        raise ValueError(f"it answers {status}, a redirect to {where[:200]!r}, which is not followed")
    if not 200 <= status < 300:
        raise ValueError(f"it answers {status}")


def _request(netloc: str, path: str, query: str, body: bytes, headers: dict[str, str]) -> bytes:
    target = (path or "/") + (f"?{query}" if query else "")
    lines = {
        "Host": netloc,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "User-Agent": "mom",
        "Connection": "close",
        **headers,
    }
    head = f"POST {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return head.encode("ascii") + b"\r\n" + body


async def _answer(reader: asyncio.StreamReader) -> tuple[int, str]:
    """Status and Location of the first final response."""
    while True:
        words = (await reader.readline()).split(maxsplit=2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise ValueError("what answers there does not speak HTTP")
        where = ""
        for _ in range(_MAX_LINES):
            name, _, value = (await reader.readline()).strip().partition(b":")
            if not name:
                break
            if name.lower() == b"location":
                where = value.strip().decode("latin-1")
        if int(words[1]) >= 200:
            return int(words[1]), where
