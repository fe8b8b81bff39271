"""A connection to a broker over HTTP, which is opened when it is needed and again when it was closed."""

from __future__ import annotations

import json
import ssl
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pyspark_mom.credentials import Credential
from pyspark_mom.errors import AccessDenied, BrokerUnreachable, InvalidOption

#: statuses of a broker that is away or busy, and of one that refuses this user
BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})
DENIED: Final = frozenset({401, 403})
JSON: Final = "application/json"
#: bytes of a reply of no `large` media type
_MAX_REPLY: Final = 1024 * 1024


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
    def detail(self) -> str:
        """The sentence of a problem, in short."""
        return f"{self.status} {str(self.json.get('detail', ''))[:500]}".strip()


class HttpConnection:
    """Requests to the broker at `url`, one after the other; errors begin with its name `broker`, if there is
    one. `ca_file` has certificates to trust in addition to those of the system, `timeout_s` is the longest
    time without an answer. A reply of the media type `large` may have any length, and end early."""

    def __init__(
        self,
        url: str,
        credential: Credential,
        *,
        ca_file: str | None,
        timeout_s: float,
        broker: str = "",
        large: str = "",
    ) -> None:
        self._url = url
        self._credential = credential
        self._ca_file = ca_file
        self._timeout_s = timeout_s
        self._prefix = f"{broker}: " if broker else ""
        self._large = large
        self._connection: HTTPConnection | None = None

    def ask(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> Reply:
        """The reply to a request for a path below /api/v1, which may be sent twice. Raises BrokerUnreachable,
        or AccessDenied for a certificate that is not trusted."""
        fresh = self._connection is None
        try:
            return self._exchange(method, path, body, content_type)
        except (OSError, HTTPException) as error:
            self.close()
            if isinstance(error, ssl.SSLCertVerificationError):
                raise AccessDenied(
                    f"{self._prefix}the certificate of {self._url} is not trusted: {error.verify_message}; "
                    "name with caFile the certificate of the authority that signed it"
                ) from error
            if fresh:
                raise BrokerUnreachable(f"{self._prefix}{self._url} did not answer: {error}") from error
        return self.ask(method, path, body, content_type)  # the broker had closed a connection that was idle

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, method: str, path: str, body: bytes | None, content_type: str) -> Reply:
        connection = self._connection = self._connection or self._connect()
        base = urlsplit(self._url).path.rstrip("/")
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
        address = urlsplit(self._url)
        assert address.hostname is not None
        if address.scheme == "http":
            return HTTPConnection(address.hostname, address.port, timeout=self._timeout_s)
        return HTTPSConnection(address.hostname, address.port, timeout=self._timeout_s, context=self._trust())

    def _trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self._ca_file is not None:
            try:
                context.load_verify_locations(self._ca_file)
            except OSError as error:
                raise InvalidOption(f"caFile: {self._ca_file} has no certificates: {error}") from error
        return context


def _seconds(text: str | None) -> float:
    """The seconds of a Retry-After; 0 without one."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else 0.0
