"""What can be configured by commands: rules, users, groups, brokers, bridges, alerts; with their fields."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from broker_app.cli.failures import USAGE, Failure
from broker_app.remote import DESIRED, PROTOCOLS

_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Field(NamedTuple):
    """`about` says what it is; `read` makes what the broker takes of the text behind the equals sign."""

    about: str
    read: Callable[[str], Any] = str


class Kind(NamedTuple):
    """A kind as the command line shows it: `path` of the API, the columns of its list, its fields, and the
    words by which one is made."""

    one: str
    path: str
    columns: tuple[str, ...]
    fields: Mapping[str, Field]
    about: str
    example: str = ""


def _truth(text: str) -> bool:
    return _TRUTHS[text.lower()]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _secret(text: str) -> str:
    """What a file holds; a secret among the words of a command is seen by everybody on its machine."""
    if not text.startswith("@"):
        raise Failure(
            USAGE, "a password is not written on the command line", fix="password=@FILE, or @- for input"
        )
    try:
        found = sys.stdin.read() if text == "@-" else Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(USAGE, f"cannot read {text[1:]}: {error.strerror}") from error
    return found.rstrip("\r\n")


def _object(text: str) -> Any:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


RULES = Kind(
    "rule",
    "/rules",
    ("name", "position", "effect", "conditions", "users", "groups", "origin"),
    {
        "conditions": Field("what has to hold, such as (/event/queue == orders) && (/event/method == POST)"),
        "effect": Field("allow, or deny"),
        "users": Field("for these alone", _names),
        "groups": Field("for members of these alone", _names),
        "position": Field("its place among the rules; the first that matches decides", int),
        "comment": Field("for people"),
    },
    "List, show, make, change and remove authorization rules. The first that matches decides.",
    "john-sends conditions='(/event/queue == orders) && (/event/method == POST)' users=john",
)
USERS = Kind(
    "user",
    "/users",
    ("name", "administrator", "active", "groups", "email"),
    {
        "password": Field("@FILE in which it is, or @- for input", _secret),
        "groups": Field("of which it is a member", _names),
        "administrator": Field("yes: may do everything", _truth),
        "active": Field("no: may not log in", _truth),
        "email": Field("for people"),
    },
    "List, show, make, change and remove users. Passwords come from files: password=@FILE.",
    "john groups=ops,shop password=@john.password",
)
GROUPS = Kind("group", "/groups", ("name",), {}, "List, make and remove groups of users.", "ops")
BROKERS = Kind(
    "broker",
    "/brokers",
    ("name", "environment", "colour", "endpoints", "settings", "comment"),
    {
        "environment": Field("such as production, where removing asks for the name"),
        "colour": Field("around its name in the console: green, blue, violet, amber or red"),
        "endpoints": Field("addresses at which clients reach it", _names),
        "settings": Field("a JSON object of settings that hold while it runs", _object),
        "comment": Field("for people"),
    },
    "List, show, make, change and remove brokers, and settings that hold while they run.",
    "mom environment=production settings='{\"credit\": 50}'",
)
BRIDGES = Kind(
    "bridge",
    "/bridges",
    (
        "name",
        "address",
        "state",
        "desired",
        "flow_count",
        "backlog",
        "oldest_s",
        "sent_rate",
        "accepted_rate",
        "progress_at",
        "error",
    ),
    {
        "hostname": Field("where the remote broker is"),
        "port": Field("at which it listens; left out, that of the protocol", int),
        "protocol": Field(f"one of {', '.join(PROTOCOLS)}"),
        "path": Field("of the WebSocket, for ws and wss"),
        "host": Field("virtual host there; / is the usual one"),
        "user": Field("by which the bridge logs in there"),
        "password": Field("@FILE in which it is, or @- for input", _secret),
        "ca_file": Field("file of authorities that may have signed the certificate there"),
        "desired": Field(f"one of {', '.join(DESIRED)}; see `mom bridge pause`"),
        "paused_queues": Field("remote queues that are paused alone", _names),
        "retry_s": Field("seconds between two tries to connect", float),
        "idle_s": Field("seconds without a message after which it sleeps", float),
        "scan_s": Field("seconds between two looks for what was missed", float),
        "stalled_s": Field("seconds without an answer, while messages wait, until it connects anew", float),
        "window": Field("messages of a queue that may be on their way unanswered", int),
        "park_after": Field("refusals after which a message becomes a dead letter; 0: never", int),
        "comment": Field("for people"),
    },
    "Show and control bridges: connections that take messages of store-and-forward queues to other brokers.",
    "dc-west hostname=west.example.org protocol=stomps user=east password=@west.password",
)
ALERT_RULES = Kind(
    "alert rule",
    "/alerts/rules",
    ("name", "condition", "threshold", "for_s", "severity", "pattern", "enabled", "notify", "origin"),
    {
        "condition": Field(
            "oldest, dead-letters, no-consumer, bridge-stalled, store, flapping, configuration"
        ),
        "threshold": Field("from where on, in the unit of the condition", float),
        "for_s": Field("seconds for which it has to hold", float),
        "severity": Field("warning, or critical"),
        "pattern": Field("of the queues, bridges or clients it is about, such as /queue/orders.>"),
        "enabled": Field("no: it looks for nothing", _truth),
        "notify": Field("whom it is told to: queue:NAME, https://…, mailto:ADDRESS", _names),
        "comment": Field("for people"),
    },
    "What is said of alert rules. Those that hold from the start are listed once something is said of them.",
    "oldest threshold=600 notify=queue:ops,mailto:ops@example.org",
)
