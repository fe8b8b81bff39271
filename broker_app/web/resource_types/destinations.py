"""Destinations: settings of a queue, a topic, a pattern or all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError

from broker_app.base.refused import Refused
from broker_app.models import DestinationSettings
from broker_app.net.policy.destination_settings import check_address, faults
from broker_app.web.resource_types.resource_type import ResourceType, Spec

MOST = 100_000


class Destinations(ResourceType):
    name = "destinations"
    one = "destination"
    fixed_fields = ("local_only",)

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        rows = DestinationSettings.objects.all()
        if keys is not None:
            rows = rows.filter(address__in=list(keys))
        return dict(rows.values_list("address", "values"))

    def check(self, key: str, spec: Spec) -> None:
        try:
            check_address(key)
        except Refused as refusal:
            raise ValidationError(refusal.detail) from refusal
        if wrong := faults(spec, key):
            raise ValidationError(wrong)

    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        DestinationSettings.objects.update_or_create(address=key, defaults={"values": spec})

    def combined_error(self, changes: Sequence[tuple[Spec | None, Spec | None]]) -> str:
        if any(before is None for before, _ in changes) and DestinationSettings.objects.count() > MOST:
            return f"there would be settings of more than {MOST} destinations"
        return ""

    def remove(self, key: str) -> None:
        DestinationSettings.objects.filter(address=key).delete()
