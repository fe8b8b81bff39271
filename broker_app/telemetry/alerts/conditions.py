"""All conditions of alerts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker_app.telemetry.alerts import broker_conditions, cluster_conditions
from broker_app.telemetry.alerts.condition import Condition

#: by name, in the order in which they are shown
CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType(
    {**broker_conditions.TABLE, **cluster_conditions.TABLE}
)
