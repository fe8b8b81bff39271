"""Authorization rules (`broker_app.rules` evaluates them)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError

from broker_app.models import Rule
from broker_app.rules.errors import RuleError
from broker_app.rules.grammar import parse
from broker_app.web.resource_types import positions
from broker_app.web.resource_types.resource_type import ResourceType, Spec, check_fields, check_texts, no_such
from broker_app.web.resource_types.users import RESERVED

MOST = 10_000
#: of users, and of groups: each looks for the nearest name there is
_MAX_WARNINGS = 10
_NAME = re.compile(r"[\w.-]{1,100}")
_FIELDS = {"effect": str, "conditions": str, "users": list, "groups": list, "position": int, "comment": str}


class Rules(ResourceType):
    name = "rules"
    one = "rule"

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = Rule.objects.all() if keys is None else Rule.objects.filter(name__in=list(keys))
        return {row.name: {name: getattr(row, name) for name in _FIELDS} for row in rows}

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        defaults: dict[str, object] = {
            "effect": Rule.ALLOW,
            "conditions": "",
            "users": [],
            "groups": [],
            "comment": "",
        }
        if "position" not in spec:
            defaults["position"] = before["position"] if before is not None else positions.behind_all(Rule)
        return {**defaults, **spec}

    def with_positions(self, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """A rule without a position follows the one before it."""
        return positions.in_order(specs)

    def check(self, key: str, spec: Spec) -> None:
        if not _NAME.fullmatch(key):
            raise ValidationError("a rule's name has 1 to 100 letters, digits, dots, underlines and dashes")
        check_fields(spec, _FIELDS)
        if spec["effect"] not in (Rule.ALLOW, Rule.DENY):
            raise ValidationError({"effect": "must be allow or deny"})
        check_texts("users", spec["users"])
        check_texts("groups", spec["groups"])
        if not positions.LEAST <= spec["position"] <= positions.MOST:
            raise ValidationError({"position": positions.FAULT})
        if len(spec["comment"]) > 1000:
            raise ValidationError({"comment": "has more than 1,000 characters"})
        try:
            parse(spec["conditions"])
        except RuleError as error:
            raise ValidationError({"conditions": str(error)}) from error

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        Rule.objects.update_or_create(name=key, defaults=spec)

    def combined_error(self, changes: Sequence[tuple[Spec | None, Spec | None]]) -> str:
        if any(before is None for before, _ in changes) and Rule.objects.count() > MOST:
            return f"there would be more than {MOST} rules"
        return ""

    def remove(self, key: str) -> None:
        Rule.objects.filter(name=key).delete()

    def warnings(self, spec: Spec) -> Iterable[str]:
        """Users and groups that do not exist. A provider or a certificate may bring them later."""
        users = spec["users"], User.objects.values_list("username", flat=True)
        groups = spec["groups"], Group.objects.values_list("name", flat=True)
        for one, (named, there) in (("user", users), ("group", groups)):
            known = {*there, *(RESERVED if one == "user" else ())} if named else set()
            missing = [name for name in named if name not in known]
            yield from (no_such(one, name, known) for name in missing[:_MAX_WARNINGS])
