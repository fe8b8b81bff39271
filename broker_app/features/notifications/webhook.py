"""A webhook: one POST of JSON, on a new connection, with a timeout. Redirects are not followed.

Administrators name its address, so all addresses may be called.
"""

from __future__ import annotations

from typing import Final

from broker_app.peers.http_client import exchange
from broker_app.peers.http_client.address_filter import EVERY_ADDRESS, AddressFilter
from broker_app.peers.http_client.client import HttpClient
from broker_app.peers.http_client.exchange import HttpRequest, Unanswered

#: seconds for all of it
TIMEOUT_S: Final = 15.0


async def post(url: str, body: bytes, headers: dict[str, str]) -> None:
    """Raises OSError or ValueError with a sentence if the receiver did not accept it."""
    fields = (("Content-Type", "application/json"), ("Connection", "close"), *headers.items())
    client = HttpClient(AddressFilter(EVERY_ADDRESS))
    try:
        answer = await client.send(HttpRequest("POST", url, fields, body, TIMEOUT_S))
    except Unanswered as error:
        if error.code == exchange.PROTOCOL:
            raise ValueError(error.detail) from None
        raise OSError(error.detail) from None
    finally:
        await client.close()
    if 300 <= answer.status < 400:
        where = answer.headers.get("location", "")[:200]
        raise ValueError(f"it answers {answer.status}, a redirect to {where!r}, which is not followed")
    if not 200 <= answer.status < 300:
        raise ValueError(f"it answers {answer.status}")
