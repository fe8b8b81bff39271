"""The settings of destinations, as the configuration has them."""

from datetime import datetime
from typing import Any, NamedTuple

from broker_app.models import Entry
from broker_app.web.resource_types import KINDS

KIND = "destinations"


class SaidOfDestination(NamedTuple):
    """The settings of an address or a pattern, with their version."""

    address: str
    values: dict[str, Any]
    version: int
    changed: datetime
    origin: str


def said_of(address: str) -> SaidOfDestination | None:
    """The settings of an address or a pattern; None if there are none."""
    values = KINDS[KIND].read([address]).get(address)
    entry = Entry.objects.filter(kind=KIND, key=address).first()
    if values is None or entry is None:
        return None
    return SaidOfDestination(address, values, entry.version, entry.changed, entry.origin)
