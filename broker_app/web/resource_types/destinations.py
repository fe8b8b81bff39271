"""Destinations: settings of a queue, a topic, a pattern or all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError

from broker_app.core.errors import Refused
from broker_app.models import DestinationSettings
from broker_app.net.policy.destination_settings import check_address, faults
from broker_app.web.resource_types.resource_type import Kind, Said

MOST = 100_000


class Destinations(Kind):
    name = "destinations"
    one = "destination"

    def read(self, keys: Iterable[str] | None = None) -> dict[str, Said]:
        rows = DestinationSettings.objects.all()
        if keys is not None:
            rows = rows.filter(address__in=list(keys))
        return dict(rows.values_list("address", "values"))

    def check(self, key: str, said: Said) -> None:
        try:
            check_address(key)
        except Refused as refusal:
            raise ValidationError(refusal.detail) from refusal
        if wrong := faults(said, key):
            raise ValidationError(wrong)

    def write(self, key: str, said: Said, secrets: Mapping[str, Any]) -> None:
        DestinationSettings.objects.update_or_create(address=key, defaults={"values": said})

    def wrong_together(self, changes: Sequence[tuple[Said | None, Said | None]]) -> str:
        if any(before is None for before, _ in changes) and DestinationSettings.objects.count() > MOST:
            return f"there would be settings of more than {MOST} destinations"
        return ""

    def remove(self, key: str) -> None:
        DestinationSettings.objects.filter(address=key).delete()
