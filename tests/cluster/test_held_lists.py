"""How many clients have which list of brokers."""

from __future__ import annotations

from broker_app.features.cluster.clients.client_reports import ListVersion
from broker_app.features.cluster.clients.held_lists import held_lists


def a_list(version: int) -> ListVersion:
    return ListVersion(version=version, since=float(version), cause="b2 joined", uris=["stomp://b2:1"])


def test_lists_are_counted_by_listener_and_version_those_of_most_clients_first() -> None:
    old, new, own = a_list(6), a_list(7), a_list(7)
    clients = [("", new)] * 5 + [("", old)] * 2 + [("ws", own)] * 3 + [("ws", None)]
    found = held_lists(clients, {"": 7, "ws": 8})
    assert [(one.listener, one.version, one.since, one.behind, one.clients) for one in found] == [
        ("", 7, 7.0, False, 5),
        ("ws", 7, 7.0, True, 3),
        ("", 6, 6.0, True, 2),
        ("ws", 0, None, True, 1),
    ]
