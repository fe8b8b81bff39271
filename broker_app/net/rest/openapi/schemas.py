"""Pieces of JSON schemas that all parts of the description use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_type_hints

import msgspec

from broker_app.base import states, units
from broker_app.core.selectors.compiler import MAX_LENGTH as MAX_SELECTOR

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
BOOLEAN: Json = {"type": "boolean"}
SELECTOR_TEXT: Json = {**TEXT, "maxLength": MAX_SELECTOR}
OPTIONAL_TEXT: Json = {"type": ["string", "null"]}
#: a position with the tag of the journal that gave it, or without
POSITION: Json = {"type": "string", "pattern": "^([0-9a-f]{1,7}-)?[0-9]{1,18}$"}
TIME: Json = {"type": "string", "format": "date-time", "description": "RFC 3339, UTC, with milliseconds"}


def object_of(members: Json, *, required: tuple[str, ...] | None = None, free: bool = False) -> Json:
    """An object; all members are required by default, and no other ones exist unless `free`."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members if required is None else required),
        "additionalProperties": free,
    }


def array_of(of: Json, most: int | None = None) -> Json:
    """An array, of at most `most` where that is given."""
    return {"type": "array", "items": of, **({"maxItems": most} if most else {})}


def ref(name: str, kind: str = "schemas") -> Json:
    """A reference to the components of the document."""
    return {"$ref": f"#/components/{kind}/{name}"}


def of_types(*types: type) -> Json:
    """The schemas of replies by name, from the TypedDicts that are what is sent; those within them, too. No
    other members exist."""
    _, found = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    orders = {kind.__name__: list(get_type_hints(kind)) for kind in types}
    return {name: _closed(schema, orders.get(name, ())) for name, schema in found.items()}


def _closed(schema: Json, order: Sequence[str]) -> Json:
    """An object without other members, and its members in the order of their declaration."""
    members: Json = schema["properties"]
    return {
        **schema,
        "properties": {name: members[name] for name in order or members},
        "additionalProperties": False,
        "description": " ".join(schema.get("description", "").split()),
    }


def number(least: float, most: float, default: float | None = None) -> Json:
    """A number within bounds."""
    return {
        "type": "number",
        "minimum": least,
        "maximum": most,
        **({"default": default} if default is not None else {}),
    }


def whole(least: int, most: int, default: int | None = None) -> Json:
    """A whole number within bounds."""
    return {**number(least, most, default), "type": "integer"}


def state_of(family: states.Family) -> Json:
    """The values of a state, with what each means."""
    return {"enum": list(family), "description": states.described(family)}


def or_null(schema: Json) -> Json:
    """The same, or null."""
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*types, *(["null"] if "null" not in types else [])]}


#: texts with a unit, by the end of the name of a member: see `base.units`
_TEXTS: dict[str, Json] = {
    "_s": {"type": "string", "pattern": r"^\d+(\.\d*)?(ms|s|m|min|h|d)?$", "description": "such as 2s, 5m"},
    "_bytes": {
        "type": "string",
        "pattern": r"^\d+([kKmMgG]([iI]?[bB])?)?$",
        "description": "such as 64MiB",
    },
}


def written(name: str, schema: Json) -> Json:
    """A member as requests may have it: a time in seconds or a size in bytes may be a text with its unit."""
    text = next((text for end, text in _TEXTS.items() if units.ends_with(name, end)), None)
    if text is None:
        return schema
    about = {"description": schema["description"]} if "description" in schema else {}
    number = {key: value for key, value in schema.items() if key not in ("description", "default")}
    default = {"default": schema["default"]} if "default" in schema else {}
    return {"anyOf": [number, text], **default, **about}


def request_of(members: Json, *, required: tuple[str, ...] | None = None) -> Json:
    """An object that clients write."""
    return object_of({name: written(name, schema) for name, schema in members.items()}, required=required)


NAME: Json = {"type": "string", "minLength": 1, "maxLength": 255}
REASON: Json = {"type": "string", "maxLength": 1000}
HEADERS: Json = {"type": "object", "additionalProperties": TEXT}
PAGING: Json = {
    "next": {"type": ["string", "null"], "description": "`after` of the next page"},
    "approx_total": COUNT,
}
HEALTH: Json = state_of(states.HEALTH)
OPTIONAL_TIME: Json = {**TIME, "type": ["string", "null"]}
COUNTS: Json = {"type": "object", "additionalProperties": COUNT}
STATE: Json = state_of(states.DESTINATION)
#: how full a queue is, and when it will be
FULLNESS: Json = {
    "fill": {
        "type": ["number", "null"],
        "minimum": 0,
        "maximum": 1,
        "description": "how much of its limit is used; null without limits",
    },
    "full_in_s": {
        "type": ["number", "null"],
        "minimum": 0,
        "description": "seconds until it is full at the current rate of growth; null if it does not grow",
    },
}
RATE: Json = {"type": "number", "minimum": 0, "description": "per second"}
SECONDS: Json = {"type": "number", "minimum": 0}
