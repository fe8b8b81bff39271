"""JSON schemas of resources in the API: their specs, and their status."""

from __future__ import annotations

from typing import Any, Final

from broker_app.base.spec_members import SpecMember
from broker_app.features.bridge import remote
from broker_app.features.callbacks.webhooks import callback
from broker_app.features.masks import mask
from broker_app.features.notifications.target import MOST_TARGETS
from broker_app.net.rest.openapi.schemas import (
    PAGING,
    SELECTOR_TEXT,
    array_of,
    object_of,
    or_null,
    whole,
    written,
)
from broker_app.reflex import declaration
from broker_app.reflex.patterns import MAX_PATTERN as MAX_REFLEX_PATTERN
from broker_app.telemetry.alerts.condition import SEVERITIES
from broker_app.telemetry.alerts.conditions import CONDITIONS
from broker_app.web.resource_types import RESOURCE_TYPES, callbacks
from broker_app.web.resource_types.alerts import MAX_PATTERN, MAX_SECONDS
from broker_app.web.resource_types.bridges import LAST_PORT, MAX_QUEUE, PORTS
from broker_app.web.resource_types.brokers import COLOURS
from broker_app.web.resource_types.tokens import MAX_GRANTS, RIGHTS

_Json = dict[str, Any]

_TEXT: _Json = {"type": "string"}
_TRUTH: _Json = {"type": "boolean"}
_TIME: _Json = {"type": "string", "format": "date-time", "description": "RFC 3339, UTC"}
_OPTIONAL_TIME: _Json = {**_TIME, "type": ["string", "null"]}
_COMMENT: _Json = {"type": "string", "maxLength": 1000}
_NAMES: _Json = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 300},
    "uniqueItems": True,
    "maxItems": 1000,
}
_PASSWORD: _Json = {"type": "string", "writeOnly": True, "maxLength": 1000}

GRANT: Final[_Json] = object_of(
    {
        "rights": {**_NAMES, "items": {"enum": list(RIGHTS)}},
        "destinations": {**_NAMES, "description": "addresses and patterns, such as /queue/orders.>"},
    }
)


def _of_member(member: SpecMember, default: Any) -> _Json:
    about: _Json = {"default": default, "description": member.about}
    if member.choices:
        return {"enum": list(member.choices), **about}
    if isinstance(default, bool):
        return {**_TRUTH, **about}
    kind = "integer" if isinstance(default, int) else "number"
    return {"type": kind, "minimum": member.least, "maximum": member.most, **about}


def _of_mask(member: mask.MaskMember, default: Any) -> _Json:
    if isinstance(default, list):
        return {**_NAMES, "maxItems": mask.MOST, "default": default, "description": member.about}
    return {**_TEXT, "maxLength": 1000, "default": default, "description": member.about}


_PORTS: Final = ", ".join(f"{name} {port}" for name, port in PORTS.items())


#: the members of the spec of each type; a request may omit those that are not in NEEDED
SPEC_FIELDS: Final[dict[str, _Json]] = {
    "rules": {
        "effect": {"enum": ["allow", "deny"], "default": "allow"},
        "conditions": {**_TEXT, "default": "", "description": "such as /event/queue == a; empty: always"},
        "users": {**_NAMES, "description": "users that it applies to; none and no groups: all"},
        "groups": _NAMES,
        "position": {
            **whole(-(2**31), 2**31 - 1),
            "description": "the first rule that matches decides; left out: behind all",
        },
        "comment": _COMMENT,
    },
    "users": {
        "administrator": {**_TRUTH, "default": False},
        "monitor": {**_TRUTH, "default": False, "description": "sees everything and changes nothing"},
        "active": {**_TRUTH, "default": True},
        "groups": {**_NAMES, "items": {"type": "string", "minLength": 1, "maxLength": 150}},
        "email": {"type": "string", "maxLength": 254},
    },
    "groups": {},
    "tokens": {
        "grants": {
            **array_of(GRANT, MAX_GRANTS),
            "type": ["array", "null"],
            "description": "permissions of the owner that it has; null: all",
        },
        "expires": _OPTIONAL_TIME,
    },
    "brokers": {
        "environment": {"type": "string", "maxLength": 40, "description": "such as production"},
        "colour": {"enum": list(COLOURS), "description": "in which pages show the environment"},
        "endpoints": {**_NAMES, "maxItems": 20, "description": "where clients reach it"},
        "settings": {
            "type": "object",
            "additionalProperties": {"type": ["number", "string"]},
            "description": "by name, in the place of those it was started with; sizes and times as numbers "
            "of bytes and seconds, or in requests as texts such as 5MB and 2s",
        },
        "comment": _COMMENT,
    },
    "bridges": {
        "hostname": {"type": "string", "minLength": 1, "maxLength": 253},
        "port": {**whole(1, LAST_PORT), "description": f"left out, by protocol: {_PORTS}"},
        "protocol": {"enum": list(PORTS), "default": "stomp"},
        "path": {"type": "string", "maxLength": 1000, "default": "/ws", "description": "of ws and wss"},
        "host": {"type": "string", "maxLength": 255, "default": "/", "description": "virtual host there"},
        "user": {"type": "string", "maxLength": 150},
        "ca_file": {
            "type": "string", "maxLength": 1000,
            "description": "authorities that sign the certificate there; empty: those of this machine",
        },
        "paused_queues": {
            **_NAMES, "items": {"type": "string", "minLength": 1, "maxLength": MAX_QUEUE},
            "description": "remote queues of single flows that are paused",
        },
        **{name: _of_member(*member) for name, member in remote.MEMBERS.items()},
        "comment": _COMMENT,
    },
    "callbacks": {
        "url": {"type": "string", "minLength": 1, "maxLength": callbacks.MAX_URL},
        "owner": {
            "type": "string", "maxLength": 150,
            "description": "the user with whose rights it receives; left out in a new one: the current user",
        },
        "queue": {"type": "string", "maxLength": 255, "description": "either this or topic"},
        "topic": {
            "type": "string", "maxLength": 255,
            "description": "a topic, or a pattern; a durable subscription belongs to the callback",
        },
        "selector": {**SELECTOR_TEXT, "default": ""},
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": callbacks.MAX_HEADER},
            "maxProperties": callbacks.MAX_HEADERS,
            "description": "further headers of requests; for credentials there is authorization",
        },
        **{name: _of_member(*member) for name, member in callback.MEMBERS.items()},
        "comment": _COMMENT,
    },
    "reflexes": {
        "kind": {"enum": list(declaration.KINDS), "default": declaration.ARRIVAL},
        "service": {
            "type": "string", "minLength": 1, "maxLength": MAX_REFLEX_PATTERN, "default": "*",
            "description": "queue, or address such as /topic/prices.>; of registrations the service's name",
        },
        "event": {
            "type": "string", "minLength": 1, "maxLength": MAX_REFLEX_PATTERN, "default": "*",
            "description": "pattern for the header type",
        },
        "library": {"type": "string", "minLength": 1, "maxLength": declaration.MAX_NAME},
        "function": {"type": "string", "minLength": 1, "maxLength": declaration.MAX_NAME},
        "options": {"type": "object", "description": "passed to the function"},
        "time_limit_s": {
            "type": "number", "default": declaration.DEFAULT_LIMIT_S,
            "minimum": declaration.LEAST_LIMIT_S, "maximum": declaration.MOST_LIMIT_S,
            "description": "after which the process of the library is killed",
        },
        "on_failure": {"enum": list(declaration.ON_FAILURE), "default": declaration.REFUSE},
        "enabled": {**_TRUTH, "default": True},
        "position": {
            **whole(-(2**31), 2**31 - 1),
            "description": "asked in this order, up to the first that refuses; left out: behind all",
        },
        "comment": _COMMENT,
    },
    "masks": {name: _of_mask(*member) for name, member in mask.MEMBERS.items()},
    "alerts": {
        "condition": {
            "enum": list(CONDITIONS),
            "description": "may be left out under the name of a rule that holds from the start",
        },
        "threshold": {
            "type": "number", "minimum": 0, "maximum": 10**12,
            "description": "the value from which the alert fires; default: that of the condition",
        },
        "for_s": {"type": "number", "minimum": 0, "maximum": MAX_SECONDS, "description": "for how long"},
        "severity": {"enum": list(SEVERITIES)},
        "pattern": {
            "type": "string", "maxLength": MAX_PATTERN, "default": "",
            "description": "of what it is about, such as /queue/orders.>; * is anything; empty: all",
        },
        "enabled": {**_TRUTH, "default": True},
        "notify": {
            **_NAMES, "maxItems": MOST_TARGETS,
            "items": {"type": "string", "minLength": 1, "maxLength": 1000},
            "description": "queue:NAME, https://…, mailto:ADDRESS; none: those of the setting alert_notify",
        },
        "comment": _COMMENT,
    },
}  # fmt: skip

#: what is written and never read, by kind
SECRETS: Final[dict[str, _Json]] = {
    "users": {"password": _PASSWORD},
    "bridges": {"password": _PASSWORD},
    "callbacks": {
        "secret": {
            **_PASSWORD,
            "description": "whsec_ and base64; left out in a new one: it is made, and shown once",
        },
        "authorization": {**_PASSWORD, "maxLength": callbacks.MAX_AUTHORIZATION},
    },
}

#: the members that are required to create a resource
NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "bridges": ("hostname",),
    "callbacks": ("url",),
    "reflexes": ("library", "function"),
    "masks": ("destination",),
}

#: status members of each type, which are read-only
FACTS: Final[dict[str, _Json]] = {
    "users": {"last_login": {**_OPTIONAL_TIME, "description": "into the console"}},
    "groups": {"members": array_of(_TEXT)},
    "tokens": {
        "id": {"type": "integer", "minimum": 1},
        "user": {**_TEXT, "description": "whose it is"},
        "prefix": {**_TEXT, "description": "how its secret begins"},
        "created": _TIME,
        "last_used": {**_OPTIONAL_TIME, "description": "to the minute"},
    },
    "callbacks": {
        "former_secret_until": {**_OPTIONAL_TIME, "description": "how long a replaced secret signs, too"},
        "has_authorization": {**_TRUTH, "description": "whether a header of that name is sent"},
    },
}
WARNINGS: Final[_Json] = {
    **array_of(_TEXT),
    "description": "probable mistakes that were taken, such as names of users that do not exist",
}
#: members of the answer to a write in addition to the resource
ANSWERED: Final[dict[str, _Json]] = {
    kind: {"warnings": WARNINGS} for kind in ("rules", "callbacks", "reflexes", "masks")
}
ENTRY: Final[_Json] = {
    "version": {
        "type": "integer",
        "minimum": 0,
        "description": "as in the ETag; 0: it is built in, and not configured",
    },
    "origin": {
        **_TEXT,
        "description": "the file and line that define it, where it must be changed; `built-in` at version 0",
    },
    "changed": _OPTIONAL_TIME,
}
_NAME: Final[_Json] = {"name": {"type": "string", "minLength": 1, "maxLength": 300}}


def _shown(kind: str) -> _Json:
    """One resource as it is read."""
    always = {**_NAME, **SPEC_FIELDS[kind], **FACTS.get(kind, {}), **ENTRY}
    return object_of({**always, **ANSWERED.get(kind, {})}, required=tuple(always))


def _put(kind: str) -> _Json:
    """One resource as it is written. What was read can be written back: status members are ignored."""
    fixed = {**FACTS.get(kind, {}), **ANSWERED.get(kind, {}), **ENTRY}
    read_only = {name: {**schema, "readOnly": True} for name, schema in fixed.items()}
    fields = {name: written(name, schema) for name, schema in SPEC_FIELDS[kind].items()}
    members = {**_NAME, **fields, **SECRETS.get(kind, {}), **read_only}
    return object_of(members, required=NEEDED.get(kind, ()))


def _patch(kind: str) -> _Json:
    """The members of a resource to change; null removes a value."""
    members = {name: written(name, or_null(schema)) for name, schema in SPEC_FIELDS[kind].items()}
    return object_of({**members, **SECRETS.get(kind, {})}, required=())


def _page(kind: str) -> _Json:
    """One page of a list; with `fields`, any member may be missing."""
    return object_of({"items": array_of({**_shown(kind), "required": []}), **PAGING})


def name_of(kind: str, form: str = "") -> str:
    """The name of a schema: "AlertRule" as it is read, "AlertRulePut", "AlertRulePatch", "AlertRulePage"."""
    return RESOURCE_TYPES[kind].one.title().replace(" ", "") + form


IMPACT: Final[_Json] = {"type": "object", "description": "of rules: what they would decide otherwise"}
CHANGE: Final[_Json] = object_of(
    {
        "kind": _TEXT,
        "name": _TEXT,
        "action": {"enum": ["created", "changed", "removed"]},
        "before": {"type": ["object", "null"]},
        "after": {"type": ["object", "null"]},
        "diff": array_of(
            object_of({"pointer": _TEXT, "before": {}, "after": {}}, required=("pointer",)),
        ),
        "secrets": {**array_of(_TEXT), "description": "names of the secrets that would be replaced"},
    }
)

_TOKEN_REQUEST = {
    **_NAME,
    "user": {**_TEXT, "description": "the owner; default: the current user"},
    **SPEC_FIELDS["tokens"],
}
_NEW_TOKEN = {
    **_shown("tokens")["properties"],
    "token": {**_TEXT, "description": "the secret; shown this once"},
}

_CALLBACK_REQUEST = {
    "name": {**_NAME["name"], "description": "left out: callback- and a number"},
    **{name: written(name, schema) for name, schema in SPEC_FIELDS["callbacks"].items()},
    **SECRETS["callbacks"],
}
_NEW_CALLBACK = {
    **_shown("callbacks")["properties"],
    "secret": {**_TEXT, "description": "that signs requests; shown this once, if it was made here"},
}

SCHEMAS: Final[_Json] = {
    "CallbackRequest": object_of(_CALLBACK_REQUEST, required=("url",)),
    "NewCallback": object_of(_NEW_CALLBACK, required=tuple(_shown("callbacks")["required"])),
    "TokenRequest": object_of(_TOKEN_REQUEST, required=("name",)),
    "NewToken": object_of(_NEW_TOKEN),
    "DryRun": object_of(
        {
            "dry_run": {"const": True},
            "version": {"type": ["integer", "null"], "description": "it would lead to; null: nothing new"},
            "changes": array_of(CHANGE),
            "warnings": WARNINGS,
            "impact": IMPACT,
        },
        required=("dry_run", "version", "changes"),
    ),
    **{
        name_of(kind, form): shape(kind)
        for kind in SPEC_FIELDS
        for form, shape in (("", _shown), ("Put", _put), ("Patch", _patch), ("Page", _page))
    },
}
