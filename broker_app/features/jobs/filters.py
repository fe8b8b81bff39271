"""Filters of messages; all fields of a filter must match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import msgspec
import re2

from broker_app.base.refused import Refused
from broker_app.core import header_block
from broker_app.core.message import Message, MessageIds
from broker_app.core.selectors import compiler
from broker_app.core.storage import dead_letter_headers
from broker_app.features.jobs import filter_text

Fits = Callable[[Message, bytes], bool]

_LITERAL = re2.Options()
_LITERAL.literal = True
_LITERAL.case_sensitive = False

MAX_IDS = 10_000
#: limits: headers of a filter, characters of a text, and of a whole line of conditions
MAX_HEADERS, MAX_TEXT, MAX_LINE = 32, 1_024, 20_000
#: bytes of a body that are searched for a text; more would delay other clients
MAX_SEARCHED = 4 * 1024 * 1024
#: reasons and origins that are counted separately, and characters of each
_MAX_COUNTED, _LONGEST_COUNTED = 10_000, 256
OTHERS = "(others)"


class Filter(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """`reason` is a dead letter's reason, or a part of its detail; `origin` its origin, with or without
    "/queue/". Ages count from the time when the message was added to its queue. `q` is searched for in bodies
    and header values, ignoring case. `state` "delayed" means delayed messages, which are not included
    otherwise."""

    ids: list[str] | None = None
    selector: str | None = None
    reason: str | None = None
    origin: str | None = None
    headers: dict[str, str] | None = None
    age_gt_s: float | None = None
    age_lt_s: float | None = None
    q: str | None = None
    state: Literal["ready", "delayed"] | None = None

    @property
    def empty(self) -> bool:
        """True if every message matches."""
        return all(getattr(self, name) is None for name in self.__struct_fields__)


def of(given: str | dict[str, object] | None) -> Filter:
    """The filter of its one-line form, or of JSON members. Raises Refused("invalid")."""
    if isinstance(given, str) and len(given) > MAX_LINE:
        raise Refused("invalid", f"filter: the line has {len(given)} characters; {MAX_LINE} are allowed")
    try:
        members = filter_text.parse(given) if isinstance(given, str) else given or {}
        chosen = msgspec.convert(members, Filter)
    except (ValueError, msgspec.ValidationError) as error:
        raise Refused("invalid", f"filter: {error}") from None
    if chosen.ids is not None and len(chosen.ids) > MAX_IDS:
        raise Refused("invalid", f"filter: {len(chosen.ids)} ids; at most {MAX_IDS} are taken")
    if chosen.headers is not None and len(chosen.headers) > MAX_HEADERS:
        raise Refused("invalid", f"filter: {len(chosen.headers)} headers; at most {MAX_HEADERS} are taken")
    texts = (chosen.reason, chosen.origin, chosen.q, *(chosen.headers or {}).values())
    if any(text is not None and len(text) > MAX_TEXT for text in texts):
        raise Refused("invalid", f"filter: a text has more than {MAX_TEXT} characters")
    if chosen.selector is not None:
        compiler.compile(chosen.selector)
    return chosen


def fitting(chosen: Filter, ids: MessageIds, now_ms: int) -> Fits:
    """A test of (message, its id) for the filter, the cheapest conditions first."""
    tests: list[Fits] = []
    if chosen.age_gt_s is not None:
        latest = now_ms - chosen.age_gt_s * 1000
        tests.append(lambda message, _: message.time_ms < latest)
    if chosen.age_lt_s is not None:
        earliest = now_ms - chosen.age_lt_s * 1000
        tests.append(lambda message, _: message.time_ms > earliest)
    if chosen.ids is not None:
        wanted = {an_id.encode() for an_id in chosen.ids}
        tests.append(lambda _, message_id: message_id in wanted)
    if chosen.origin is not None:
        origin = address_of(chosen.origin)
        tests.append(lambda message, _: dead_letter_headers.origin_of(message.envelope.block) == origin)
    if chosen.reason is not None:
        reason = chosen.reason
        tests.append(lambda message, _: _has_reason(headers_of(message.envelope.block), reason))
    if chosen.selector is not None:
        accepts = compiler.compile(chosen.selector).accepts
        tests.append(lambda message, _: accepts(headers_of(message.envelope.block), message, ids))
    for name, value in (chosen.headers or {}).items():
        tests.append(_header_test(name, value))
    if chosen.q is not None:
        tests.append(_text_test(chosen.q))
    return lambda message, message_id: all(test(message, message_id) for test in tests)


def address_of(name: str) -> str:
    """A queue as an address: `orders`, `queue:orders` and `/queue/orders` are the same."""
    if name.startswith("/"):
        return name
    kind, colon, rest = name.partition(":")
    return (
        f"/{kind}/{rest}" if colon and kind in ("queue", "topic", "topic-subscription") else f"/queue/{name}"
    )


headers_of = lru_cache(maxsize=256)(header_block.headers)


def count(counter: Counter[str], name: str) -> None:
    """Count one more of a name that a client chose; too many different ones are counted together."""
    name = name[:_LONGEST_COUNTED]
    counter[name if name in counter or len(counter) < _MAX_COUNTED else OTHERS] += 1


def reason_of(headers: dict[str, str]) -> str:
    """The searchable reason of a dead letter: its detail, or its reason if it has none."""
    return headers.get("dead-detail") or headers.get("dead-reason", "")


def _has_reason(headers: dict[str, str], reason: str) -> bool:
    detail = headers.get("dead-detail", "").casefold()
    return headers.get("dead-reason", "").casefold() == reason.casefold() or reason.casefold() in detail


def _header_test(name: str, value: str) -> Fits:
    return lambda message, _: headers_of(message.envelope.block).get(name) == value


def _text_test(text: str) -> Fits:
    folded = text.casefold()
    pattern = re2.compile(text, _LITERAL)

    def contains(message: Message, _: bytes) -> bool:
        if any(folded in value.casefold() for value in headers_of(message.envelope.block).values()):
            return True
        return pattern.search(message.body[:MAX_SEARCHED]) is not None

    return contains
