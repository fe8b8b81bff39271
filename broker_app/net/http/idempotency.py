"""Requests with an Idempotency-Key: carried out once, and answered the same for a day or until a restart.

After a restart, destinations recognize repeated messages by the dedup-ids that are derived from the key.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.base.refused import Refused
from broker_app.net.http.refusals import RefusedWithHeaders, invalid
from broker_app.net.http.replies import Header, Reply
from broker_app.net.http.requests import Request

_KEY = re.compile(rb'[!#-~]{1,255}|"[ !#-~]{1,255}"')
_REPLAYED: Header = (b"idempotency-replayed", b"true")
_DEDUP_ID = b"mom-dedup-id"


class _Kept(NamedTuple):
    """The entry of a key: digest of the request, expiry, and reply; None while it is processed."""

    digest: bytes
    until: float
    reply: Reply | None


class Replayed(Exception):
    """The request was answered before, with this reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("answered before")
        self.reply = reply


class IdempotencyStore:
    """The replies of this process by user and key; the oldest go first. `clock` is in seconds."""

    KEPT_S = 86_400.0
    MOST = 100_000
    MAX_BYTES = 16 * 1024 * 1024
    #: bytes of memory, in addition to the body
    ENTRY_BYTES = 500

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, bytes], _Kept] = OrderedDict()
        self._bytes = 0

    async def answer(
        self,
        request: Request,
        key: bytes,
        operation: bytes,
        endpoint: Callable[[Request], Awaitable[Reply | None]],
    ) -> Reply | None:
        """The reply of `endpoint`, or its former reply to this request for an `operation`. Raises Refused for
        a key of another request, or of one that is in progress."""
        if not _KEY.fullmatch(key):
            raise invalid("header/idempotency-key", "must have 1 to 255 printable characters of ASCII")
        once = request.idempotency = IdempotentRequest(self, request, key.strip(b'"'), operation)
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
        """Record that the request of a key is in progress. Raises Replayed, Refused."""
        self._forget()
        kept = self._kept.get(name)
        if kept is None:
            self._put(name, _Kept(digest, self._clock() + self.KEPT_S, None))
        elif kept.digest != digest:
            raise Refused("idempotency-mismatch", "this Idempotency-Key was used with another request")
        elif kept.reply is None:
            detail = "the first request with this key is still in progress"
            raise RefusedWithHeaders("conflict", detail, [(b"retry-after", b"1")])
        else:
            raise Replayed(kept.reply)

    def keep(self, name: tuple[str, bytes], reply: Reply) -> None:
        """Store the reply to a request that is in progress."""
        kept = self._drop(name)
        if kept is not None:
            self._put(name, kept._replace(reply=reply))

    def release(self, name: tuple[str, bytes]) -> None:
        """Forget a request that failed."""
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
        """Drop entries that are too old and, from the oldest on, those over the limits."""
        now = self._clock()
        while self._kept:
            name, kept = next(iter(self._kept.items()))
            if kept.until > now and len(self._kept) < self.MOST and self._bytes < self.MAX_BYTES:
                return
            self._drop(name)

    def _size(self, kept: _Kept) -> int:
        return self.ENTRY_BYTES + (len(kept.reply.body) if kept.reply is not None else 0)


class IdempotentRequest:
    """One request with a key. Once its body was read, it is known whether it is a repeat."""

    def __init__(self, store: IdempotencyStore, request: Request, key: bytes, operation: bytes) -> None:
        self._store = store
        self._operation = operation
        self._name = (request.user, key)
        self._request = request
        self._begun = False
        self.digest = b""

    async def check(self, body: bytes) -> None:
        """Raises Replayed, Refused; otherwise the request may be carried out."""
        self.digest = await in_thread_if_large(len(body), partial(self._digest, body))
        self._store.begin(self._name, self.digest)
        self._begun = True

    def _digest(self, body: bytes) -> bytes:
        request = self._request
        parts = [request.method.encode(), self._operation, request.name.encode()]
        parts += [request.query_string, request.content_type]
        parts += [b"%b: %b" % header for header in request.headers if header[0].startswith((b"mom-", b"ce-"))]
        digest = blake2b(b"\n".join([*parts, b"", b""]), digest_size=32)
        digest.update(body)
        return digest.digest()

    def keep(self, reply: Reply) -> None:
        if self._begun:
            self._store.keep(self._name, reply)

    def release(self) -> None:
        if self._begun:
            self._store.release(self._name)

    def with_dedup_id(self, headers: list[Header]) -> list[Header]:
        """The headers with a dedup-id, unless they have one."""
        if any(name == _DEDUP_ID for name, _ in headers):
            return headers
        return [*headers, (_DEDUP_ID, self.dedup_id().encode())]

    def dedup_id(self, number: int | None = None) -> str:
        """The dedup-id of a repeatable message, or of the one with this number in a batch."""
        user, key = self._name
        digest = blake2b(b"%b\n%b\n%b" % (user.encode(), key, self.digest), digest_size=16).hexdigest()
        return f"idempotency-key:{digest}" + ("" if number is None else f":{number}")
