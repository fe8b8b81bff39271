"""The table of keys that a file may contain, and the setting or document of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

#: how a key is used
SETTING, DOCUMENTS, RULE_LIST, ONE_VALUE, OF_ALL_QUEUES, WATCHED_FILE, REFUSED = (
    "setting", "documents", "rules", "one value", "of all queues", "watched file", "refused",
)  # fmt: skip

BROKER = "/config/messaging/broker"
CONNECTIONS = "/config/connection/messaging"
DESTINATIONS = "/config/mom/destinations"
RULES = "/config/security/rules"
#: settings of the node are below this one, by their names
MOM = "/config/mom"


class Key(NamedTuple):
    """One row. `target` is the name of the setting, the kind, the setting of destinations or the only value;
    `about` describes it, or the alternative to a key that is refused."""

    path: str
    use: str
    target: Any
    about: str
    #: values in the file → values of the setting, where they differ
    converted: Mapping[Any, Any] = MappingProxyType({})


_LOUD = MappingProxyType({True: "debug", False: "info"})

_TABLE = (
    Key(f"{BROKER}/name", SETTING, "name", "name of the broker"),
    Key(f"{BROKER}/port", SETTING, "stomp_port", "port of STOMP over TCP"),
    Key(f"{BROKER}/messageStore", SETTING, "data", "directory of the broker's data"),
    Key(f"{BROKER}/maxMessageSize", SETTING, "max_body_bytes", "longest body of a message"),
    Key(f"{BROKER}/maxObjectStoreSize", SETTING, "max_store_bytes", "most bytes that are stored"),
    Key(
        f"{BROKER}/trace",
        SETTING,
        "log_level",
        "true: log everything",
        _LOUD,
    ),
    Key(f"{BROKER}/maxQueueDepth", OF_ALL_QUEUES, "max_messages", "messages that a queue may hold"),
    Key(
        f"{BROKER}/persistence",
        ONE_VALUE,
        True,
        "all messages are stored but those with the header persistent:false",
    ),
    Key(
        f"{BROKER}/destroyCurrentMessageStore",
        ONE_VALUE,
        False,
        "no setting deletes messages at every start; to start empty, stop the broker and remove its data",
    ),
    Key(f"{BROKER}/configFile", WATCHED_FILE, None, "an included file that contains only connections"),
    Key(
        f"{BROKER}/sslconfig",
        REFUSED,
        None,
        f"use {MOM}/tls_cert and {MOM}/tls_key, the files of certificate and key",
    ),
    Key(
        f"{BROKER}/minObjectStoreSize",
        REFUSED,
        None,
        "the journal grows and shrinks automatically",
    ),
    Key(
        f"{BROKER}/transactionLogSize",
        REFUSED,
        None,
        f"the journal consists of segments; {MOM}/segment_bytes is the size of one",
    ),
    Key(CONNECTIONS, DOCUMENTS, "bridges", "connections to remote brokers, by name"),
    Key(
        "/config/connection/destinations",
        REFUSED,
        None,
        "applications send to the queue storeAndForward:BROKER/queue/QUEUE instead",
    ),
    Key(RULES, RULE_LIST, "rules", "authorization rules, in their order"),
    Key(DESTINATIONS, DOCUMENTS, "destinations", "settings of destinations, by address or pattern"),
    Key(f"{MOM}/masks", DOCUMENTS, "masks", "masks of values of messages, by name"),
    Key(f"{MOM}/users", DOCUMENTS, "users", "users, by name; passwords are given elsewhere"),
    Key(f"{MOM}/groups", DOCUMENTS, "groups", "groups of users, by name"),
    Key(f"{MOM}/brokers", DOCUMENTS, "brokers", "brokers of this installation, by name"),
    Key(f"{MOM}/callbacks", DOCUMENTS, "callbacks", "webhooks, by name; their secrets are given elsewhere"),
    Key(f"{MOM}/reflexes", DOCUMENTS, "reflexes", "reflexes, by name, in their order"),
    Key(f"{MOM}/alerts", DOCUMENTS, "alerts", "alert rules, by name"),
)

KEYS: Mapping[str, Key] = MappingProxyType({key.path: key for key in _TABLE})

#: kinds in the table
KINDS = tuple(key.target for key in _TABLE if key.use in (DOCUMENTS, RULE_LIST))


def split(key: str) -> Sequence[str]:
    """The names of a key. An address after `/config/mom/destinations` is one name."""
    before, found, address = key.partition(f"{DESTINATIONS}/")
    if found and not before:
        return ["config", "mom", "destinations", _address(address)]
    return key.lstrip("/").split("/")


def is_connection(key: str) -> bool:
    """True if a key is that of one connection as a whole."""
    before, found, name = key.partition(f"{CONNECTIONS}/")
    return bool(found) and not before and bool(name) and "/" not in name


def _address(text: str) -> str:
    return text if text.startswith("/") or text == ">" else f"/{text}"
