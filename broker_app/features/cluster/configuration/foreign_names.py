"""The names of other makes of brokers for settings: those of GlassFish MQ and of ActiveMQ."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker_app.features.cluster.configuration import activemq_names, imq_names
from broker_app.features.cluster.configuration.foreign_name import ForeignName

#: by name
NAMES: Final[Mapping[str, ForeignName]] = MappingProxyType({**imq_names.NAMES, **activemq_names.NAMES})
_PREFIXES: Final = tuple(row for row in NAMES.values() if row.name.endswith("*"))


def find(name: str) -> ForeignName | None:
    """The row of a property; None if there is none."""
    return NAMES.get(name) or next((row for row in _PREFIXES if name.startswith(row.name[:-1])), None)
