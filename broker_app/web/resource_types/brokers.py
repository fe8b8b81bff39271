"""Brokers of this installation: their endpoints, and settings that apply while they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError

from broker_app import config
from broker_app.base.settings.roles import BROKER_NAME
from broker_app.models import Broker
from broker_app.web.resource_types.resource_type import ResourceType, Spec, check_fields, check_texts

_NAME = re.compile(BROKER_NAME)
#: in which pages show the environment; empty is none
COLOURS = ("", "green", "blue", "violet", "amber", "red")
_FIELDS = {"environment": str, "colour": str, "endpoints": list, "settings": dict, "comment": str}


class Brokers(ResourceType):
    name = "brokers"
    one = "broker"

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = Broker.objects.all() if keys is None else Broker.objects.filter(name__in=list(keys))
        return {row.name: {name: getattr(row, name) for name in _FIELDS} for row in rows}

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        whole = {"environment": "", "colour": "", "endpoints": [], "settings": {}, "comment": "", **spec}
        if isinstance(whole["settings"], dict):
            whole["settings"] = {
                name: config.in_unit(name, value) for name, value in whole["settings"].items()
            }
        return whole

    def check(self, key: str, spec: Spec) -> None:
        if not _NAME.fullmatch(key):
            raise ValidationError("a broker's name has 1 to 64 letters, digits, dots, underlines and dashes")
        check_fields(spec, _FIELDS)
        check_texts("endpoints", spec["endpoints"], most=20)
        for name, most in (("environment", 40), ("comment", 1000)):
            if len(spec[name]) > most:
                raise ValidationError({name: f"has more than {most} characters"})
        if spec["colour"] not in COLOURS:
            raise ValidationError({"colour": f"must be one of {', '.join(COLOURS[1:])}, or empty"})
        wrong = {
            f"settings/{name}": fault
            for name, value in spec["settings"].items()
            if (fault := config.fault_of_override(name, value))
        }
        if wrong:
            raise ValidationError(wrong)

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        Broker.objects.update_or_create(name=key, defaults=spec)

    def remove(self, key: str) -> None:
        Broker.objects.filter(name=key).delete()
