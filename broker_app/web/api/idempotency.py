"""Requests that create something: the same Idempotency-Key gets the same reply.

The reply is stored in the transaction of the change, so that neither exists without the other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from broker_app.base.refused import Refused
from broker_app.models import KeptAnswer
from broker_app.net.http.refusals import RefusedWithHeaders, invalid
from broker_app.web import actions

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
_KEY = re.compile(r'[!#-~]{1,255}|"[ !#-~]{1,255}"')
_KEPT_HEADERS = ("ETag", "Location")


def once(request: Request, act: Callable[[], Response], *, secret: bool = False) -> Response:
    """The reply of `act`, in one transaction with its changes; or its former reply to this request.

    No other change happens meanwhile. The content of a reply with a `secret` is not stored. Raises Refused
    for a key that was used with another request, and while the first request is in progress.
    """
    key = _key_of(request)
    if key is None or request.query_params.get("dry_run") == "true":
        with transaction.atomic():
            actions.lock_version()
            return act()
    user, fingerprint = request.user.get_username(), _fingerprint(request)
    known = actions.claim(user, key, fingerprint)
    if known is not None:
        return _replayed(known, fingerprint)
    try:
        with transaction.atomic():
            actions.lock_version()
            reply = act()
            headers = {name: reply[name] for name in _KEPT_HEADERS if name in reply}
            actions.keep(
                user, key, status=reply.status_code, headers=headers, body=reply.data, withheld=secret
            )
            return reply
    finally:
        actions.release(user, key)


def _key_of(request: Request) -> str | None:
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise invalid(f"header/{HEADER}", "must have 1 to 255 printable characters of ASCII")
    return key.strip('"')


def _fingerprint(request: Request) -> str:
    line = f"{request.method} {request.get_full_path()}\n".encode()
    return hashlib.sha256(line + request._request.body).hexdigest()


def _replayed(known: KeptAnswer, fingerprint: str) -> Response:
    if known.fingerprint != fingerprint:
        raise Refused("idempotency-mismatch", f"{HEADER} {known.key} was used with another request")
    if known.status is None:
        detail = "the first request with this key is still in progress"
        raise RefusedWithHeaders("conflict", detail, [(b"retry-after", b"1")])
    if known.withheld:
        detail = (
            f"this request has been answered: {known.headers['Location']} was made. Its secret was shown "
            "then and is not kept; if it is lost, remove that one and make another, with another key"
        )
        raise Refused("conflict", detail, made=known.headers["Location"])
    return Response(known.body, known.status, headers={**known.headers, REPLAYED: "true"})
