"""Bridges: connections to remote brokers, by which store-and-forward queues are emptied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.core.exceptions import ValidationError

from broker_app.models import Bridge
from broker_app.web.kinds.kind import Kind, Said, check_fields

MOST = 1_000
MAX_NAME = 20
PROTOCOLS = ("stomp", "stomps", "ws", "wss")
#: seconds: (least, most)
_TIMES: Final = {"retry_s": (0.1, 3600.0), "idle_s": (0.1, 86_400.0), "scan_s": (0.1, 60.0)}
_DEFAULTS: Final[Mapping[str, Any]] = {
    "port": 61613,
    "protocol": "stomp",
    "user": "",
    "retry_s": 5.0,
    "idle_s": 60.0,
    "scan_s": 30.0,
    "park_after": 0,
    "paused": False,
    "comment": "",
}
_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "hostname": str,
    **{name: (int, float) if name in _TIMES else type(value) for name, value in _DEFAULTS.items()},
}


class Bridges(Kind):
    """`password` is that of the credentials by which the bridge logs in at the remote broker."""

    name = "bridges"
    one = "bridge"
    secrets = ("password",)

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Said]:
        rows = Bridge.objects.all() if keys is None else Bridge.objects.filter(name__in=list(keys))
        return dict(rows.values_list("name", "values"))

    def complete(self, key: str, said: Mapping[str, Any], before: Said | None) -> Said:
        return {**_DEFAULTS, **said}

    def check(self, key: str, said: Said) -> None:
        if not 1 <= len(key.strip()) <= MAX_NAME or key != key.strip():
            raise ValidationError(f"a bridge's name has 1 to {MAX_NAME} characters; this has {len(key)}")
        if "/" in key or ":" in key:
            raise ValidationError("a bridge's name has neither / nor : in it")
        check_fields(said, _FIELDS)
        if not 1 <= len(said["hostname"]) <= 253 or any(sign in said["hostname"] for sign in " /@"):
            raise ValidationError({"hostname": "must be the name or address of a host"})
        if not 1 <= said["port"] <= 65535:
            raise ValidationError({"port": "must be between 1 and 65535"})
        if said["protocol"] not in PROTOCOLS:
            raise ValidationError({"protocol": f"must be one of {', '.join(PROTOCOLS)}"})
        for name, (least, most) in _TIMES.items():
            if not least <= said[name] <= most:
                raise ValidationError({name: f"must be between {least:g} and {most:g}"})
        if not 0 <= said["park_after"] <= 1_000_000:
            raise ValidationError({"park_after": "must be between 0, for never, and 1000000"})
        for name, most in (("user", 150), ("comment", 1000)):
            if len(said[name]) > most:
                raise ValidationError({name: f"has more than {most} characters"})

    def check_secrets(self, key: str, said: Said, secrets: Mapping[str, Any]) -> None:
        super().check_secrets(key, said, secrets)
        password = secrets.get("password", "")
        if not isinstance(password, str) or len(password) > 1000:
            raise ValidationError({"password": "must be a text of at most 1,000 characters"})

    def new_secrets(self, key: str, secrets: Mapping[str, Any]) -> Mapping[str, Any]:
        row = Bridge.objects.filter(name=key).first()
        return {} if row is not None and secrets == {"password": row.password} else secrets

    def write(self, key: str, said: Said, secrets: Mapping[str, Any]) -> None:
        row = Bridge.objects.filter(name=key).first() or Bridge(name=key)
        row.values = said
        row.password = secrets.get("password", row.password)
        row.save()

    def wrong_together(self, changes: Sequence[tuple[Said | None, Said | None]]) -> str:
        if any(before is None for before, _ in changes) and Bridge.objects.count() > MOST:
            return f"there would be more than {MOST} bridges"
        return ""

    def remove(self, key: str) -> None:
        Bridge.objects.filter(name=key).delete()
