"""Sessions of requests that send by the broker's own HTTP client, for libraries that ask for a session: what
they read of an answer, and how long they wait for it, is bounded."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

from certifi import where
from requests import ConnectionError as Unreachable
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers, select_proxy

from broker_app.peers.http_client.address_filter import EVERY_ADDRESS, AddressFilter
from broker_app.peers.http_client.answer import MAX_BODY
from broker_app.peers.http_client.client import HttpClient
from broker_app.peers.http_client.exchange import HttpAnswer, HttpRequest, Unanswered

#: seconds for one request
TIMEOUT_S: Final = 10.0
#: headers that the client writes, or that ask for what it does not read
_LEFT_OUT: Final = frozenset(
    ("accept-encoding", "connection", "content-length", "host", "user-agent", "transfer-encoding")
)


def bound(session: Session) -> Session:
    """Have a session send by the broker's client."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    return session


def fetched(address: str) -> Response:
    """The answer to a GET. Raises OSError, or ValueError for what is no address."""
    with bound(Session()) as session:
        return session.get(address, timeout=TIMEOUT_S)


class _Adapter(HTTPAdapter):
    """Sends each request over a connection of its own. Through a proxy, which the administrator has named,
    requests sends as usual."""

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: dict[str, str] | None = None,
    ) -> Response:
        """Raises one of the exceptions of requests."""
        if select_proxy(request.url or "", proxies):
            return super().send(request, stream, timeout, verify, cert, proxies)
        try:
            answer = asyncio.run(_exchange(request, verify))
        except (OSError, Unanswered) as error:
            raise Unreachable(str(error), request=request) from None
        return _response(request, answer)


async def _exchange(request: PreparedRequest, verify: bool | str) -> HttpAnswer:
    """Raises Unanswered, or OSError for a file of authorities that cannot be read."""
    authorities = verify if isinstance(verify, str) else where()
    client = HttpClient(AddressFilter(EVERY_ADDRESS), tls=ssl.create_default_context(cafile=authorities))
    body = request.body or b""
    if isinstance(body, str):
        body = body.encode()
    if not isinstance(body, bytes):
        raise OSError("a body that is a stream is not sent")
    fields = [
        (name, value.decode() if isinstance(value, bytes) else value)
        for name, value in request.headers.items()
        if name.lower() not in _LEFT_OUT
    ]
    try:
        return await client.send(
            HttpRequest(
                request.method or "GET",
                request.url or "",
                (*fields, ("Connection", "close")),
                body,
                TIMEOUT_S,
            )
        )
    finally:
        await client.close()


def _response(request: PreparedRequest, answer: HttpAnswer) -> Response:
    if len(answer.body) >= MAX_BODY:
        raise Unreachable(f"the answer is longer than {MAX_BODY // 1024} KiB", request=request)
    response = Response()
    response.status_code = answer.status
    response.headers = CaseInsensitiveDict(answer.headers)
    response.encoding = get_encoding_from_headers(response.headers)
    response.url, response.request = request.url or "", request
    response._content, response._content_consumed = answer.body, True
    return response
