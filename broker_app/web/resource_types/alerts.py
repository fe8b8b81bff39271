"""Alert rules: the conditions that the broker checks, and where it sends notifications.

A rule with the name of a built-in one replaces it; deleting it restores the built-in rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from django.core.exceptions import ValidationError

from broker_app.features.notifications.target import LONGEST, MOST_TARGETS, NotificationTarget
from broker_app.models import AlertRule
from broker_app.telemetry.alerts.condition import SEVERITIES
from broker_app.telemetry.alerts.conditions import CONDITIONS
from broker_app.telemetry.alerts.rule import DEFAULT_RULES
from broker_app.web.resource_types.resource_type import ResourceType, Spec, check_fields, check_texts

MOST: Final = 200
MAX_PATTERN: Final = 300
MAX_SECONDS: Final = 7 * 86_400
_NAME = re.compile(r"[\w.-]{1,100}")
_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "condition": str,
    "threshold": (int, float),
    "for_s": (int, float),
    "severity": str,
    "pattern": str,
    "enabled": bool,
    "notify": list,
    "comment": str,
}


class AlertRules(ResourceType):
    name = "alerts"
    one = "alert rule"

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = AlertRule.objects.all() if keys is None else AlertRule.objects.filter(name__in=list(keys))
        return dict(rows.values_list("name", "values"))

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        """Missing members have their built-in value, or the default of the condition."""
        whole: dict[str, object] = {"pattern": "", "enabled": True, "notify": [], "comment": "", **spec}
        whole.setdefault("condition", key if key in DEFAULT_RULES else "")
        condition = next((one for name, one in CONDITIONS.items() if name == whole["condition"]), None)
        if condition is not None:
            for field in ("threshold", "for_s", "severity"):
                whole.setdefault(field, getattr(condition, field))
        return {name: whole[name] for name in _FIELDS if name in whole} | whole

    def check(self, key: str, spec: Spec) -> None:
        if not _NAME.fullmatch(key):
            raise ValidationError(
                "an alert rule's name has 1 to 100 letters, digits, dots, underlines and dashes"
            )
        if spec.get("condition") not in CONDITIONS:
            raise ValidationError({"condition": f"must be one of {', '.join(CONDITIONS)}"})
        check_fields(spec, _FIELDS)
        if spec["severity"] not in SEVERITIES:
            raise ValidationError({"severity": f"must be one of {', '.join(SEVERITIES)}"})
        if not 0 <= spec["threshold"] <= 10**12:
            raise ValidationError({"threshold": "must be between 0 and 1,000,000,000,000"})
        if not 0 <= spec["for_s"] <= MAX_SECONDS:
            raise ValidationError({"for_s": f"must be between 0 and {MAX_SECONDS}"})
        for name, most in (("pattern", MAX_PATTERN), ("comment", 1000)):
            if len(spec[name]) > most:
                raise ValidationError({name: f"has more than {most} characters"})
        check_texts("notify", spec["notify"], most=MOST_TARGETS, longest=LONGEST)
        for target in spec["notify"]:
            try:
                NotificationTarget.of(target)
            except ValueError as fault:
                raise ValidationError({"notify": f"{target[:100]} {fault}"}) from None

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        AlertRule.objects.update_or_create(name=key, defaults={"values": spec})

    def combined_error(self, changes: Sequence[tuple[Spec | None, Spec | None]]) -> str:
        if any(before is None for before, _ in changes) and AlertRule.objects.count() > MOST:
            return f"there would be more than {MOST} alert rules"
        return ""

    def remove(self, key: str) -> None:
        AlertRule.objects.filter(name=key).delete()


def built_in_rules() -> dict[str, Spec]:
    """The built-in rules that are not replaced."""
    return {
        name: {
            **{field: value for field, value in asdict(rule).items() if field != "name"},
            "notify": [],
            "comment": "",
        }
        for name, rule in DEFAULT_RULES.items()
    }
