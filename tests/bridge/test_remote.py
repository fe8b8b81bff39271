"""The configuration of a bridge, as the node uses it."""

import dataclasses

import pytest

from broker_app.features.bridge.remote import Remote


def test_a_remote_has_defaults_and_hides_its_password() -> None:
    remote = Remote.of("oslo", {"hostname": "oslo.example", "comment": "far"}, "secret")
    assert (remote.port, remote.desired, remote.retry_s, remote.stalled_s) == (61613, "running", 5.0, 30.0)
    assert remote.password == "secret"
    assert "secret" not in repr(remote)


@pytest.mark.parametrize(
    ("protocol", "hostname", "address"),
    [
        ("stomp", "oslo", "stomp://oslo:61613"),
        ("stomps", "::1", "stomp+tls://[::1]:61613"),
        ("ws", "oslo", "ws://oslo:61613/ws"),
        ("wss", "oslo", "wss://oslo:61613/ws"),
    ],
)
def test_the_address_contains_scheme_host_and_port(protocol: str, hostname: str, address: str) -> None:
    assert Remote.of("oslo", {"hostname": hostname, "protocol": protocol}).address == address


def test_a_connection_serves_until_something_of_it_changes() -> None:
    remote = Remote.of("oslo", {"hostname": "oslo", "paused_queues": ["a"]})
    assert remote.has_same_connection(dataclasses.replace(remote, retry_s=1.0, paused_queues=frozenset()))
    for change in ({"port": 1}, {"password": "new"}, {"ca_file": "/ca.pem"}, {"path": "/stomp"}):
        assert not remote.has_same_connection(dataclasses.replace(remote, **change))
