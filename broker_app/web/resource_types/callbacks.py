"""Callbacks: messages of a queue or topic, or notifications of them, are POSTed to a URL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.utils import timezone

from broker_app import models
from broker_app.base.refused import Refused
from broker_app.base.settings import roles
from broker_app.core.destination import has_wildcard, is_forwarded, is_reserved, parse
from broker_app.core.selectors import compiler
from broker_app.features.callbacks.webhooks.callback import MEMBERS, NOTIFY, Callback
from broker_app.features.callbacks.webhooks.signature import key_of, new_secret
from broker_app.web.auth.encryption import Unreadable, resealed, seal, unseal
from broker_app.web.resource_types.resource_type import ResourceType, Spec, check_fields, check_members
from broker_app.web.resource_types.users import missing_user

MOST: Final = 1_000
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: how long a replaced secret signs, too
ROTATION: Final = timedelta(hours=24)
MAX_URL: Final = 2_000
#: headers that are added to requests: how many, and the length of a value
MAX_HEADERS, MAX_HEADER = 20, 1_000
MAX_AUTHORIZATION: Final = 4_000
_LENGTHS: Final = {"owner": 150, "comment": 1_000}
#: members of a Callback that are not in the spec
_NOT_IN_SPEC: Final = (
    "name", "secret", "former_secret", "former_until", "authorization", "config_error",
)  # fmt: skip
DEFAULTS: Final[Mapping[str, Any]] = {
    **{one.name: one.default for one in fields(Callback) if one.name not in (*_NOT_IN_SPEC, "url")},
    "headers": {},
    "comment": "",
}
_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "url": str,
    **{name: (int, float) if isinstance(value, float) else type(value) for name, value in DEFAULTS.items()},
}
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
#: headers that a request has anyway, or that would change its meaning
_TAKEN: Final = frozenset((
    "host", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect", "cookie",
    "user-agent", "proxy-authorization", "proxy-connection", "traceparent", "tracestate",
))  # fmt: skip
_TAKEN_PREFIXES: Final = ("content-", "webhook-", "ce-", "mom-")


class Callbacks(ResourceType):
    """`secret` signs the requests; one is made if none is given. `authorization` is a header of them."""

    name = "callbacks"
    one = "callback"
    secrets = ("secret", "authorization")
    runtime_fields = ("desired",)

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = models.Callback.objects.all()
        if keys is not None:
            rows = rows.filter(name__in=list(keys))
        return dict(rows.values_list("name", "values"))

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        owner = before["owner"] if before is not None else ""
        completed = {**DEFAULTS, "headers": {}, "owner": owner, **spec}
        # The address comes first.
        return {name: completed[name] for name in _FIELDS if name in completed} | completed

    def check(self, key: str, spec: Spec) -> None:
        if not NAME.fullmatch(key):
            raise ValidationError(
                "a callback's name has 1 to 64 letters, digits, and .-_ , and begins with a letter or digit"
            )
        check_fields(spec, _FIELDS)
        check_members(spec, MEMBERS)
        for name, longest in _LENGTHS.items():
            if len(spec[name]) > longest:
                raise ValidationError({name: f"has more than {longest} characters"})
        if spec["max_retry_s"] < spec["retry_s"]:
            raise ValidationError({"max_retry_s": "must not be shorter than retry_s"})
        if not spec["owner"]:
            raise ValidationError({"owner": "is missing: the user whose messages it receives"})
        _check_url(spec["url"])
        _check_headers(spec["headers"])
        _check_source(spec)

    def check_secrets(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        super().check_secrets(key, spec, secrets)
        for name, value in secrets.items():
            if not isinstance(value, str):
                raise ValidationError({name: "must be a text"})
        if "secret" in secrets:
            try:
                key_of(secrets["secret"])
            except ValueError as error:
                raise ValidationError({"secret": str(error)}) from None
        authorization = secrets.get("authorization", "")
        if len(authorization) > MAX_AUTHORIZATION or not _is_header(authorization):
            raise ValidationError(
                {"authorization": f"must be the value of a header, of at most {MAX_AUTHORIZATION} characters"}
            )

    def changed_secrets(self, key: str, secrets: Mapping[str, Any]) -> Mapping[str, Any]:
        row = models.Callback.objects.filter(name=key).first()
        if row is None:
            return secrets
        return {name: value for name, value in secrets.items() if not _holds(getattr(row, name), value)}

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        if missing := missing_user(spec["owner"]):
            raise ValidationError({"owner": missing})
        row = models.Callback.objects.filter(name=key).first() or models.Callback(name=key)
        row.values = spec
        if "secret" in secrets or not row.secret:
            row.former_secret = row.secret
            row.former_until = timezone.now() + ROTATION if row.secret else None
            row.secret = seal(secrets.get("secret") or new_secret())
        if "authorization" in secrets:
            row.authorization = seal(secrets["authorization"])
        row.save()

    def combined_error(self, changes: Sequence[tuple[Spec | None, Spec | None]]) -> str:
        """Callbacks beyond the limit, or an owner without the right, which the same change may give."""
        if any(before is None for before, _ in changes) and models.Callback.objects.count() > MOST:
            return f"there would be more than {MOST} callbacks"
        for before, after in changes:
            if after is not None and (before is None or _source(before) != _source(after)):
                # Here: the policy is read from the types of resources.
                from broker_app.web.auth.owner_rights import refusal

                if found := refusal(after["owner"], address_of(after)):
                    return found
        return ""

    def warnings(self, spec: Spec) -> Iterable[str]:
        url = urlsplit(spec["url"])
        if url.scheme == "http" and not roles.is_loopback(url.hostname or ""):
            yield "the URL is http: messages and credentials are sent without encryption"

    def remove(self, key: str) -> None:
        models.Callback.objects.filter(name=key).delete()


def address_of(spec: Mapping[str, Any]) -> str:
    """The destination whose messages a callback receives."""
    return f"/queue/{spec['queue']}" if spec["queue"] else f"/topic/{spec['topic']}"


def _source(spec: Spec) -> tuple[str, str]:
    return spec["owner"], address_of(spec)


def _holds(sealed: str, secret: Any) -> bool:
    try:
        return bool(unseal(sealed) == secret)
    except Unreadable:
        return False


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        raise ValidationError({"url": "is no URL"}) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
        raise ValidationError({"url": "must be like https://hooks.example.org/orders"})
    if len(url) > MAX_URL or not (url.isascii() and url.isprintable()) or " " in url or "\\" in url:
        raise ValidationError(
            {"url": f"must be ASCII of at most {MAX_URL} characters, with others percent-encoded"}
        )
    if parts.username is not None or parts.password is not None:
        raise ValidationError({"url": "can be read by others; give credentials as authorization"})
    if parts.fragment:
        raise ValidationError({"url": "must have no #fragment"})


def _check_headers(headers: Mapping[str, Any]) -> None:
    if len(headers) > MAX_HEADERS:
        raise ValidationError({"headers": f"must be at most {MAX_HEADERS}"})
    for name, value in headers.items():
        lower = name.lower()
        if lower == "authorization":
            raise ValidationError(
                {"headers": "can be read by others; give credentials as authorization, which is sealed"}
            )
        if not _TOKEN.fullmatch(name) or lower in _TAKEN or lower.startswith(_TAKEN_PREFIXES):
            raise ValidationError({"headers": f"{name[:100]} cannot be set"})
        if not isinstance(value, str) or len(value) > MAX_HEADER or not _is_header(value):
            raise ValidationError(
                {"headers": f"{name} must be a text of at most {MAX_HEADER} characters on one line"}
            )


def _is_header(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value) and value == value.strip()


def _check_source(spec: Spec) -> None:
    if bool(spec["queue"]) == bool(spec["topic"]):
        raise ValidationError({"queue": "either queue or topic must be set"})
    member = "queue" if spec["queue"] else "topic"
    try:
        address = parse(address_of(spec))
        if spec["selector"]:
            compiler.compile(spec["selector"])
    except Refused as refused:
        name = "selector" if refused.code == "invalid-selector" else member
        raise ValidationError({name: refused.detail}) from refused
    if is_reserved(address.name):
        raise ValidationError({member: "names that begin with $ are the broker's own"})
    if is_forwarded(address.address):
        raise ValidationError({member: "a bridge empties store-and-forward queues"})
    if member == "queue" and has_wildcard(address.name):
        raise ValidationError({member: "must be one queue; only topics have wildcards"})
    if spec["mode"] == NOTIFY and (spec["topic"] or spec["selector"]):
        raise ValidationError({"mode": "notify is for queues without a selector; topics are delivered"})


def callbacks() -> dict[str, Callback]:
    """All callbacks; one whose secret cannot be read is unusable, with the reason."""
    return {row.name: _callback(row) for row in models.Callback.objects.all()}


def _callback(row: models.Callback) -> Callback:
    until = row.former_until.timestamp() if row.former_until is not None else 0.0
    try:
        return Callback.of(
            row.name,
            row.values,
            secret=unseal(row.secret),
            former_secret=unseal(row.former_secret),
            former_until=until,
            authorization=unseal(row.authorization),
        )
    except Unreadable as error:
        return Callback.of(row.name, row.values, config_error=f"its secret cannot be read: {error}")


def reseal() -> list[str]:
    """Seal all secrets with the newest secret key; names of the callbacks with one that cannot be read."""
    unreadable = []
    for row in models.Callback.objects.all():
        try:
            now = {
                name: resealed(getattr(row, name)) if getattr(row, name) else ""
                for name in ("secret", "former_secret", "authorization")
            }
        except Unreadable:
            unreadable.append(row.name)
            continue
        if any(getattr(row, name) != sealed for name, sealed in now.items()):
            models.Callback.objects.filter(pk=row.pk, secret=row.secret).update(**now)
    return unreadable
