"""Settings of the clients of one listener, as ActiveMQ's transport connectors have them: the lists that they
are sent, and when the frames of their transactions are confirmed.

    stomp+tls?updateClusterClients=true&updateClusterFilter=A.* stomp?transactionReceipts=frame

names two listeners; what one does not set is as in the settings of the broker. `%` encodes blanks, `&` and
`%`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from broker_app.base.settings import name_filter
from broker_app.base.suggestions import suggestion

#: the listeners for clients, by the schemes of their addresses
LISTENERS: Final = ("stomp", "stomp+tls", "ws", "wss")
#: the settings of a broker that are about the lists of its clients
SETTINGS: Final = (
    "update_cluster_clients",
    "update_cluster_clients_on_remove",
    "rebalance_cluster_clients",
    "update_cluster_filter",
    "transport_connector",
)
#: when the frames of a transaction are confirmed
AT_COMMIT, EACH_FRAME = "commit", "frame"
_BOOLEANS: Final = {"true": True, "false": False}
#: attributes with the names of their settings here, and their values
_CHOICES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "updateClusterClients": ("updates", _BOOLEANS),
    "updateClusterClientsOnRemove": ("on_remove", _BOOLEANS),
    "rebalanceClusterClients": ("rebalances", _BOOLEANS),
    "transactionReceipts": ("receipts", {one: one for one in (AT_COMMIT, EACH_FRAME)}),
}
_FILTER: Final = "updateClusterFilter"


class ListSettings(NamedTuple):
    """The settings of the lists that clients are sent: whether, whether also when a broker has left, whether
    clients are asked to go to one that has joined, and the filter of names."""

    updates: bool
    on_remove: bool
    rebalances: bool
    filter: str


def listener_of(*, websocket: bool, tls: bool) -> str:
    """The listener of a connection."""
    return ("wss" if tls else "ws") if websocket else ("stomp+tls" if tls else "stomp")


def by_listener(text: str, general: ListSettings) -> dict[str, ListSettings]:
    """The settings of the lists of each listener; those that the text does not name have the `general` ones.
    Raises ValueError."""
    named = _connectors(text)
    fields = ListSettings._fields
    return {
        listener: general._replace(
            **{name: value for name, value in named.get(listener, {}).items() if name in fields}
        )
        for listener in LISTENERS
    }


def receipts_of(text: str, listener: str) -> str | None:
    """The word for when a listener confirms frames of transactions; None if the text does not name it."""
    return _connectors(text).get(listener, {}).get("receipts")


@lru_cache(maxsize=8)
def _connectors(text: str) -> Mapping[str, Mapping[str, Any]]:
    """The settings by listener, and by their names here. Raises ValueError."""
    found: dict[str, Mapping[str, Any]] = {}
    for connector in text.split():
        listener, _, query = connector.partition("?")
        if listener not in LISTENERS:
            raise ValueError(
                f"{listener[:40]!r} is no listener for clients: use one of {', '.join(LISTENERS)}"
            )
        if listener in found:
            raise ValueError(f"{listener} is there twice: write all its attributes in one, with & between")
        found[listener] = dict(_attributes(query))
    return found


def _attributes(query: str) -> Iterator[tuple[str, Any]]:
    for pair in filter(None, query.split("&")):
        name, _, encoded = pair.partition("=")
        value = unquote(encoded)
        if name == _FILTER:
            name_filter.parse(value)
            yield "filter", value
            continue
        if name not in _CHOICES:
            near = suggestion(name, (*_CHOICES, _FILTER))
            raise ValueError(f"there is no attribute {name[:40]!r} of a transport connector{near}")
        field, values = _CHOICES[name]
        if value not in values:
            raise ValueError(f"{name} is {value[:40]!r}; it must be {' or '.join(values)}")
        yield field, values[value]


def faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The settings of lists that are invalid, each with the reason."""
    try:
        name_filter.parse(values.get("update_cluster_filter") or "")
    except ValueError as error:
        yield "update_cluster_filter", str(error)
    try:
        by_listener(values.get("transport_connector") or "", ListSettings(False, False, False, ""))
    except ValueError as error:
        yield "transport_connector", str(error)
