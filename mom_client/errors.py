"""The exceptions of the client library."""

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["ClientError", "ConnectionLost", "Overrun", "Refused", "Timeout", "TransactionInDoubt"]


class ClientError(Exception):
    """Base of all errors of this library."""


class ConnectionLost(ClientError):
    """There is no connection to the broker, or there was none when the answer should have come.

    What had been sent without an answer may or may not have been carried out.
    """


class TransactionInDoubt(ConnectionLost):
    """The connection was lost after COMMIT was sent and before its answer came.

    The transaction has happened as a whole or not at all; only the application can find out.
    """


class Timeout(ClientError, TimeoutError):
    """No reply arrived within the time limit."""


class Overrun(ClientError):
    """A subscription without acknowledgements was ended: its messages came faster than they were taken."""


class Refused(ClientError):
    """The broker refused something.

    code     stable name of the problem, such as not-allowed, bad-destination, queue-full, not-authenticated
    detail   the broker's sentence for a human
    problem  the RFC 9457 problem details of the broker
    """

    def __init__(self, code: str, detail: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.problem: Mapping[str, Any] = problem or {}
        #: address of the broker that serves, if a mirror has refused and names it; or several, with commas
        #: between them, one of each protocol
        self.active = str(self.problem.get("active") or "")

    @classmethod
    def from_frame(cls, headers: Mapping[str, str], body: bytes) -> "Refused":
        """From an ERROR frame, or a refusal sent as MESSAGE; brokers other than MOM send text."""
        try:
            problem = json.loads(body)
            code = str(problem["type"]).rpartition("/")[2]
            refused = cls(code, str(problem.get("detail", code)), problem)
        except (ValueError, TypeError, KeyError, AttributeError):
            text = body[:500].decode(errors="replace").strip()
            detail = ": ".join(part for part in (headers.get("message", ""), text) if part)
            refused = cls(headers.get("code", "error"), detail or "the broker gave no reason")
        refused.active = headers.get("active", refused.active)
        return refused
