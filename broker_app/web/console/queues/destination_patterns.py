"""The settings of a destination and of matching patterns, and the effective values."""

from __future__ import annotations

from django.conf import settings

from broker_app.config import overridden
from broker_app.models import DestinationSettings, Entry
from broker_app.net.policy.destination_settings import EVERYTHING, Destinations, Own, node_values
from broker_app.web.snapshot import read_broker


def addresses_about(kind: str, name: str) -> list[str]:
    """All addresses and patterns whose settings apply to a destination, least specific first."""
    levels = name.removesuffix(">").removesuffix(".").split(".") if name.endswith(">") else name.split(".")
    begun = [".".join(levels[:count]) for count in range(1, len(levels))]
    patterns = [EVERYTHING, f"/{kind}/>", *(f"/{kind}/{part}.>" for part in begun)]
    own = f"/{kind}/{name}"
    return [*(pattern for pattern in patterns if pattern != own), own]


def settings_for(kind: str, name: str) -> Destinations:
    """Only the settings that apply to one destination."""
    addresses = addresses_about(kind, name)
    versions = dict(
        Entry.objects.filter(kind="destinations", key__in=addresses).values_list("key", "version")
    )
    rows = DestinationSettings.objects.filter(address__in=addresses).values_list("address", "values")
    return Destinations(
        {address: Own(values, versions.get(address, 1)) for address, values in rows},
        node_values(overridden(settings.MOM, read_broker())),
    )
