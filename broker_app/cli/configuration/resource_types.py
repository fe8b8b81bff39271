"""Resource types of the command line, from rules to alert rules."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from broker_app.base import durations
from broker_app.base.spec_members import SpecMember
from broker_app.cli.base.failures import USAGE, Failure
from broker_app.features.bridge import remote
from broker_app.features.callbacks.webhooks import callback
from broker_app.features.masks import mask

_seconds = durations.seconds
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Field(NamedTuple):
    """`about` describes the field; `read` converts the text after the equals sign to a JSON value."""

    about: str
    read: Callable[[str], Any] = str


class ResourceType(NamedTuple):
    """A kind as the command line shows it: `path` of the API, the columns of its list, its fields, and the
    words by which one is made."""

    noun: str
    path: str
    columns: tuple[str, ...]
    fields: Mapping[str, Field]
    about: str
    example: str = ""


def _truth(text: str) -> bool:
    return _BOOLEANS[text.lower()]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _of_member(name: str, member: SpecMember, default: object) -> Field:
    if member.choices:
        return Field(f"one of {', '.join(member.choices)}. {member.about}")
    if isinstance(default, bool):
        return Field(member.about, _truth)
    return Field(member.about, _seconds if name.endswith("_s") else int)


def _secret(field: str) -> Callable[[str], str]:
    """The reader of a secret from a file: arguments of a command can be seen by all users of the machine."""

    def read(text: str) -> str:
        if not text.startswith("@"):
            raise Failure(
                USAGE,
                f"a {field} cannot be given on the command line",
                fix=f"write {field}=@FILE, or {field}=@- for standard input",
            )
        try:
            found = sys.stdin.read() if text == "@-" else Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise Failure(
                USAGE, f"cannot read {text[1:]}: {error.strerror}", fix="name a file that you may read"
            ) from error
        return found.rstrip("\r\n")

    return read


def _object(text: str) -> Any:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


RULES = ResourceType(
    "rule",
    "/rules",
    ("name", "position", "effect", "conditions", "users", "groups", "origin"),
    {
        "conditions": Field("what has to hold, such as (/event/queue == orders) && (/event/method == POST)"),
        "effect": Field("allow, or deny"),
        "users": Field("only these users", _names),
        "groups": Field("only members of these groups", _names),
        "position": Field("position in the order of rules; the first that matches decides", int),
        "comment": Field("free text"),
    },
    "List, show, create, change and remove authorization rules. The first that matches decides.",
    "john-sends conditions='(/event/queue == orders) && (/event/method == POST)' users=john",
)
MASKS = ResourceType(
    "mask",
    "/masks",
    ("name", *(name for name in mask.MEMBERS if name != "comment"), "origin"),
    {
        name: Field(member.about, _names if isinstance(default, list) else str)
        for name, (member, default) in mask.MEMBERS.items()
    },
    "Hide values of messages from users who look at them. Who receives messages gets them whole.",
    "cards destination='/queue/orders.>' fields=/card/number headers=iban groups=fraud",
)
USERS = ResourceType(
    "user",
    "/users",
    ("name", "administrator", "monitor", "active", "groups", "email"),
    {
        "password": Field("@FILE that contains it, or @- for standard input", _secret("password")),
        "groups": Field("groups of the user", _names),
        "administrator": Field("yes: may do everything", _truth),
        "monitor": Field("yes: sees everything and changes nothing", _truth),
        "active": Field("no: may not log in", _truth),
        "email": Field("free text"),
    },
    "List, show, create, change and remove users. Passwords are read from files: password=@FILE.",
    "john groups=ops,shop password=@john.password",
)
GROUPS = ResourceType("group", "/groups", ("name",), {}, "List, create and remove groups of users.", "ops")
BROKERS = ResourceType(
    "broker",
    "/brokers",
    ("name", "environment", "colour", "endpoints", "settings", "comment"),
    {
        "environment": Field("such as production, where deletions ask for the name"),
        "colour": Field("colour of its name in the console: green, blue, violet, amber or red"),
        "endpoints": Field("addresses for clients", _names),
        "settings": Field("JSON object of settings that can change while it runs", _object),
        "comment": Field("free text"),
    },
    "List, show, create, change and remove brokers, and settings that can change while they run.",
    "mom environment=production settings='{\"credit\": 50}'",
)
BRIDGES = ResourceType(
    "bridge",
    "/bridges",
    (
        "name",
        "state",
        "error",
        "health",
        "backlog",
        "oldest_s",
        "address",
        "accepted_rate",
        "sent_rate",
        "progress_at",
        "desired",
        "flow_count",
    ),
    {
        "hostname": Field("host name of the remote broker"),
        "port": Field("port of the remote broker; default: that of the protocol", int),
        "protocol": Field(f"one of {', '.join(remote.PROTOCOLS)}"),
        "path": Field("of the WebSocket, for ws and wss"),
        "host": Field("virtual host there, usually /"),
        "user": Field("user of the bridge at the remote broker"),
        "password": Field("@FILE that contains it, or @- for standard input", _secret("password")),
        "ca_file": Field("file of certificate authorities to trust"),
        "paused_queues": Field("remote queues whose flows are paused", _names),
        **{name: _of_member(name, *member) for name, member in remote.MEMBERS.items()},
        "comment": Field("free text"),
    },
    "Configure, show and control bridges, which forward store-and-forward queues to other brokers.",
    "dc-west hostname=west.example.org protocol=stomps user=east password=@west.password",
)
CALLBACKS = ResourceType(
    "callback",
    "/callbacks",
    (
        "name",
        "source",
        "url",
        "mode",
        "health",
        "state",
        "breaker",
        "pending",
        "accepted",
        "failed",
        "accepted_at",
        "reason",
    ),
    {
        "url": Field("where messages are POSTed; it has to agree before the first one"),
        "queue": Field("queue whose messages are pushed; or a topic"),
        "topic": Field("topic, or a pattern; a durable subscription keeps its messages"),
        "selector": Field("condition on headers, such as color = 'red'"),
        "owner": Field("user with whose rights it receives; default: you"),
        "secret": Field(
            "@FILE with whsec_…, which signs requests; default: one is made and shown once", _secret("secret")
        ),
        "authorization": Field(
            "@FILE with the header of that name, or @- for standard input", _secret("authorization")
        ),
        "headers": Field("JSON object of further headers", _object),
        **{name: _of_member(name, *member) for name, member in callback.MEMBERS.items()},
        "comment": Field("free text"),
    },
    "Configure, show, test and control callbacks, which POST messages to URLs.",
    "billing queue=orders.paid url=https://billing.example.org/hook max_in_flight=10",
)
REFLEXES = ResourceType(
    "reflex",
    "/reflexes",
    ("name", "kind", "service", "event", "library", "function", "health", "state", "origin"),
    {
        "kind": Field("arrival (default), delivery, registration, deregistration, service, or channel"),
        "service": Field("queue, /topic/NAME, or pattern such as orders.>; * is everything"),
        "event": Field("pattern of the header type; * is everything"),
        "library": Field("library with the function: mom, mom-schema, or a plug-in"),
        "function": Field("name of the function"),
        "options": Field("JSON object that the function receives", _object),
        "time_limit_s": Field("seconds after which the process of the library is killed", _seconds),
        "on_failure": Field("refuse (default), or accept, when the function fails"),
        "enabled": Field("no: it is not asked", _truth),
        "position": Field("position in the order; the first that refuses ends it", int),
        "comment": Field("free text"),
    },
    "Declare and test reflexes: functions of plug-ins that decide about messages and services.",
    "slow-down service=orders library=mom function=limit_rate options='{\"rate\": 100}'",
)
ALERT_RULES = ResourceType(
    "alert rule",
    "/alerts/rules",
    ("name", "condition", "threshold", "for_s", "severity", "pattern", "enabled", "notify", "origin"),
    {
        "condition": Field("such as oldest or no-consumer; another one is refused with all that there are"),
        "threshold": Field("value from which the alert fires, in the unit of the condition", float),
        "for_s": Field("seconds the condition must hold before the alert fires", _seconds),
        "severity": Field("warning, or critical"),
        "pattern": Field("pattern of the queues, bridges or clients, such as /queue/orders.>"),
        "enabled": Field("no: the rule is not evaluated", _truth),
        "notify": Field("where alerts are sent: queue:NAME, https://…, mailto:ADDRESS", _names),
        "comment": Field("free text"),
    },
    "Configure alert rules. The built-in rules are listed once they have been changed.",
    "oldest threshold=600 notify=queue:ops,mailto:ops@example.org",
)
