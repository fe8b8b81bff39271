"""What is said about a destination: all of it, something more, or nothing any more."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from broker_app.models import Entry
from broker_app.net.destinations import SETTINGS
from broker_app.web.actions.applying import Edit, Stale, apply, version_of
from broker_app.web.actions.author import By
from broker_app.web.kinds import KINDS

KIND = "destinations"


class SaidOfDestination(NamedTuple):
    """What is said about an address or a pattern, since which version."""

    address: str
    values: dict[str, Any]
    version: int
    changed: datetime


def said_of(address: str) -> SaidOfDestination | None:
    """What is said about it; None when nothing is."""
    values = KINDS[KIND].read([address]).get(address)
    entry = Entry.objects.filter(kind=KIND, key=address).first()
    if values is None or entry is None:
        return None
    return SaidOfDestination(address, values, entry.version, entry.changed)


@transaction.atomic
def set_destination(
    by: By, address: str, values: Mapping[str, Any], expected: int | None
) -> SaidOfDestination:
    """Says `values` about an address or a pattern, and nothing else any more.

    `expected` is the version that is to be replaced, 0 for none, None for any. Raises ValidationError,
    Stale, Conflict.
    """
    apply(by, [Edit(KIND, address, values, expected)])
    said = said_of(address)
    assert said is not None, "it was said just now"
    return said


@transaction.atomic
def change_destination(
    by: By, address: str, changes: Mapping[str, Any], expected: int | None
) -> SaidOfDestination:
    """Says something more about an address or a pattern, or takes back what was said (None)."""
    if expected is not None and expected != (version := version_of(KIND, address)):
        raise Stale(version)
    unknown = {name: value for name, value in changes.items() if name not in SETTINGS}
    if unknown:
        KINDS[KIND].check(address, unknown)
    values = {**KINDS[KIND].read([address]).get(address, {}), **changes}
    return set_destination(
        by, address, {name: value for name, value in values.items() if value is not None}, expected
    )


def forget_destination(by: By, address: str, expected: int | None) -> bool:
    """Takes back all that was said about an address or a pattern; whether anything was. Raises Stale."""
    return bool(apply(by, [Edit(KIND, address, None, expected)]).changed)
