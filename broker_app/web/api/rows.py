"""Rows: resources as the API shows them, read with their versions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import Group, User
from django.utils import timezone

from broker_app.models import Callback, Entry, Token
from broker_app.web.resource_types import RESOURCE_TYPES, Spec

Row = dict[str, Any]

#: the origin of built-in resources
BUILT_IN = "built-in"


def rows_of(kind: str, keys: Iterable[str] | None = None) -> list[Row]:
    """The existing resources of `keys`, or all, in the order of their type."""
    keys = None if keys is None else list(keys)
    # Versions first: content that is newer than its version makes a write fail, the other way loses one.
    entries = Entry.objects.filter(kind=kind)
    if keys is not None:
        entries = entries.filter(key__in=keys)
    known = {entry.key: entry for entry in entries}
    specs = RESOURCE_TYPES[kind].read(keys)
    facts = _FACTS[kind](list(specs)) if kind in _FACTS else {}
    return [_row(key, spec, known.get(key), facts.get(key, {})) for key, spec in specs.items()]


def row_of(kind: str, key: str) -> Row | None:
    """The resource of this key; None if there is none."""
    return next(iter(rows_of(kind, [key])), None)


def built_in(key: str, spec: Spec) -> Row:
    """A built-in resource, as it is shown with the configured ones."""
    return {**_row(key, spec, None, {}), "version": 0, "origin": BUILT_IN}


def _row(key: str, spec: Spec, entry: Entry | None, facts: Row) -> Row:
    # A resource that no action has written has the first version.
    version, origin, changed = (entry.version, entry.origin, entry.changed) if entry else (1, "", None)
    return {"name": key, **spec, **facts, "version": version, "origin": origin, "changed": _time(changed)}


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


# ---------------------------------------------------------------------- status, shown with the spec


def _of_users(names: list[str]) -> dict[str, Row]:
    found = User.objects.filter(username__in=names) if len(names) == 1 else User.objects.all()
    return {name: {"last_login": _time(time)} for name, time in found.values_list("username", "last_login")}


def _of_groups(names: list[str]) -> dict[str, Row]:
    members: dict[str, list[str]] = {name: [] for name in names}
    pairs = Group.objects.exclude(user=None).values_list("name", "user__username").order_by("user__username")
    for name, user in pairs.filter(name__in=names) if len(names) == 1 else pairs:
        if name in members:
            members[name].append(user)
    return {name: {"members": users} for name, users in members.items()}


def _of_tokens(keys: list[str]) -> dict[str, Row]:
    found = Token.objects.select_related("owner")
    if len(keys) == 1:
        owner, _, name = keys[0].partition("/")
        found = found.filter(owner__username=owner, name=name)
    return {
        f"{token.owner.username}/{token.name}": {
            "id": token.pk,
            "user": token.owner.username,
            "name": token.name,
            "prefix": token.prefix,
            "created": _time(token.created),
            "last_used": _time(token.last_used),
        }
        for token in found
    }


def _of_callbacks(names: list[str]) -> dict[str, Row]:
    rows = Callback.objects.filter(name__in=names) if len(names) == 1 else Callback.objects.all()
    now = timezone.now()
    return {
        row.name: {
            "former_secret_until": _time(
                row.former_until if row.former_until and row.former_until > now else None
            ),
            "has_authorization": bool(row.authorization),
        }
        for row in rows
    }


_FACTS = {"users": _of_users, "groups": _of_groups, "tokens": _of_tokens, "callbacks": _of_callbacks}
