"""The masks of a user: messages as that user may see them, which are shown and searched instead."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from broker_app.core.destination import DEAD_SUFFIX
from broker_app.core.header_block import headers
from broker_app.core.message import Envelope, Message
from broker_app.core.storage import dead_letter_headers
from broker_app.features.masks.hidden_values import HIDDEN, Parts, hide_fields, hide_headers
from broker_app.features.masks.mask import Mask, parts_of

#: addresses whose masks are remembered
_MAX_KNOWN: Final = 1_000

_EVERYTHING: Final = ">"
_WILDCARD: Final = re.compile("[*>]")


class Cover(NamedTuple):
    """The hidden values: names of headers in small letters, and the parts of pointers."""

    headers: frozenset[str]
    fields: frozenset[Parts]


_NOTHING: Final = Cover(frozenset(), frozenset())


class UserMasks:
    """The `masks` that hide values from one user."""

    def __init__(self, masks: Iterable[Mask]) -> None:
        self.masks = tuple(masks)
        self._known: dict[tuple[str, ...], Cover] = {}

    def covers(self, address: str) -> list[str]:
        """The names of the masks of messages at an address."""
        return [mask.name for mask in self.masks if _is_about(mask.destination, address)]

    def shown(self, address: str, message: Message) -> Message:
        """The message as the user sees it at an address: itself when nothing of it is hidden."""
        if not self.masks:
            return message
        block, body = message.envelope.block, message.body
        came_from = dead_letter_headers.origin_of(block), dead_letter_headers.sent_to(block)
        cover = self._cover(address, message.envelope.address, *came_from)
        if cover is _NOTHING:
            return message
        hidden_block, hidden_body = hide_headers(block, cover.headers), hide_fields(body, cover.fields)
        if hidden_block is block and hidden_body is body:
            return message
        shown = copy.copy(message)
        shown.envelope = _with_block(message.envelope, hidden_block)
        shown.body = hidden_body
        return shown

    def fitting(
        self, address: str, fits: Callable[[Message, bytes], bool]
    ) -> Callable[[Message, bytes], bool]:
        """A filter of messages at an address that finds nothing by what is hidden."""
        if not self.masks:
            return fits
        return lambda message, message_id: fits(self.shown(address, message), message_id)

    def _cover(self, *addresses: str) -> Cover:
        found = self._known.get(addresses)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[addresses] = self._find(addresses)
        return found

    def _find(self, addresses: Sequence[str]) -> Cover:
        masks = [
            mask for mask in self.masks if any(one and _is_about(mask.destination, one) for one in addresses)
        ]
        if not masks:
            return _NOTHING
        return Cover(
            frozenset(name.lower() for mask in masks for name in mask.headers),
            frozenset(parts_of(pointer) for mask in masks for pointer in mask.fields),
        )


#: those of who sees everything
NO_MASKS: Final = UserMasks(())


class Replacements:
    """Replaces values of headers that are hidden, in texts that name them."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = sorted({value for value in values if value}, key=len, reverse=True)

    @classmethod
    def of(cls, message: Message, shown: Message) -> Replacements:
        """Those of a message, which is `shown` without some values."""
        if message.envelope is shown.envelope:
            return cls(())
        seen = headers(shown.envelope.block)
        return cls(value for name, value in headers(message.envelope.block).items() if seen[name] != value)

    def text(self, text: str) -> str:
        """A text without the values."""
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without them."""
        if not self._values:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.value(one) for name, one in value.items()}
        return [self.value(one) for one in value] if isinstance(value, list) else value


def _is_about(pattern: str, address: str) -> bool:
    """Return whether a mask is about an address; that of a queue is about its dead letters as well. An
    address with wildcards, as durable subscriptions have, may stand for all that begin as it does."""
    if pattern == _EVERYTHING:
        return True
    if _WILDCARD.search(address):
        begins, beginning = _WILDCARD.split(address)[0], pattern.removesuffix(_EVERYTHING)
        return begins.startswith(beginning) or beginning.startswith(begins)
    if pattern.endswith(_EVERYTHING):
        return address.startswith(pattern[:-1])
    return address in (pattern, pattern + DEAD_SUFFIX)


def _with_block(envelope: Envelope, block: bytes) -> Envelope:
    if block is envelope.block:
        return envelope
    return Envelope(
        envelope.address,
        block,
        persistent=envelope.persistent,
        priority=envelope.priority,
        ttl_ms=envelope.ttl_ms,
        expires_ms=envelope.expires_ms,
        options=envelope.options,
    )
