"""Headers of SEND for delays, repeats and groups, which few messages have (table in docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from broker_app.base.refused import Refused
from broker_app.core.header_block import GROUPS, RESENT
from broker_app.core.message import DeliveryOptions
from broker_app.net.stomp.header_names import SEND, aliases

#: longest delay: ten years
MAX_DELAY_S = 315_360_000
_MAX_DELAY_MS = MAX_DELAY_S * 1000
#: latest time that is accepted, in ms since 1970: the year 2200
LATEST_MS = 7_258_118_400_000
MAX_DEDUP_ID = 1_024

_DELAY_S = "delay-s"
_DELAY_MS = aliases(SEND, _DELAY_S)
_DUE_MS = ("deliver-at", *aliases(SEND, "deliver-at"))
_DEDUP_IDS = ("dedup-id", *aliases(SEND, "dedup-id"))
MAX_GROUP = 255
#: headers that are applied when the message is accepted, and removed: a broker that it is forwarded to must
#: not delay it again
DELAYS = (_DELAY_S, *_DELAY_MS, *_DUE_MS)
NAMES = (*DELAYS, *_DEDUP_IDS, *GROUPS, RESENT)


def options(headers: Mapping[str, str]) -> DeliveryOptions | None:
    """Return the values of these headers; None if there are none. Raises Refused."""
    delay_ms, due_ms = _delay(headers)
    dedup_id, group = _dedup_id(headers), _group(headers)
    resent = headers.get(RESENT) == "true"
    if not (delay_ms or due_ms or dedup_id or group or resent):
        return None
    return DeliveryOptions(delay_ms, dedup_id, group, due_ms, resent)


def delay_ms(value: str, what: str = f"header {_DELAY_S}") -> int:
    """Convert a delay in seconds, with decimals, to milliseconds. Raises Refused."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not (isfinite(seconds) and 0 <= seconds <= MAX_DELAY_S):
        raise Refused(
            "invalid", f"{what} is {value[:40]!r}; it must be seconds from 0 to {MAX_DELAY_S} (ten years)"
        )
    return round(seconds * 1000)


def _delay(headers: Mapping[str, str]) -> tuple[int, int]:
    """Return (delay in ms, absolute time in ms) from the first of these headers."""
    if _DELAY_S in headers:
        return delay_ms(headers[_DELAY_S]), 0
    for name in _DELAY_MS:
        if name in headers:
            return _whole(headers, name, _MAX_DELAY_MS, "milliseconds"), 0
    for name in _DUE_MS:
        if name in headers:
            return 0, _whole(headers, name, LATEST_MS, "milliseconds since 1970")
    return 0, 0


def _whole(headers: Mapping[str, str], name: str, most: int, unit: str) -> int:
    value = headers[name]
    if not (value.isascii() and value.isdigit()) or len(value) > 18 or int(value) > most:
        raise Refused("invalid", f"header {name} is {value[:40]!r}; it must be {unit} from 0 to {most}")
    return int(value)


def _dedup_id(headers: Mapping[str, str]) -> str:
    for name in _DEDUP_IDS:
        if name in headers:
            value = headers[name]
            if not 1 <= len(value) <= MAX_DEDUP_ID:
                raise Refused(
                    "invalid",
                    f"header {name} has {len(value)} characters; it must have 1 to {MAX_DEDUP_ID}",
                )
            return value
    return ""


def _group(headers: Mapping[str, str]) -> str:
    group = next((headers[name] for name in GROUPS if headers.get(name)), "")
    if len(group) > MAX_GROUP:
        raise Refused("invalid", f"the group's name has {len(group)} characters; {MAX_GROUP} are allowed")
    return group
