"""Users and groups: Django's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib.auth import password_validation
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError

from broker_app.models import Token
from broker_app.web.resource_types.resource_type import ResourceType, Spec, check_fields, check_texts, no_such
from broker_app.web.roles import is_monitor

#: logins with a meaning of their own
RESERVED = ("token", "anonymous", "system")
_FIELDS = {"administrator": bool, "monitor": bool, "active": bool, "groups": list, "email": str}


class UnvalidatedPassword(str):
    """A password that is not validated, because it is chosen by the operator who starts the broker."""


class Users(ResourceType):
    name = "users"
    one = "user"
    secrets = ("password",)

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = User.objects.order_by("username").prefetch_related("groups")
        if keys is not None:
            rows = rows.filter(username__in=list(keys))
        return {
            row.username: {
                "administrator": row.is_superuser,
                "monitor": is_monitor(row),
                "active": row.is_active,
                "groups": sorted(group.name for group in row.groups.all()),
                "email": row.email,
            }
            for row in rows
        }

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        defaults = {"administrator": False, "monitor": False, "active": True, "groups": [], "email": ""}
        completed = {**defaults, **spec}
        if isinstance(completed["groups"], list) and all(
            isinstance(name, str) for name in completed["groups"]
        ):
            completed["groups"] = sorted(completed["groups"])
        return completed

    def check(self, key: str, spec: Spec) -> None:
        if key in RESERVED:
            raise ValidationError(f"{key} is reserved; choose another name for the user")
        check_fields(spec, _FIELDS)
        if spec["administrator"] and spec["monitor"]:
            raise ValidationError(
                {"monitor": "an administrator changes everything, and a monitor nothing: choose one of both"}
            )
        check_texts("groups", spec["groups"], longest=150)
        # Uniqueness is not checked: the key is the name. A password is checked when one is given.
        User(username=key, email=spec["email"]).clean_fields(exclude=["password"])

    def check_secrets(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        super().check_secrets(key, spec, secrets)
        if "password" in secrets:
            if isinstance(secrets["password"], UnvalidatedPassword):
                return
            if not isinstance(secrets["password"], str):
                raise ValidationError({"password": "must be a text"})
            try:
                password_validation.validate_password(
                    secrets["password"], User(username=key, email=spec["email"])
                )
            except ValidationError as error:
                raise ValidationError({"password": error.messages}) from error

    def changed_secrets(self, key: str, secrets: Mapping[str, Any]) -> Mapping[str, Any]:
        password = secrets.get("password")
        row = User.objects.filter(username=key).first() if isinstance(password, str) else None
        return {} if row is not None and check_password(password, row.password) else secrets

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        groups = list(Group.objects.filter(name__in=spec["groups"]))
        if missing := sorted(set(spec["groups"]) - {group.name for group in groups}):
            known = Group.objects.values_list("name", flat=True)
            raise ValidationError({"groups": "; ".join(no_such("group", name, known) for name in missing)})
        row = User.objects.filter(username=key).first() or User(username=key)
        row.is_superuser = spec["administrator"]
        row.is_staff = spec["administrator"] or spec["monitor"]
        row.is_active = spec["active"]
        row.email = spec["email"]
        if secrets:
            row.set_password(secrets["password"])
        elif not row.password:
            row.set_unusable_password()
        row.save()
        row.groups.set(groups)

    def remove(self, key: str) -> None:
        User.objects.get(username=key).delete()

    def combined_error(self, changes: Sequence[tuple[Spec | None, Spec | None]]) -> str:
        """Refuse to remove the last active administrator."""
        administrator_removed = any(
            _is_administrator(before) and not _is_administrator(after) for before, after in changes
        )
        if administrator_removed and not User.objects.filter(is_superuser=True, is_active=True).exists():
            return "no active administrator would be left"
        return ""

    def dependents(self, key: str) -> Iterable[tuple[str, str]]:
        for name in Token.objects.filter(owner__username=key).values_list("name", flat=True):
            yield "tokens", f"{key}/{name}"


class Groups(ResourceType):
    name = "groups"
    one = "group"

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = Group.objects.order_by("name")
        if keys is not None:
            rows = rows.filter(name__in=list(keys))
        return {name: {} for name in rows.values_list("name", flat=True)}

    def check(self, key: str, spec: Spec) -> None:
        if not key or len(key) > 150 or key != key.strip() or "," in key:
            raise ValidationError("a group's name has 1 to 150 characters, none of them a comma")
        check_fields(spec, {})

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        Group.objects.get_or_create(name=key)

    def remove(self, key: str) -> None:
        group = Group.objects.get(name=key)
        members = list(
            User.objects.filter(groups=group).order_by("username").values_list("username", flat=True)[:4]
        )
        if members:
            raise ValidationError(
                f"users are in this group: {', '.join(members[:3])}{' and more' * (len(members) > 3)}"
            )
        group.delete()


def _is_administrator(spec: Spec | None) -> bool:
    return spec is not None and spec["administrator"] and spec["active"]


def missing_user(name: str) -> str:
    """The refusal of a user that does not exist, with the nearest name; empty if there is one."""
    if User.objects.filter(username=name).exists():
        return ""
    return no_such("user", name[:150], User.objects.values_list("username", flat=True))
