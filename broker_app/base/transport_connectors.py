"""Settings of the lists that clients of one listener are sent, as ActiveMQ's transport connectors have them.

    stomp+tls?updateClusterClients=true&updateClusterFilter=A.* ws?updateClusterClients=false

names two listeners; what one does not set is as in the settings of the broker. `%` encodes blanks, `&` and
`%`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from broker_app.base import name_filter
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
_FLAGS: Final[Mapping[str, str]] = {
    "updateClusterClients": "updates",
    "updateClusterClientsOnRemove": "on_remove",
    "rebalanceClusterClients": "rebalances",
}
_FILTER: Final = "updateClusterFilter"
_BOOLEANS: Final = {"true": True, "false": False}


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
    """The settings of each listener; those that the text does not name have the `general` ones. Raises
    ValueError."""
    found = dict.fromkeys(LISTENERS, general)
    named: set[str] = set()
    for connector in text.split():
        listener, _, query = connector.partition("?")
        if listener not in LISTENERS:
            raise ValueError(
                f"{listener[:40]!r} is no listener for clients: use one of {', '.join(LISTENERS)}"
            )
        if listener in named:
            raise ValueError(f"{listener} is there twice: write all its attributes in one, with & between")
        named.add(listener)
        found[listener] = general._replace(**dict(_attributes(query)))
    return found


def _attributes(query: str) -> Iterator[tuple[str, Any]]:
    for pair in filter(None, query.split("&")):
        name, _, encoded = pair.partition("=")
        value = unquote(encoded)
        if name == _FILTER:
            name_filter.parse(value)
            yield "filter", value
        elif name not in _FLAGS:
            near = suggestion(name, (*_FLAGS, _FILTER))
            raise ValueError(f"there is no attribute {name[:40]!r} of a transport connector{near}")
        elif value not in _BOOLEANS:
            raise ValueError(f"{name} is {value[:40]!r}; it must be true or false")
        else:
            yield _FLAGS[name], _BOOLEANS[value]


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
