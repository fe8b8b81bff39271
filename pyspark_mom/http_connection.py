"""A connection to a broker over HTTP, which is opened when it is needed and again when it was closed."""

from __future__ import annotations

import json
import ssl
from collections import deque
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pyspark_mom.credentials import Credential
from pyspark_mom.errors import AccessDenied, BrokerUnreachable
from pyspark_mom.tls import Tls

#: statuses of a broker that is away or busy, and of one that refuses this user
BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})
DENIED: Final = frozenset({401, 403})
_UNAVAILABLE: Final = 503
JSON: Final = "application/json"
#: ends the type of the problem of a broker that is a standby
_NOT_ACTIVE: Final = "not-active"
#: bytes of a reply of no `large` media type
_MAX_REPLY: Final = 1024 * 1024


class _NotAnswered(Exception):
    """No answer came from an address; the text names it."""


class Reply(NamedTuple):
    """A reply, whatever its status; `retry_after_s` is 0 where the broker gives none."""

    status: int
    body: bytes
    retry_after_s: float = 0.0

    @property
    def succeeded(self) -> bool:
        """True for any status of success."""
        return 200 <= self.status < 300

    @property
    def json(self) -> dict[str, Any]:
        """The object of the body; empty for another body."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def is_of_standby(self) -> bool:
        """True if the broker is not the active one of those that share its journal."""
        return self.status == _UNAVAILABLE and str(self.json.get("type", "")).endswith(_NOT_ACTIVE)

    @property
    def detail(self) -> str:
        """The sentence of a problem, in short."""
        return f"{self.status} {str(self.json.get('detail', ''))[:500]}".strip()


class HttpConnection:
    """Requests to the broker at `url`, one after the other; errors begin with its name `broker`, if there is
    one. A broker with mirrors has several addresses, with commas between: the one that answered is kept, and
    the next is asked when it is away or a standby. `timeout_s` is the longest time without an answer. A reply
    of the media type `large` may have any length, and end early."""

    def __init__(
        self,
        url: str,
        credential: Credential,
        *,
        tls: Tls,
        timeout_s: float,
        broker: str = "",
        large: str = "",
    ) -> None:
        self._urls = deque(url.split(","))
        self._credential = credential
        self._tls = tls
        self._timeout_s = timeout_s
        self._prefix = f"{broker}: " if broker else ""
        self._large = large
        self._connection: HTTPConnection | None = None

    def ask(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> Reply:
        """The reply to a request for a path below /api/v1, which may be sent twice. Raises BrokerUnreachable,
        or AccessDenied for a certificate that is not trusted."""
        failures: list[str] = []
        standby: Reply | None = None
        for _ in range(len(self._urls)):
            try:
                reply = self._ask(method, path, body, content_type)
            except _NotAnswered as failure:
                failures.append(str(failure))
            else:
                if len(self._urls) == 1 or not reply.is_of_standby:
                    return reply
                standby = reply
            self.close()
            self._urls.rotate(-1)
        if standby is not None:
            return standby
        raise BrokerUnreachable(f"{self._prefix}{'; '.join(failures)}")

    def _ask(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        """The reply of the address in use. Raises _NotAnswered."""
        fresh = self._connection is None
        try:
            return self._exchange(method, path, body, content_type)
        except (OSError, HTTPException) as error:
            self.close()
            if isinstance(error, ssl.SSLCertVerificationError):
                raise AccessDenied(
                    f"{self._prefix}the certificate of {self._urls[0]} is not trusted: "
                    f"{error.verify_message}; name with caFile that of the authority which signed it"
                ) from error
            if fresh:
                raise _NotAnswered(f"{self._urls[0]} did not answer: {error}{self._hint(error)}") from error
        return self._ask(method, path, body, content_type)  # the broker had closed a connection that was idle

    def _hint(self, error: Exception) -> str:
        """The remedy for a server that hangs up on clients which show no certificate: it may not say so."""
        if self._tls.cert_file is None and isinstance(error, ssl.SSLError | ConnectionResetError):
            return "; if it wants a certificate of its clients, name one with certFile"
        return ""

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        connection = self._connection = self._connection or self._connect()
        base = urlsplit(self._urls[0]).path.rstrip("/")
        headers = {"Accept": ", ".join(filter(None, (self._large, JSON)))}
        authorization = self._credential.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = content_type
        connection.request(method, f"{base}/api/v1/{path}", body, headers)
        with connection.getresponse() as reply:
            return Reply(reply.status, self._read(reply), _seconds(reply.getheader("retry-after")))

    def _read(self, reply: HTTPResponse) -> bytes:
        """The body; as much as has come of a `large` one that ends early. Raises IncompleteRead for others,
        as when the broker is killed while it answers."""
        if self._large and reply.getheader("content-type") == self._large:
            try:
                return reply.read()
            except IncompleteRead as error:
                return error.partial
        body = reply.read(_MAX_REPLY)
        if reply.length and len(body) < _MAX_REPLY:
            raise IncompleteRead(body, reply.length)
        return body

    def _connect(self) -> HTTPConnection:
        address = urlsplit(self._urls[0])
        assert address.hostname is not None
        if address.scheme == "http":
            return HTTPConnection(address.hostname, address.port, timeout=self._timeout_s)
        return HTTPSConnection(
            address.hostname, address.port, timeout=self._timeout_s, context=self._tls.context()
        )


def _seconds(text: str | None) -> float:
    """The seconds of a Retry-After; 0 without one."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else 0.0
