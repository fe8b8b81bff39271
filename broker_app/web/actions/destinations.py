"""The settings of destinations, as the configuration has them."""

from datetime import datetime
from typing import NamedTuple

from broker_app.models import Entry
from broker_app.web.resource_types import RESOURCE_TYPES

KIND = "destinations"


class DestinationSpec(NamedTuple):
    """The settings of an address or a pattern, with their version."""

    address: str
    values: dict[str, object]
    version: int
    changed: datetime
    origin: str


def destination_spec(address: str) -> DestinationSpec | None:
    """The settings of an address or a pattern; None if there are none."""
    values = RESOURCE_TYPES[KIND].read([address]).get(address)
    entry = Entry.objects.filter(kind=KIND, key=address).first()
    if values is None or entry is None:
        return None
    return DestinationSpec(address, values, entry.version, entry.changed, entry.origin)
