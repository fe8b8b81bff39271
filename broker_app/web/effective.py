"""The effective settings of the node, with their sources."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from broker_app import config
from broker_app.config import Config
from broker_app.net.policy.destination_settings import SETTINGS, node_values
from broker_app.web.resource_types import RESOURCE_TYPES

#: stands for a secret that is set
MASK = "********"
DEFAULT = "default"


def shown(running: Config, restart: Collection[str]) -> dict[str, Any]:
    """All settings in the order of the table, and the derived ones of destinations.

    `running` are the settings that the node was started with; the settings of its broker resource replace
    some of them. `restart` names those that have another value in a file by now.
    """
    overrides = RESOURCE_TYPES["brokers"].read([running.name]).get(running.name, {}).get("settings", {})
    replaced = {name for name, value in overrides.items() if not config.fault_of_override(name, value)}
    now = config.overridden(running, {name: overrides[name] for name in replaced})
    rows = []
    for setting in config.settings():
        name, value = setting.name, getattr(now, setting.name)
        source = f"broker {running.name}" if name in replaced else running.sources.get(name, DEFAULT)
        rows.append(
            {
                "name": name,
                "value": _shown(value, secret=setting.rule.secret),
                "default": _shown(setting.default, secret=setting.rule.secret),
                "source": source,
                "unit": setting.rule.unit,
                "about": setting.rule.about,
                "secret": setting.rule.secret,
                "reloadable": setting.rule.reloadable,
                "restart": name in restart,
            }
        )
    given = node_values(now)
    destinations = [
        {
            "name": name,
            "value": given.get(name, setting.default),
            "default": setting.default,
            "source": "node" if name in given else DEFAULT,
            "about": setting.about,
        }
        for name, setting in SETTINGS.items()
    ]
    return {"broker": running.name, "settings": rows, "destinations": destinations}


def _shown(value: Any, *, secret: bool) -> Any:
    if secret:
        return None if value is None else MASK
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
