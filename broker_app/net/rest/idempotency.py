"""Repeats of requests with an Idempotency-Key: done once, answered alike, for a day and while the node runs.

A repeat over a restart is known by the dedup-ids of destinations, which messages with a key get as well.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import NamedTuple

from broker_app.net.rest.refusals import Refusal, invalid
from broker_app.net.rest.replies import Header, Reply
from broker_app.net.rest.requests import Request

_KEY = re.compile(rb'[!#-~]{1,255}|"[ !#-~]{1,255}"')
_REPLAYED: Header = (b"idempotency-replayed", b"true")
_DEDUP_ID = b"mom-dedup-id"


class _Kept(NamedTuple):
    """The entry of a key: digest of the request, expiry, and reply; None while it is processed."""

    digest: bytes
    until: float
    reply: Reply | None


class Replayed(Exception):
    """The request was answered before, by this reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("answered before")
        self.reply = reply


class Repeats:
    """The replies of this process by user and key; the oldest go first. `clock` is in seconds."""

    KEPT_S = 86_400.0
    MOST = 100_000
    MOST_BYTES = 16 * 1024 * 1024
    #: bytes of memory, in addition to the body
    ENTRY_BYTES = 500

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, bytes], _Kept] = OrderedDict()
        self._bytes = 0

    async def answer(
        self, request: Request, key: bytes, endpoint: Callable[[Request], Awaitable[Reply | None]]
    ) -> Reply | None:
        """What `endpoint` answers, or answered to this request before. Raises Refusal for a key that was
        used with another request, or whose request is under way."""
        if not _KEY.fullmatch(key):
            raise invalid("header/idempotency-key", "must have 1 to 255 printable characters of ASCII")
        once = request.once = Once(self, request, key.strip(b'"'))
        try:
            reply = await endpoint(request)
        except Replayed as replayed:
            return replayed.reply._replace(headers=(*replayed.reply.headers, _REPLAYED))
        except BaseException:
            once.release()
            raise
        if reply is not None and reply.status < 300:
            once.keep(reply)
        else:
            once.release()
        return reply

    def begin(self, name: tuple[str, bytes], digest: bytes) -> None:
        """Notes that the request of a key is under way. Raises Replayed, Refusal."""
        self._forget()
        kept = self._kept.get(name)
        if kept is None:
            self._put(name, _Kept(digest, self._clock() + self.KEPT_S, None))
        elif kept.digest != digest:
            raise Refusal("idempotency-mismatch", "this Idempotency-Key was used with another request")
        elif kept.reply is None:
            again = [(b"retry-after", b"1")]
            raise Refusal("conflict", "the first request of this key is still under way", headers=again)
        else:
            raise Replayed(kept.reply)

    def keep(self, name: tuple[str, bytes], reply: Reply) -> None:
        """Keeps the reply to a request that is under way."""
        kept = self._drop(name)
        if kept is not None:
            self._put(name, kept._replace(reply=reply))

    def release(self, name: tuple[str, bytes]) -> None:
        """Forgets a request that came to nothing."""
        self._drop(name)

    def _put(self, name: tuple[str, bytes], kept: _Kept) -> None:
        self._kept[name] = kept
        self._bytes += self._size(kept)

    def _drop(self, name: tuple[str, bytes]) -> _Kept | None:
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._bytes -= self._size(kept)
        return kept

    def _forget(self) -> None:
        """Drops what is too old and, from the oldest on, what is too much."""
        now = self._clock()
        while self._kept:
            name, kept = next(iter(self._kept.items()))
            if kept.until > now and len(self._kept) < self.MOST and self._bytes < self.MOST_BYTES:
                return
            self._drop(name)

    def _size(self, kept: _Kept) -> int:
        return self.ENTRY_BYTES + (len(kept.reply.body) if kept.reply is not None else 0)


class Once:
    """One request with a key. It is known whether it is a repeat as soon as its body was read."""

    def __init__(self, repeats: Repeats, request: Request, key: bytes) -> None:
        self._repeats = repeats
        self._name = (request.user, key)
        self._request = request
        self._begun = False
        self.digest = b""

    def check(self, body: bytes) -> None:
        """Raises Replayed, Refusal; otherwise the request may be carried out, this once."""
        request = self._request
        said = [request.method.encode(), request.name.encode(), request.query_string, request.content_type]
        said += [b"%b: %b" % header for header in request.headers if header[0].startswith((b"mom-", b"ce-"))]
        self.digest = blake2b(b"\n".join([*said, b"", body]), digest_size=32).digest()
        self._repeats.begin(self._name, self.digest)
        self._begun = True

    def keep(self, reply: Reply) -> None:
        if self._begun:
            self._repeats.keep(self._name, reply)

    def release(self) -> None:
        if self._begun:
            self._repeats.release(self._name)

    def with_dedup_id(self, headers: list[Header]) -> list[Header]:
        """Headers of a message by which its destination knows a repeat, if none of them does so already."""
        if any(name == _DEDUP_ID for name, _ in headers):
            return headers
        return [*headers, (_DEDUP_ID, self.dedup_id().encode())]

    def dedup_id(self, number: int | None = None) -> str:
        """The dedup-id of a repeatable message, or of the one with this number in a batch."""
        user, key = self._name
        said = blake2b(b"%b\n%b\n%b" % (user.encode(), key, self.digest), digest_size=16).hexdigest()
        return f"idempotency-key:{said}" + ("" if number is None else f":{number}")
