"""Requests to receivers and their answers, as values that can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

#: codes of failures: no answer came, and why; with NO_WORKER the request was not sent
DNS, ADDRESS, CONNECT, TLS, TIMEOUT, RESET, PROTOCOL, WORKER, NO_WORKER = (
    "DNS", "ADDRESS", "CONNECT", "TLS", "TIMEOUT", "RESET", "PROTOCOL", "WORKER", "NO_WORKER",
)  # fmt: skip


class HttpRequest(NamedTuple):
    """A request with all its headers. It has failed if there is no complete answer after `timeout_s`."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout_s: float


class HttpAnswer(NamedTuple):
    """The answer of a receiver: the names of `headers` are in lower case, `body` has at most its first
    64 KiB."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unanswered(Exception):
    """There is no answer; `code` is one of those above, `detail` a sentence."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Poster(Protocol):
    """Sends requests."""

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """The answer of the receiver. Raises Unanswered."""

    async def close(self) -> None:
        """Close all connections."""
