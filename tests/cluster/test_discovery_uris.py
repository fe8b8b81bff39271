"""Addresses of discovery as users of ActiveMQ write them."""

from __future__ import annotations

import pytest

from broker_app.base.settings.cluster_addresses import hidden
from broker_app.base.settings.discovery_uris import (
    MulticastGroup,
    MulticastSettings,
    multicast_group,
    network_connector,
)
from broker_app.config import ConfigError
from broker_app.features.cluster.configuration import settings
from tests.cluster.test_settings import member

DEFAULT = MulticastGroup("239.255.2.3", 6155)


@pytest.mark.parametrize(
    ("text", "brokers", "groups"),
    [
        ("", (), ()),
        ("static:(tcp://b2:7676,tcp://b3)", ("b2:7676", "b3"), ()),
        ("static://(nio://b2:1, tcp://[::1]:2)?maxReconnectDelay=5000", ("b2:1", "[::1]:2"), ()),
        ("multicast://default", (), (DEFAULT,)),
        ("static:(tcp://b2),multicast://default", ("b2",), (DEFAULT,)),
        ("static:(tcp://b2) static:(tcp://b3,tcp://b2)", ("b2", "b3"), ()),
    ],
)
def test_a_network_connector_names_brokers_and_groups(
    text: str, brokers: tuple[str, ...], groups: tuple[MulticastGroup, ...]
) -> None:
    found = network_connector(text)
    assert (found.brokers, found.groups) == (brokers, groups)


def test_a_group_has_an_address_a_name_and_an_interface() -> None:
    assert multicast_group("multicast://default:7000?group=plant") == MulticastGroup(
        "239.255.2.3", 7000, "plant"
    )
    found = multicast_group("multicast://239.1.2.3?networkInterface=10.0.0.1&keepAliveInterval=100")
    assert found == MulticastGroup("239.1.2.3", 6155, "default", "10.0.0.1")


@pytest.mark.parametrize(
    ("setting", "text", "fault"),
    [
        ("network_connector", "failover:(tcp://b2)", "is no address of discovery: write static:(tcp"),
        ("network_connector", "static:(tcp://b2", "the parentheses of 'static:(tcp://b2' do not match"),
        ("network_connector", "static:()", "names no broker"),
        ("network_connector", "static:tcp://b2", "has no list in parentheses"),
        ("network_connector", "static:(b2:7676)", "'b2:7676' is no address of a broker: it begins with"),
        ("network_connector", "static:(tcp://b2:99999)", "'b2:99999' is no address of a broker"),
        ("network_connector", "static:(ssl://b2)", "b2 is to be reached over TLS: set cluster_transport"),
        ("network_connector", "static:(tcp://0.0.0.0:1)", "'0.0.0.0:1' is every address of a machine"),
        ("network_connector", "static:(tcp://b2,tcp://127.0.0.1)", "'127.0.0.1' is another machine for each"),
        ("network_connector", "static:(tcp://b2)?maxReconectDelay=1", "did you mean maxReconnectDelay?"),
        ("discovery_uri", "multicast://10.0.0.1", "'10.0.0.1' is no IPv4 address of multicast"),
        ("discovery_uri", "static:(tcp://b2)", "is no address of multicast: write multicast://default"),
        ("discovery_uri", "multicast://default?networkInterface=eth0", "is the IPv4 address of a network"),
        ("discovery_uri", f"multicast://default?group={'x' * 65}", "a name of at most 64 characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_address_is_said(setting: str, text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as error:
        member(**{setting: text})
    assert f"MOM_{setting.upper()}: " in str(error.value)
    assert fault in str(error.value)


def test_discovery_needs_a_port_for_the_others() -> None:
    with pytest.raises(ConfigError, match="MOM_CLUSTER_PORT: this broker has no port for the others"):
        member(discovery_uri="multicast://default", cluster_port="")


def test_brokers_of_the_network_connector_are_those_of_the_list() -> None:
    broker = member(network_connector="static:(tcp://b2.example,tcp://b3.example:5000)", cluster="b2.example")
    assert settings.others(broker, 7676) == ("b2.example:7676", "b3.example:5000")


@pytest.mark.parametrize(
    ("values", "interface"),
    [({}, "127.0.0.1"), ({"host": "10.0.0.1"}, "10.0.0.1"), ({"cluster_host": "b1.example"}, "")],
)
def test_a_broker_is_announced_where_its_own_address_is(values: dict[str, str], interface: str) -> None:
    broker = member(discovery_uri="multicast://default", **values)
    assert settings.multicast(broker) == MulticastSettings(DEFAULT._replace(interface=interface), ())
    assert settings.multicast(member()) is None


@pytest.mark.parametrize(
    ("address", "own", "fault"),
    [
        ("10.0.0.2:7676", "10.0.0.1:7676", ""),
        ("127.0.0.1:7677", "127.0.0.1:7676", ""),
        ("127.0.0.1:7677", "", ""),
        ("127.0.0.1:7676", "10.0.0.1:7676", "127.0.0.1:7676 is another machine for each broker: set"),
        ("[::1]:7676", "b1.example:7676", "[::1]:7676 is another machine for each broker: set"),
        ("0.0.0.0:7676", "127.0.0.1:7676", "0.0.0.0:7676 is every address of a machine: set"),
    ],
)  # fmt: skip
def test_an_address_that_only_its_own_machine_can_use_is_refused(address: str, own: str, fault: str) -> None:
    found = hidden(address, own)
    assert found.startswith(fault) if fault else not found
