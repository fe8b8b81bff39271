"""Names of destinations: their rules, and what an address on the wire names."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from broker_app.base.refused import Refused
from broker_app.base.wildcards import has_wildcard as has_wildcard
from mom_client import storeandforward
from mom_client.storeandforward import BRIDGE_PREFIX

QUEUE = "queue"
TOPIC = "topic"
TEMP_QUEUE = "temp-queue"
TEMP_TOPIC = "temp-topic"

#: addresses of the queues of named subscriptions
DURABLE_PREFIX = "/topic-subscription/"
SHARED_PREFIX = "/shared-subscription/"

MAX_NAME = 255
DEAD_SUFFIX = storeandforward.DEAD_SUFFIX  # of dead letter queues
#: prefix of the dead letter queues of durable subscriptions; the topic filter, "/" and the name follow
_OF_SUBSCRIPTION = "$topic-subscription/"
#: the longest of these names, with each character escaped
_MAX_OF_SUBSCRIPTION = len(_OF_SUBSCRIPTION) + MAX_NAME + 1 + 3 * MAX_NAME
SYNC_QUEUE = storeandforward.SYNC_QUEUE
_FORWARDED = f"/{QUEUE}/{storeandforward.PREFIX}"
_PREFIXES = {f"/{kind}/": kind for kind in (QUEUE, TOPIC, TEMP_QUEUE, TEMP_TOPIC)}
#: characters of the longest address
MAX_ADDRESS = max(map(len, _PREFIXES)) + _MAX_OF_SUBSCRIPTION + len(DEAD_SUFFIX)


class Destination(NamedTuple):
    """A parsed address: `kind` is one of the constants above, `name` the part behind the prefix."""

    kind: str
    name: str

    @property
    def address(self) -> str:
        """The destination as it is written on the wire."""
        return f"/{self.kind}/{self.name}"

    @property
    def is_queue(self) -> bool:
        """True for queues, temporary or not."""
        return self.kind in (QUEUE, TEMP_QUEUE)


@lru_cache(maxsize=4_096)
def parse(address: str) -> Destination:
    """The destination that `address` names, a store-and-forward queue also as `storeAndForward:…` or
    `/bridge/<broker>/<queue>`. Raises Refused("bad-destination") naming the rule that it breaks."""
    for prefix, kind in _PREFIXES.items():
        if address.startswith(prefix):
            return Destination(kind, check_name(address[len(prefix) :]))
    if address.startswith((storeandforward.PREFIX, BRIDGE_PREFIX)):
        return Destination(QUEUE, check_name(_forwarded_name(address)))
    raise Refused(
        "bad-destination",
        f"destination {address!r} has no known prefix; use /queue/<name>, /topic/<name>, "
        "/temp-queue/<name> or /temp-topic/<name>",
    )


def of_name(text: str) -> Destination:
    """The destination of an address; a bare name is that of a queue. Raises Refused("bad-destination")."""
    return parse(text if text.startswith("/") else f"/{QUEUE}/{text}")


def check_name(name: str) -> str:
    """Return `name` when it follows the rules of destination names; raise Refused otherwise."""
    if not name:
        raise Refused("bad-destination", "the destination has no name; 1 to 255 characters are needed")
    most = _MAX_OF_SUBSCRIPTION if name.startswith(_OF_SUBSCRIPTION) else MAX_NAME
    if len(name.removesuffix(DEAD_SUFFIX)) > most:
        raise Refused("bad-destination", f"the name has {len(name)} characters; at most {most} are allowed")
    if name != name.strip():
        raise Refused("bad-destination", f"the name {name!r} begins or ends with white space")
    if not name.isprintable():
        raise Refused("bad-destination", f"the name {name!r} contains a control character")
    if name.startswith(storeandforward.PREFIX):
        _check_forwarded(name)
    return name


def _check_forwarded(name: str) -> None:
    try:
        found = storeandforward.parse(name)
    except ValueError as error:
        raise Refused("bad-destination", str(error)) from None
    if found is not None and found.name != name:
        raise Refused(
            "bad-destination", f"the name {name!r} has white space around an element; use {found.name!r}"
        )


def _forwarded_name(address: str) -> str:
    """The name of a store-and-forward queue whose address is written in another form."""
    try:
        if address.startswith(BRIDGE_PREFIX):
            return storeandforward.parse_bridge(address).name
        found = storeandforward.parse(address)
    except ValueError as error:
        raise Refused("bad-destination", str(error)) from None
    return address if found is None else found.name


def is_topic(address: str) -> bool:
    """Return whether an address is that of a topic, or of a filter of topics, temporary or not."""
    return address.startswith((f"/{TOPIC}/", f"/{TEMP_TOPIC}/"))


def is_forwarded(address: str) -> bool:
    """Return whether `address`, which must be valid, is a store-and-forward queue."""
    return address.startswith(_FORWARDED) and not address.endswith(DEAD_SUFFIX)


def dead_letters_of(address: str, filter: str = "") -> str:
    """The dead letter queue of a queue, or of a durable subscription to the topic `filter`.

    Clients choose the names of subscriptions. So the names of their dead letter queues are reserved for the
    broker, and contain the topic whose permissions apply, also after the subscription was deleted."""
    if address.startswith(DURABLE_PREFIX):
        name = address.removeprefix(DURABLE_PREFIX).replace("%", "%25").replace("/", "%2F")
        address = f"/{QUEUE}/{_OF_SUBSCRIPTION}{parse(filter).name}/{name}"
    return address + DEAD_SUFFIX


def topic_of_dead_letters(destination: Destination) -> Destination | None:
    """The topic of the durable subscription that a dead letter queue belongs to; None for others."""
    name = destination.name
    if destination.kind != QUEUE or not name.startswith(_OF_SUBSCRIPTION) or not name.endswith(DEAD_SUFFIX):
        return None
    return Destination(TOPIC, name.removeprefix(_OF_SUBSCRIPTION).rpartition("/")[0])


def is_reserved(name: str) -> bool:
    """Return whether only the broker itself may send to a name."""
    return name.startswith("$")


def is_system_topic(destination: Destination) -> bool:
    """Return whether it is a system topic, or a filter of system topics."""
    return destination.kind == TOPIC and is_reserved(destination.name)
