"""Envelopes of messages whose headers a part of the broker makes or changes."""

from __future__ import annotations

from collections.abc import Mapping

from broker_app.base.refused import Refused
from broker_app.core import header_block
from broker_app.core.destination import parse
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.net.stomp import headers as stomp_headers

#: envelopes with changed headers that are remembered: thousands of messages share one
_MAX_CACHED = 1_024


class ChangedHeaders:
    """Makes envelopes within the limits of `max_headers` and `max_bytes`."""

    def __init__(self, max_headers: int, max_bytes: int) -> None:
        self._max_headers = max_headers
        self._max_bytes = max_bytes
        self._cache: dict[tuple[Envelope, tuple[tuple[str, str | None], ...]], Envelope] = {}

    def make(self, destination: str, headers: Mapping[str, str]) -> Envelope:
        """The envelope of a message to `destination`. Raises Refused."""
        self._check(headers)
        return stomp_headers.envelope(headers, parse(destination))

    def change(self, envelope: Envelope, changes: Mapping[str, str | None]) -> Envelope:
        """The envelope of the same message with changed headers: a text sets one, None removes it. Raises
        Refused."""
        key = envelope, tuple(changes.items())
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            found = self._cache[key] = self._changed(envelope, changes)
        return found

    def _changed(self, envelope: Envelope, changes: Mapping[str, str | None]) -> Envelope:
        for name in changes:
            if name in stomp_headers.NOT_CARRIED:
                raise Refused("invalid", f"header {name} cannot be changed")
        headers = {**header_block.headers(envelope.block), **changes}
        kept = {name: value for name, value in headers.items() if value is not None}
        changed = self.make(envelope.address, kept)
        former, options = envelope.options, changed.options
        if former is not None and former.is_delayed:  # headers for delays are not in the block
            options = (options or DeliveryOptions())._replace(delay_ms=former.delay_ms, due_ms=former.due_ms)
        persistent = changed.persistent if "persistent" in changes else envelope.persistent
        return Envelope(
            changed.address,
            changed.block,
            persistent=persistent,
            priority=changed.priority,
            ttl_ms=changed.ttl_ms,
            expires_ms=changed.expires_ms,
            options=options,
        )

    def _check(self, headers: Mapping[str, str]) -> None:
        if len(headers) > self._max_headers:
            raise Refused("invalid", f"{len(headers)} headers; at most {self._max_headers} are allowed")
        size = sum(len(name) + len(value) for name, value in headers.items())
        if size > self._max_bytes:
            raise Refused("invalid", f"headers of {size} characters; at most {self._max_bytes} are allowed")
        for name, value in headers.items():
            if not name or "\0" in name or "\0" in value:
                raise Refused("invalid", f"header {name[:40]!r}: a header needs a name, and has no NUL")
