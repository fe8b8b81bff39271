"""Settings of destinations, as the table in `net.destinations` has them."""

from __future__ import annotations

from broker_app.net.policy.destination_settings import SETTINGS, Setting
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    TIME,
    Json,
    number,
    object_of,
    or_null,
    whole,
    written,
)


def setting_schema(setting: Setting) -> Json:
    """The values of one setting of a destination."""
    if setting.kind is bool:
        return BOOLEAN
    if setting.choices:
        return {"enum": list(setting.choices)}
    if setting.kind is str:
        return {"type": "string", "maxLength": 255}
    return (
        whole(int(setting.least), int(setting.most))
        if setting.kind is int
        else number(setting.least, setting.most)
    )


def _shown_schema(*, change: bool = False) -> dict[str, Json]:
    return {
        name: {
            **(or_null(setting_schema(setting)) if change else setting_schema(setting)),
            "description": setting.about,
        }
        for name, setting in SETTINGS.items()
    }


def said_schema(*, change: bool = False) -> Json:
    """The settings of a destination in a request; in a change, null removes one."""
    members = {name: written(name, schema) for name, schema in _shown_schema(change=change).items()}
    return object_of(members, required=())


def row_schema() -> Json:
    """The settings of one address or pattern."""
    return object_of(
        {
            "address": {"type": "string", "description": "an address such as /queue/orders, or a pattern"},
            "settings": object_of(_shown_schema(), required=()),
            "version": {"type": "integer", "minimum": 1, "description": "as in the ETag"},
            "origin": {"type": "string", "description": "the file and line that say it, if one does"},
            "changed": TIME,
        }
    )
