"""Bridges: connections to remote brokers, by which store-and-forward queues are emptied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from django.core.exceptions import ValidationError

from broker_app.features.bridge.remote import MEMBERS, Remote
from broker_app.models import Bridge
from broker_app.web.auth.encryption import Unreadable, resealed, seal, unseal
from broker_app.web.resource_types.resource_type import (
    ResourceType,
    Spec,
    check_fields,
    check_members,
    check_texts,
)

MOST = 1_000
MAX_NAME = 20
#: characters of the name of a remote queue
MAX_QUEUE = 79
#: the default port of each protocol
PORTS: Final = {"stomp": 61613, "stomps": 61614, "ws": 8000, "wss": 8000}
ENCRYPTED: Final = ("stomps", "wss")
LAST_PORT: Final = 65_535
#: characters of texts at most
_LENGTHS: Final = {"user": 150, "host": 255, "path": 1000, "ca_file": 1000, "comment": 1000}
#: members of a Remote that are no fields with a default
_WITHOUT_DEFAULT: Final = ("name", "hostname", "password", "config_error")
DEFAULTS: Final[Mapping[str, Any]] = {
    **{one.name: one.default for one in fields(Remote) if one.name not in _WITHOUT_DEFAULT},
    "paused_queues": [],
    "comment": "",
}
_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "hostname": str,
    **{name: (int, float) if isinstance(value, float) else type(value) for name, value in DEFAULTS.items()},
}


class Bridges(ResourceType):
    """`password` is that of the credentials by which the bridge logs in at the remote broker."""

    name = "bridges"
    one = "bridge"
    secrets = ("password",)
    runtime_fields = ("desired", "paused_queues")

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = Bridge.objects.all() if keys is None else Bridge.objects.filter(name__in=list(keys))
        return dict(rows.values_list("name", "values"))

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        protocol = spec.get("protocol", DEFAULTS["protocol"])
        port = PORTS.get(protocol, DEFAULTS["port"]) if isinstance(protocol, str) else DEFAULTS["port"]
        completed = {**DEFAULTS, "paused_queues": [], "port": port, **spec}
        # The address comes first.
        return {name: completed[name] for name in _FIELDS if name in completed} | completed

    def check(self, key: str, spec: Spec) -> None:
        if not 1 <= len(key.strip()) <= MAX_NAME or key != key.strip():
            raise ValidationError(f"a bridge's name has 1 to {MAX_NAME} characters; this has {len(key)}")
        if "/" in key or ":" in key:
            raise ValidationError("a bridge's name has neither / nor : in it")
        check_fields(spec, _FIELDS)
        check_members(spec, MEMBERS)
        if not 1 <= spec["port"] <= LAST_PORT:
            raise ValidationError({"port": f"must be between 1 and {LAST_PORT}"})
        for name, longest in _LENGTHS.items():
            if len(spec[name]) > longest:
                raise ValidationError({name: f"has more than {longest} characters"})
        if spec["protocol"] not in PORTS:
            raise ValidationError({"protocol": f"must be one of {', '.join(PORTS)}"})
        check_texts("paused_queues", spec["paused_queues"], longest=MAX_QUEUE)
        _check_address(spec)

    def check_secrets(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        super().check_secrets(key, spec, secrets)
        password = secrets.get("password", "")
        if not isinstance(password, str) or len(password) > 1000:
            raise ValidationError({"password": "must be a text of at most 1,000 characters"})

    def changed_secrets(self, key: str, secrets: Mapping[str, Any]) -> Mapping[str, Any]:
        row = Bridge.objects.filter(name=key).first()
        if row is None or "password" not in secrets:
            return secrets
        try:
            return {} if unseal(row.password) == secrets["password"] else secrets
        except Unreadable:
            return secrets

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        row = Bridge.objects.filter(name=key).first() or Bridge(name=key)
        row.values = spec
        if "password" in secrets:
            row.password = seal(secrets["password"])
        row.save()

    def combined_error(self, changes: Sequence[tuple[Spec | None, Spec | None]]) -> str:
        if any(before is None for before, _ in changes) and Bridge.objects.count() > MOST:
            return f"there would be more than {MOST} bridges"
        return ""

    def remove(self, key: str) -> None:
        Bridge.objects.filter(name=key).delete()


def _check_address(spec: Spec) -> None:
    """Raises ValidationError for an invalid host, path or CA file."""
    _check_hosts(spec)
    if not spec["host"] or not spec["host"].isprintable():
        raise ValidationError({"host": "must be the name of a virtual host; / is the usual one"})
    if not spec["path"].startswith("/") or any(sign.isspace() or sign in "?#" for sign in spec["path"]):
        raise ValidationError({"path": "must begin with / and have no blanks, ? and # in it"})
    if spec["ca_file"] and spec["protocol"] not in ENCRYPTED:
        raise ValidationError(
            {"ca_file": f"is for {' and '.join(ENCRYPTED)} only; {spec['protocol']} has no TLS"}
        )


def _check_hosts(spec: Spec) -> None:
    """Raises ValidationError for a hostname that is neither a host nor a list of hosts."""
    try:
        hosts = Remote("", spec["hostname"], spec["port"]).alternatives
    except ValueError:
        raise ValidationError({"hostname": "must have a number as each port: b1,b2:61623"}) from None
    for one in hosts:
        if not 1 <= len(one.hostname) <= 253 or any(sign in one.hostname for sign in " /@"):
            raise ValidationError({"hostname": "must be the name of a host, or a list of hosts: b1,b2:61623"})
        if not 0 < one.port < 65536:
            raise ValidationError({"hostname": "must have ports from 1 to 65535"})


def whole(key: str) -> tuple[Spec, dict[str, str]] | None:
    """The spec of a bridge with its secrets, to test it or to copy it. Raises ValidationError for a secret
    that cannot be read."""
    row = Bridge.objects.filter(name=key).first()
    if row is None:
        return None
    try:
        return row.values, {"password": unseal(row.password)} if row.password else {}
    except Unreadable as error:
        raise ValidationError({"password": f"of bridge {key} cannot be read: {error}"}) from error


def remotes() -> dict[str, Remote]:
    """All bridges; one whose password cannot be read is unusable, with the reason."""
    return {row.name: _remote(row) for row in Bridge.objects.all()}


def _remote(row: Bridge) -> Remote:
    try:
        return Remote.of(row.name, row.values, unseal(row.password))
    except Unreadable as error:
        return Remote.of(row.name, row.values, config_error=f"its password cannot be read: {error}")


def reseal() -> list[str]:
    """Seal all passwords with the newest secret key; names of the bridges whose password cannot be read."""
    unreadable = []
    for row in Bridge.objects.exclude(password=""):
        try:
            sealed = resealed(row.password)
        except Unreadable:
            unreadable.append(row.name)
            continue
        if sealed != row.password:
            Bridge.objects.filter(pk=row.pk, password=row.password).update(password=sealed)
    return unreadable
