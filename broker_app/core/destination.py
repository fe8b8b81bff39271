"""Names of destinations: what is legal, and what a name on the wire means."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from broker_app.core.errors import Refused
from broker_app.core.named import DURABLE_PREFIX

QUEUE = "queue"
TOPIC = "topic"
TEMP_QUEUE = "temp-queue"
TEMP_TOPIC = "temp-topic"

MAX_NAME = 255
DEAD_SUFFIX = ".dead"  # of the queue that takes a queue's dead letters
_PREFIXES = {f"/{kind}/": kind for kind in (QUEUE, TOPIC, TEMP_QUEUE, TEMP_TOPIC)}


class Destination(NamedTuple):
    """A parsed address: `kind` is one of the constants above, `name` the part behind the prefix."""

    kind: str
    name: str

    @property
    def address(self) -> str:
        return f"/{self.kind}/{self.name}"

    @property
    def is_queue(self) -> bool:
        return self.kind in (QUEUE, TEMP_QUEUE)


@lru_cache(maxsize=4_096)
def parse(address: str) -> Destination:
    """The destination that `address` names; raises Refused("bad-destination") saying which rule it breaks."""
    for prefix, kind in _PREFIXES.items():
        if address.startswith(prefix):
            return Destination(kind, check_name(address[len(prefix) :]))
    raise Refused(
        "bad-destination",
        f"destination {address!r} has no known prefix; use /queue/<name>, /topic/<name>, "
        "/temp-queue/<name> or /temp-topic/<name>",
    )


def check_name(name: str) -> str:
    """`name` itself when it keeps the rules of a destination name, Refused otherwise."""
    if not name:
        raise Refused("bad-destination", "the destination has no name; 1 to 255 characters are needed")
    if len(name.removesuffix(DEAD_SUFFIX)) > MAX_NAME:
        raise Refused(
            "bad-destination", f"the name has {len(name)} characters; at most {MAX_NAME} are allowed"
        )
    if name != name.strip():
        raise Refused("bad-destination", f"the name {name!r} begins or ends with white space")
    if not name.isprintable():
        raise Refused("bad-destination", f"the name {name!r} contains a control character")
    return name


def dead_letters_of(address: str) -> str:
    """The queue that takes the dead letters of a queue, or of a durable subscription."""
    if address.startswith(DURABLE_PREFIX):
        address = f"/{QUEUE}/{address.removeprefix(DURABLE_PREFIX)}"
    return address + DEAD_SUFFIX


def is_reserved(name: str) -> bool:
    """Names that only the broker itself may write to."""
    return name.startswith("$")


def has_wildcard(name: str) -> bool:
    return any(level in ("*", ">", "#") for level in name.split("."))
