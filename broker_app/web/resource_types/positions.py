"""Positions of resources that are asked in an order: rules and reflexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.db.models import Max, Model

from broker_app.web.resource_types.resource_type import Spec

#: the distance of positions that were not chosen
_STEP: Final = 10
LEAST, MOST = -(2**31), 2**31 - 1
FAULT: Final = f"must be between {LEAST} and {MOST}"


def in_order(specs: Mapping[str, Spec]) -> dict[str, Spec]:
    """The specs of one document: one without a position follows the one before it."""
    found, position = {}, 0
    for name, spec in specs.items():
        found[name] = {"position": position + _STEP, **spec}
        if isinstance(found[name]["position"], int):
            position = found[name]["position"]
    return found


def behind_all(model: type[Model]) -> int:
    """The position of a new one."""
    last: int | None = model._default_manager.aggregate(last=Max("position"))["last"]
    return _STEP if last is None else min(last + _STEP, MOST)
