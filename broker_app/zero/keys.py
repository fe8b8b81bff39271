"""The table of keys: what a file may say, and what each of it means here."""

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
    """One row. `means` is the name of the setting, the kind, the setting of destinations or the only value;
    `about` says what it does, or of what is refused, what to do instead."""

    path: str
    use: str
    means: Any
    about: str
    #: values that are said here in other words than there
    spelled: Mapping[Any, Any] = MappingProxyType({})


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
        "whether everything is logged",
        _LOUD,
    ),
    Key(f"{BROKER}/maxQueueDepth", OF_ALL_QUEUES, "max_messages", "messages that a queue may hold"),
    Key(
        f"{BROKER}/persistence",
        ONE_VALUE,
        True,
        "what is sent is stored; a message that need not be says persistent:false itself",
    ),
    Key(
        f"{BROKER}/destroyCurrentMessageStore",
        ONE_VALUE,
        False,
        "no setting destroys messages at every start; to begin anew, stop the broker and take its data away",
    ),
    Key(f"{BROKER}/configFile", WATCHED_FILE, None, "an included file with nothing but connections"),
    Key(
        f"{BROKER}/sslconfig",
        REFUSED,
        None,
        f"take {MOM}/tls_cert and {MOM}/tls_key, which name files with certificate and key",
    ),
    Key(
        f"{BROKER}/minObjectStoreSize",
        REFUSED,
        None,
        "the journal grows and shrinks by itself, and there is nothing to be set",
    ),
    Key(
        f"{BROKER}/transactionLogSize",
        REFUSED,
        None,
        f"the journal is a row of files; {MOM}/segment_bytes is the length of one",
    ),
    Key(CONNECTIONS, DOCUMENTS, "bridges", "connections to remote brokers, by name"),
    Key(
        "/config/connection/destinations",
        REFUSED,
        None,
        "they belong to the application, which sends to the queue storeAndForward:BROKER/queue/QUEUE",
    ),
    Key(RULES, RULE_LIST, "rules", "authorization rules, in their order"),
    Key(DESTINATIONS, DOCUMENTS, "destinations", "settings of destinations, by address or pattern"),
    Key(f"{MOM}/users", DOCUMENTS, "users", "users, by name; passwords are given elsewhere"),
    Key(f"{MOM}/groups", DOCUMENTS, "groups", "groups of users, by name"),
    Key(f"{MOM}/brokers", DOCUMENTS, "brokers", "brokers of this installation, by name"),
    Key(f"{MOM}/alerts", DOCUMENTS, "alerts", "alert rules, by name"),
)

KEYS: Mapping[str, Key] = MappingProxyType({key.path: key for key in _TABLE})

#: kinds in the table
KINDS = tuple(key.means for key in _TABLE if key.use in (DOCUMENTS, RULE_LIST))


def split(key: str) -> Sequence[str]:
    """The names on the way to a key. An address behind `/config/mom/destinations` is one name."""
    before, found, address = key.partition(f"{DESTINATIONS}/")
    if found and not before:
        return ["config", "mom", "destinations", _address(address)]
    return key.lstrip("/").split("/")


def is_connection(key: str) -> bool:
    """Whether a key is that of one connection, as a whole."""
    before, found, name = key.partition(f"{CONNECTIONS}/")
    return bool(found) and not before and bool(name) and "/" not in name


def _address(text: str) -> str:
    return text if text.startswith("/") or text == ">" else f"/{text}"
