"""Reflexes: functions of plug-ins that decide about messages and services (`broker_app.reflex`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ValidationError

from broker_app.core.destination import DEAD_SUFFIX
from broker_app.models import Reflex
from broker_app.reflex import declaration
from broker_app.reflex.declaration import ARRIVAL, DEFAULT_LIMIT_S, DELIVERY, Declaration
from broker_app.reflex.libraries import library_loader
from broker_app.reflex.shipped import table
from broker_app.web.resource_types import positions
from broker_app.web.resource_types.resource_type import ResourceType, Spec, check_fields
from mom_client.storeandforward import PREFIX

MOST: Final = 1_000
#: characters of the options, as JSON
MAX_OPTIONS: Final = 50_000
_NAME: Final = re.compile(r"[\w.-]{1,100}")
_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "kind": str,
    "service": str,
    "event": str,
    "library": str,
    "function": str,
    "options": dict,
    "time_limit_s": (int, float),
    "on_failure": str,
    "enabled": bool,
    "position": int,
    "comment": str,
}


class Reflexes(ResourceType):
    name = "reflexes"
    one = "reflex"
    runtime_fields = ("enabled",)

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = Reflex.objects.all() if keys is None else Reflex.objects.filter(name__in=list(keys))
        return {row.name: _spec(row) for row in rows}

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        defaults: dict[str, object] = {
            "kind": ARRIVAL,
            "service": "*",
            "event": "*",
            "library": "",
            "function": "",
            "options": {},
            "time_limit_s": DEFAULT_LIMIT_S,
            "on_failure": declaration.REFUSE,
            "enabled": True,
            "comment": "",
        }
        if "position" not in spec:
            defaults["position"] = before["position"] if before is not None else positions.behind_all(Reflex)
        completed = {**defaults, **spec}
        return {name: completed[name] for name in _FIELDS if name in completed} | completed

    def with_positions(self, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """A reflex without a position follows the one before it."""
        return positions.in_order(specs)

    def check(self, key: str, spec: Spec) -> None:
        if not _NAME.fullmatch(key):
            raise ValidationError("a reflex's name has 1 to 100 letters, digits, dots, underlines and dashes")
        check_fields(spec, _FIELDS)
        wrong = declaration.faults(spec)
        if not positions.LEAST <= spec["position"] <= positions.MOST:
            wrong["position"] = positions.FAULT
        if len(spec["comment"]) > 1000:
            wrong["comment"] = "has more than 1,000 characters"
        if len(json.dumps(spec["options"])) > MAX_OPTIONS:
            wrong["options"] = f"has more than {MAX_OPTIONS} characters as JSON"
        if not wrong:
            fault = table.fault(spec["kind"], spec["library"], spec["function"], spec["options"])
            wrong = {fault[0]: fault[1]} if fault is not None else self._library_fault(spec)
        if wrong:
            raise ValidationError(wrong)

    def _library_fault(self, spec: Spec) -> dict[str, str]:
        """The fault of an enabled reflex that names what is not there: it would fail for each message."""
        library = library_loader.canonical(spec["library"])
        if not spec["enabled"] or library in table.IN_BROKER:
            return {}
        directory = settings.MOM.reflex_path
        fault = library_loader.fault(
            library, spec["function"], str(directory) if directory is not None else ""
        )
        if fault is None:
            return {}
        return {fault[0]: f"{fault[1]}. Correct it, or save the reflex disabled until it is there"}

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        values = {name: value for name, value in spec.items() if name != "position"}
        Reflex.objects.update_or_create(name=key, defaults={"position": spec["position"], "values": values})

    def combined_error(self, changes: Sequence[tuple[Spec | None, Spec | None]]) -> str:
        if any(before is None for before, _ in changes) and Reflex.objects.count() > MOST:
            return f"there would be more than {MOST} reflexes"
        return ""

    def remove(self, key: str) -> None:
        Reflex.objects.filter(name=key).delete()

    def warnings(self, spec: Spec) -> Iterable[str]:
        """Deliveries that no reflex is asked about."""
        name = spec["service"].removeprefix("/queue/")
        if spec["kind"] == DELIVERY and name.endswith(DEAD_SUFFIX):
            yield f"deliveries of dead letters are not filtered, so it is never asked about {name}"
        elif spec["kind"] == DELIVERY and name.startswith(PREFIX):
            yield f"what bridges forward is filtered where it arrives, so it is never asked about {name}"


def _spec(row: Reflex) -> Spec:
    return {
        name: row.position if name == "position" else row.values[name]
        for name in _FIELDS
        if name == "position" or name in row.values
    }


def declarations() -> tuple[Declaration, ...]:
    """All reflexes, in their order."""
    return tuple(
        Declaration(row.name, **{name: row.values[name] for name in _DECLARED if name in row.values})
        for row in Reflex.objects.all()
    )


_DECLARED: Final = tuple(name for name in _FIELDS if name not in ("position", "comment"))
