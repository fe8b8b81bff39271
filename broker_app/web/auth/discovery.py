"""The test of an OpenID Connect provider: what its discovery document and its keys say, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

#: the path of the document below the issuer
PLACE: Final = "/.well-known/openid-configuration"
#: members of the document with addresses that a login needs
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
#: hosts to which a connection without TLS stays on the machine
_LOCAL: Final = ("127.0.0.1", "::1", "localhost")
_DOCUMENT: Final = gettext_lazy("discovery")
_ISSUER: Final = gettext_lazy("issuer")
_ADDRESSES: Final = gettext_lazy("end points")
_LOGIN: Final = gettext_lazy("method")
_KEYS: Final = gettext_lazy("keys")
_STEPS: Final = (_DOCUMENT, _ISSUER, _ADDRESSES, _LOGIN, _KEYS)


class DiscoveryStep(NamedTuple):
    """A step of the test: `ok` is None if it was not reached; `detail` says what was found."""

    name: str | Promise
    ok: bool | None
    detail: str = ""


class _Failed(Exception):
    """A step failed, for a reason in words."""


def examine(issuer: str) -> list[DiscoveryStep]:
    """All steps for an issuer; those behind one without which they cannot be made are not reached."""
    issuer = issuer.rstrip("/")
    try:
        document = _json(issuer + PLACE)
    except _Failed as failed:
        return [
            DiscoveryStep(_DOCUMENT, False, str(failed)),
            *(DiscoveryStep(name, None) for name in _STEPS[1:]),
        ]
    return [
        DiscoveryStep(_DOCUMENT, True, issuer + PLACE),
        _step(_ISSUER, lambda: _issuer(document, issuer)),
        _step(_ADDRESSES, lambda: _addresses(document)),
        _step(_LOGIN, lambda: _login(document)),
        _step(_KEYS, lambda: _keys(document)),
    ]


def _step(name: str | Promise, check: Callable[[], str]) -> DiscoveryStep:
    """The step whose finding `check` returns; it raises _Failed."""
    try:
        return DiscoveryStep(name, True, check())
    except _Failed as failed:
        return DiscoveryStep(name, False, str(failed))


def _json(address: str) -> dict[str, Any]:
    """The JSON object at an address. Raises _Failed."""
    # It loads `requests`, which a broker without a provider does not need.
    from broker_app.web.auth.outgoing_session import fetched

    try:
        reply = fetched(address)
    except (OSError, ValueError) as error:
        detail = _("%(address)s cannot be reached: %(error)s. Check the address, DNS, proxy and certificate.")
        raise _Failed(detail % {"address": address, "error": str(error).rstrip(".")}) from None
    if reply.status_code != 200:
        detail = _(
            "%(address)s answers %(status)s instead of 200. Check the issuer: the document is below it."
        )
        raise _Failed(detail % {"address": address, "status": reply.status_code})
    try:
        found = reply.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _Failed(_("%s is not a JSON object; another server may answer there.") % address)
    return found


def _issuer(document: dict[str, Any], issuer: str) -> str:
    named = str(document.get("issuer") or "")
    if named.rstrip("/") != issuer:
        detail = _("The document is of %(named)s, and not of %(issuer)s. Set the issuer as it names itself.")
        raise _Failed(detail % {"named": named or "?", "issuer": issuer})
    return named


def _addresses(document: dict[str, Any]) -> str:
    missing = [name for name in _ENDPOINTS if not isinstance(document.get(name), str)]
    if missing:
        raise _Failed(_("The document lacks %s.") % ", ".join(missing))
    addresses = [document[name] for name in (*_ENDPOINTS, "userinfo_endpoint") if document.get(name)]
    plain = [one for one in addresses if not _is_protected(str(one))]
    if plain:
        raise _Failed(
            _("These are not https: %s. Secrets would cross the network unencrypted.") % ", ".join(plain)
        )
    return ", ".join(addresses)


def _is_protected(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)


def _login(document: dict[str, Any]) -> str:
    kinds, methods = (
        document.get("response_types_supported"),
        document.get("code_challenge_methods_supported"),
    )
    if isinstance(kinds, list) and "code" not in kinds:
        raise _Failed(_("The provider offers no login by authorization code (response_types_supported)."))
    if isinstance(methods, list) and "S256" not in methods:
        raise _Failed(_("The provider does not take PKCE with S256 (code_challenge_methods_supported)."))
    return _("authorization code with PKCE (S256)")


def _keys(document: dict[str, Any]) -> str:
    address = document.get("jwks_uri")
    if not isinstance(address, str):
        raise _Failed(_("The document names no address of keys (jwks_uri)."))
    keys = _json(address).get("keys")
    usable = [
        one
        for one in (keys if isinstance(keys, list) else [])
        if isinstance(one, dict) and one.get("kty") != "oct" and one.get("use", "sig") == "sig"
    ]
    if not usable:
        raise _Failed(_("%s has no key for signatures; no login can be verified.") % address)
    kinds = sorted({str(one.get("alg") or one.get("kty")) for one in usable})
    return _("%(number)s for signatures: %(kinds)s") % {"number": len(usable), "kinds": ", ".join(kinds)}
