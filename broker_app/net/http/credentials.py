"""Credentials of requests: token, password, browser session, client certificate or, if allowed, none.

Browsers add a session cookie (and nothing at all, for an anonymous node) to requests of any page, and show
the certificate that they have been given. Such
requests count only when they come from our own pages: by `Origin`, by `Sec-Fetch-Site`, or, for
programs that send neither, by the header `X-Requested-With`, which no foreign page can set.
"""

from __future__ import annotations

import base64
import binascii

from broker_app.base.refused import Refused
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.auth.login_throttle import Slowed
from broker_app.net.http.origin_check import Origins
from broker_app.net.http.refusals import RefusedWithHeaders
from broker_app.net.http.replies import Header
from broker_app.net.http.requests import Request

_SAFE = ("GET", "HEAD", "OPTIONS")
_TOKEN = (b"www-authenticate", b'Bearer realm="mom"')
_PASSWORD = (b"www-authenticate", b'Basic realm="mom", charset="UTF-8"')


class Credentials:
    """Finds the identity behind a request."""

    def __init__(self, logins: Logins, origins: Origins) -> None:
        self._logins = logins
        self._origins = origins

    async def identify(
        self, request: Request, address: str = "", certified: tuple[str, ...] = ()
    ) -> Identity:
        """The identity of a request from an address, with a client certificate of these names. Raises
        Refused: not-authenticated, rate-limited, or not-allowed for a request from a foreign page."""
        authorization = request.header(b"authorization")
        if authorization is not None:
            return await self._by_authorization(request, authorization, address)
        cookie = request.header(b"cookie")
        if cookie is not None:
            identity = await self._logins.authenticate_cookie(cookie.decode("latin-1"))
            if identity is not None:
                self._check_own_page(request)
                return identity
        identity = self._logins.certified(certified)
        if identity is not None:
            self._check_own_page(request, of_program=True)
            return identity
        anonymous = self._logins.anonymous()
        if anonymous is None:
            detail = "log in with a token (Authorization: Bearer) or a password (Basic)"
            if certified:
                detail += f"; no user is called {' or '.join(certified)[:200]!r} like the client certificate"
            raise _not_authenticated(request, detail)
        self._check_host(request)
        self._check_own_page(request)
        return anonymous

    def known(self, authorization: bytes) -> Identity | None:
        """The identity of this header, as far as it is known without waiting, else None."""
        scheme, _, rest = authorization.partition(b" ")
        kind = scheme.lower()
        if kind == b"bearer":
            return self._logins.bearer(rest.strip().decode("latin-1"))
        pair = _credentials(rest) if kind == b"basic" else None
        return self._logins.cached(*pair) if pair else None

    async def _by_authorization(self, request: Request, authorization: bytes, address: str) -> Identity:
        identity = self.known(authorization)
        if identity is not None:
            return identity
        scheme, _, rest = authorization.partition(b" ")
        kind = scheme.lower()
        if kind == b"bearer":
            raise _not_authenticated(request, "the token is unknown, revoked or expired")
        if kind != b"basic":
            raise _not_authenticated(request, "the header Authorization must begin with Bearer or Basic")
        pair = _credentials(rest)
        if pair is None:
            raise _not_authenticated(
                request, "the Basic credentials are not base64 of user:password in UTF-8"
            )
        try:
            identity = await self._logins.authenticate(*pair, address)
        except Slowed as slowed:
            headers = [(b"retry-after", b"%d" % slowed.wait_s)]
            raise RefusedWithHeaders(slowed.code, slowed.detail, headers, **slowed.facts) from None
        if identity is None:
            raise _not_authenticated(request, "user name or password is wrong")
        return identity

    def _check_own_page(self, request: Request, of_program: bool = False) -> None:
        """`of_program`: no browser that speaks TLS asks for a change with neither of both headers."""
        origin, site = request.header(b"origin"), request.header(b"sec-fetch-site")
        if origin is not None:
            own = self._origins.accepts(request.headers)
        elif site is not None:
            # "none" is a person at the address bar, who cannot be made to send anything but a GET.
            own = site == b"same-origin" or (site == b"none" and request.method in _SAFE)
        else:
            own = of_program or request.method in _SAFE or request.header(b"x-requested-with") is not None
        if not own:
            raise Refused(
                "not-allowed",
                "a request without a token or password must come from a page of this node, or have the "
                "header X-Requested-With",
            )

    def _check_host(self, request: Request) -> None:
        """A foreign name that was pointed at our address makes foreign pages look like ours."""
        host = request.header(b"host")
        if host is not None and not self._origins.knows(host.decode("latin-1")):
            raise Refused(
                "not-allowed", "the Host header names a host that is not configured for this broker"
            )


def _credentials(encoded: bytes) -> tuple[str, str] | None:
    """Login and passcode of Basic credentials, None when there are none in them."""
    try:
        login, colon, passcode = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (login, passcode) if colon and (login or passcode) else None


def _not_authenticated(request: Request, detail: str) -> Refused:
    # A page that fetches shows its own login; the challenge Basic would make the browser ask first.
    by_page = request.header(b"sec-fetch-dest") == b"empty"
    challenges: list[Header] = [_TOKEN] if by_page else [_TOKEN, _PASSWORD]
    return RefusedWithHeaders("not-authenticated", detail, challenges)
