"""Masks: values of messages that are hidden from users who look at them (`broker_app.features.masks`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError

from broker_app import models
from broker_app.base.refused import Refused
from broker_app.features.masks.mask import LONGEST, MEMBERS, MOST, Mask
from broker_app.net.policy.destination_settings import check_address
from broker_app.web.resource_types.resource_type import ResourceType, Spec, check_fields, check_texts, no_such

#: masks of one broker
MOST_MASKS: Final = 200
_NAME: Final = re.compile(r"[\w.-]{1,100}")
_FIELDS: Final[Mapping[str, type]] = {name: type(default) for name, (_member, default) in MEMBERS.items()}


class Masks(ResourceType):
    name = "masks"
    one = "mask"

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = models.Mask.objects.all() if keys is None else models.Mask.objects.filter(name__in=list(keys))
        return dict(rows.values_list("name", "values"))

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        return {**{name: default for name, (_member, default) in MEMBERS.items()}, **spec}

    def check(self, key: str, spec: Spec) -> None:
        if not _NAME.fullmatch(key):
            raise ValidationError("a mask's name has 1 to 100 letters, digits, dots, underlines and dashes")
        check_fields(spec, _FIELDS)
        for name, (member, default) in MEMBERS.items():
            if not isinstance(default, list):
                continue
            check_texts(name, spec[name], most=MOST, longest=LONGEST)
            faults = [
                fault for text in spec[name] if member.fault is not None and (fault := member.fault(text))
            ]
            if faults:
                raise ValidationError({name: faults[0]})
        if len(spec["comment"]) > 1000:
            raise ValidationError({"comment": "has more than 1,000 characters"})
        try:
            check_address(spec["destination"])
        except Refused as refusal:
            raise ValidationError({"destination": refusal.detail}) from refusal
        if not spec["headers"] and not spec["fields"]:
            raise ValidationError(
                {"headers": "is empty, as is fields: one of them has to name what is hidden"}
            )

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        models.Mask.objects.update_or_create(name=key, defaults={"values": spec})

    def combined_error(self, changes: Sequence[tuple[Spec | None, Spec | None]]) -> str:
        if any(before is None for before, _ in changes) and models.Mask.objects.count() > MOST_MASKS:
            return f"there would be more than {MOST_MASKS} masks"
        return ""

    def remove(self, key: str) -> None:
        models.Mask.objects.filter(name=key).delete()

    def warnings(self, spec: Spec) -> Iterable[str]:
        """Groups that do not exist."""
        known = set(Group.objects.values_list("name", flat=True))
        return [no_such("group", name, known) for name in spec["groups"] if name not in known]


def masks() -> tuple[Mask, ...]:
    """All masks."""
    return tuple(_mask(name, spec) for name, spec in models.Mask.objects.values_list("name", "values"))


def _mask(name: str, spec: Spec) -> Mask:
    members: Spec = {
        member: tuple(value) if isinstance(value, list) else value for member, value in spec.items()
    }
    return Mask(name, **members)
