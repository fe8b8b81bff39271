"""Tokens: secrets with all or some permissions of their owner. The key is "owner/name"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from broker_app.base.refused import Refused
from broker_app.models import Token
from broker_app.net.policy.destination_settings import check_address
from broker_app.web.resource_types.resource_type import ResourceType, Spec, check_fields, check_texts
from broker_app.web.resource_types.users import missing_user

#: the rights of a grant, in addition to those of rules
RIGHTS = ("send", "receive", "browse", "read", "manage", "administer", "journal:read", "metrics:read")
MAX_GRANTS = 100
_FIELDS = {"grants": (list, type(None)), "expires": (str, type(None))}


class Tokens(ResourceType):
    """`actions.create_token` makes the secret of a token; its digest and its first characters are stored."""

    name = "tokens"
    one = "token"
    secrets = ("digest", "prefix")

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = Token.objects.select_related("owner").order_by("owner__username", "name")
        if keys is not None:
            pairs = [key.partition("/") for key in keys]
            rows = rows.filter(
                name__in={name for _, _, name in pairs}, owner__username__in={owner for owner, _, _ in pairs}
            )
        found = {f"{row.owner.username}/{row.name}": _spec(row) for row in rows}
        return found if keys is None else {key: found[key] for key in keys if key in found}

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        whole = {"grants": None, "expires": None, **spec}
        if isinstance(whole["expires"], str) and (time := _time(whole["expires"])) is not None:
            whole["expires"] = time.isoformat()
        return whole

    def check(self, key: str, spec: Spec) -> None:
        owner, slash, name = key.partition("/")
        if not (owner and slash and 1 <= len(name) <= 100):
            raise ValidationError({"name": "a token's name has 1 to 100 characters"})
        check_fields(spec, _FIELDS)
        _check_grants(spec["grants"])
        if spec["expires"] is not None and _time(spec["expires"]) is None:
            raise ValidationError({"expires": "must be a time with its zone, such as 2027-01-31T12:00:00Z"})

    def check_secrets(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        super().check_secrets(key, spec, secrets)
        expires = _time(spec["expires"]) if spec["expires"] is not None else None
        if secrets and expires is not None and expires <= timezone.now():
            raise ValidationError({"expires": "must be in the future"})

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        owner, _, name = key.partition("/")
        user = User.objects.filter(username=owner).first()
        if user is None:
            raise ValidationError({"owner": missing_user(owner)})
        row = Token.objects.filter(owner=user, name=name).first()
        if row is None:
            if not secrets:
                raise ValidationError("a token cannot be made without its secret; create a new one")
            row = Token(owner=user, name=name, **secrets)
        row.grants = spec["grants"]
        row.expires = _time(spec["expires"]) if spec["expires"] is not None else None
        row.full_clean()
        row.save()

    def remove(self, key: str) -> None:
        owner, _, name = key.partition("/")
        Token.objects.filter(owner__username=owner, name=name).delete()


def _spec(row: Token) -> Spec:
    return {"grants": row.grants, "expires": row.expires.astimezone(UTC).isoformat() if row.expires else None}


def _time(text: str) -> datetime | None:
    try:
        found = parse_datetime(text)
        return found.astimezone(UTC) if found is not None and found.tzinfo is not None else None
    except (ValueError, OverflowError):  # no such day, or none in UTC
        return None


def _check_grants(grants: Any) -> None:
    if grants is None:
        return
    if not grants or len(grants) > MAX_GRANTS:
        raise ValidationError(
            {"grants": f"must be null, for all rights of the owner, or 1 to {MAX_GRANTS} grants"}
        )
    for index, grant in enumerate(grants):
        place = f"grants/{index}"
        if not isinstance(grant, dict):
            raise ValidationError({place: "must be an object with rights and destinations"})
        try:
            check_fields(grant, {"rights": list, "destinations": list})
        except ValidationError as error:
            raise ValidationError(
                {f"{place}/{name}": wrong for name, wrong in error.message_dict.items()}
            ) from error
        check_texts(f"{place}/rights", grant["rights"])
        check_texts(f"{place}/destinations", grant["destinations"])
        if strange := [right for right in grant["rights"] if right not in RIGHTS]:
            raise ValidationError({f"{place}/rights": f"{strange[0]} is none of {', '.join(RIGHTS)}"})
        for address in grant["destinations"]:
            try:
                check_address(address)
            except Refused as refusal:
                raise ValidationError({f"{place}/destinations": refusal.detail}) from refusal
