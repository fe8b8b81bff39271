"""Refusals in HTTP: the status, headers and problem that answer each; and those that only HTTP has."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from broker_app.base.refused import Refused
from broker_app.base.suggestions import suggestion
from broker_app.net.problems import PROBLEMS, problem_body

Header = tuple[bytes, bytes]

#: codes of the core that have another name among the problems of HTTP
_OTHER_NAMES = {"unknown-delivery": "lease-lost"}
#: temporary refusals have the seconds until a retry
_RETRY_S = {
    "busy": 1,
    "queue-full": 5,
    "store-full": 30,
    "quiesced": 5,
    "paused": 5,
    "taking-over": 1,
    "not-active": 1,
}


class RefusedWithHeaders(Refused):
    """A refusal whose answer has `headers` that do not follow from its code."""

    def __init__(self, code: str, detail: str, headers: Iterable[Header], **facts: object) -> None:
        super().__init__(code, detail, **facts)
        self.headers = tuple(headers)


def name_of(refused: Refused) -> str:
    """The name of the problem that answers a refusal."""
    name = _OTHER_NAMES.get(refused.code, refused.code)
    return name if name in PROBLEMS else "conflict"


def status_of(refused: Refused) -> int:
    """The status code that answers a refusal."""
    return PROBLEMS[name_of(refused)].status


def headers_of(refused: Refused) -> tuple[Header, ...]:
    """The headers that answer a refusal: its own, or when to try again, and which broker to ask (`web`)."""
    if isinstance(refused, RefusedWithHeaders):
        return refused.headers
    headers = []
    retry_s = refused.facts.get("retry_s", _RETRY_S.get(name_of(refused)))
    if retry_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(float(str(retry_s))))))
    if web := refused.facts.get("web"):
        headers.append((b"location", str(web).encode()))
    return tuple(headers)


def body_of(refused: Refused, **more: Any) -> dict[str, Any]:
    """The members of the problem that answers a refusal."""
    name = name_of(refused)
    if name == "invalid" and "errors" not in refused.facts:
        refused = invalid("", refused.detail)
    return problem_body(name, refused.detail, **refused.facts, **more)


def invalid(pointer: str, detail: str, got: object = None) -> Refused:
    """An invalid field (JSON pointer), query parameter or header; `detail` describes valid values."""
    error: dict[str, Any] = {"pointer": pointer, "detail": detail}
    if got is not None:
        error["got"] = got if isinstance(got, int | float) else str(got)[:100]
    return Refused("invalid", f"{pointer or 'the request'}: {detail}", errors=[error])


def unknown(pointer: str, name: str, known: Iterable[str], kind: str) -> Refused:
    """A field or query parameter that does not exist, with the nearest one that does."""
    known = sorted(known)
    all_known = f"; known here: {', '.join(known)}" if known else "; none is known here"
    return invalid(pointer, f"there is no {kind} {name[:100]!r}{suggestion(name, known) or all_known}")


def too_large(what: str, limit: int, size: int) -> Refused:
    """More bytes or items than taken; `size` is what was announced or has been seen so far."""
    return Refused("too-large", f"{what}: {size}; at most {limit} are taken", limit=limit, size=size)


def busy(detail: str) -> Refused:
    """The node has too many requests in progress; the client retries later."""
    return Refused("busy", detail)
