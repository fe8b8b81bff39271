"""Refusals of the data plane: one exception, one way into a reply."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from broker_app.core.errors import Refused
from broker_app.net.problems import PROBLEMS, problem_body
from broker_app.suggestions import suggestion

#: codes of the core that have another name among the problems of HTTP
_OF_CORE = {"unknown-delivery": "lease-lost"}
#: temporary refusals have the seconds until a retry
_RETRY = {
    name: ((b"retry-after", seconds),)
    for name, seconds in (("busy", b"1"), ("queue-full", b"5"), ("store-full", b"30"))
}


class Refusal(Exception):
    """A request that is answered by the problem `name` (`net.problems`); `extra` are members of the
    problem, `headers` go with the reply."""

    def __init__(
        self, name: str, detail: str, *, headers: Iterable[tuple[bytes, bytes]] = (), **extra: Any
    ) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail
        self.headers = tuple(headers)
        self.extra = extra

    @property
    def status(self) -> int:
        return PROBLEMS[self.name].status

    def body(self, **more: Any) -> dict[str, Any]:
        """The problem as JSON members."""
        return problem_body(self.name, self.detail, **self.extra, **more)


def invalid(pointer: str, detail: str, got: object = None) -> Refusal:
    """An invalid field (JSON pointer), query parameter or header; `detail` describes valid values."""
    error: dict[str, Any] = {"pointer": pointer, "detail": detail}
    if got is not None:
        error["got"] = got if isinstance(got, int | float) else str(got)[:100]
    return Refusal("invalid", f"{pointer or 'the request'}: {detail}", errors=[error])


def unknown(pointer: str, name: str, known: Iterable[str], kind: str) -> Refusal:
    """A field or query parameter that does not exist, with the nearest one that does."""
    known = sorted(known)
    all_known = f"; known here: {', '.join(known)}" if known else "; none is known here"
    return invalid(pointer, f"there is no {kind} {name[:100]!r}{suggestion(name, known) or all_known}")


def too_large(what: str, limit: int, size: int) -> Refusal:
    """More bytes or items than taken; `size` is what was announced or has been seen so far."""
    return Refusal("too-large", f"{what}: {size}; at most {limit} are taken", limit=limit, size=size)


def busy(detail: str) -> Refusal:
    """The node has too many requests in progress; the client retries later."""
    return Refusal("busy", detail, headers=_RETRY["busy"])


def from_core(refused: Refused) -> Refusal:
    """A refusal of the core, for HTTP."""
    name = _OF_CORE.get(refused.code, refused.code)
    if name not in PROBLEMS:
        name = "conflict"
    if name == "invalid":
        return invalid("", refused.detail)
    headers = _RETRY.get(name, ())
    if "retry_s" in refused.facts:
        headers = ((b"retry-after", b"%d" % max(1, math.ceil(float(str(refused.facts["retry_s"]))))),)
    return Refusal(name, refused.detail, headers=headers, **refused.facts)
