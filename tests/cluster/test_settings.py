"""Addresses of the brokers of a cluster, and settings that must be equal at all of them."""

import socket

import pytest

from broker_app import config
from broker_app.config import Config, ConfigError
from broker_app.features.cluster.configuration import foreign_names, settings
from broker_app.features.cluster.configuration.foreign_name import ForeignName
from broker_app.members.addresses import addresses_of
from broker_app.net.server.listeners import Ports


def member(**values: str) -> Config:
    """A broker of a cluster with these settings."""
    given = {"cluster_port": "7676", "cluster_secret": "a secret of these brokers"} | values
    return config.load({f"MOM_{name.upper()}": value for name, value in given.items()})


@pytest.mark.parametrize(
    ("values", "address", "listens"),
    [
        ({}, "127.0.0.1:7676", "127.0.0.1"),
        ({"cluster": ":7676,127.0.0.1:7677"}, "127.0.0.1:7676", "127.0.0.1"),
        ({"cluster": "[::1]:7676,[::1]:7677"}, "[::1]:7676", "::1"),
        ({"cluster": "b1.example,b2.example", "cluster_host": "B1.example"}, "b1.example:7676", "0.0.0.0"),
        ({"cluster": "b1.example", "advertised_host": "b2.example"}, "b2.example:7676", "0.0.0.0"),
        ({"cluster": "b2.example", "host": "192.0.2.7"}, "192.0.2.7:7676", "192.0.2.7"),
        ({"cluster": ":7676", "cluster_host": "2001:db8::1"}, "[2001:db8::1]:7676", "0.0.0.0"),
        ({"cluster": ":7676", "cluster_host": "[2001:db8::1]:5001"}, "[2001:db8::1]:5001", "0.0.0.0"),
        ({"cluster": "b2.example", "cluster_host": "b1.example:5001"}, "b1.example:5001", "0.0.0.0"),
    ],
)
def test_a_broker_has_an_address_for_the_others(values: dict[str, str], address: str, listens: str) -> None:
    broker = member(**values)
    assert settings.own_address(broker, 7676) == address
    assert settings.listen_host(broker) == listens


def test_the_address_of_a_broker_is_never_that_of_all_interfaces() -> None:
    broker = member(host="0.0.0.0", cluster="b2.example")
    assert settings.own_address(broker, 7676) == f"{socket.gethostname().lower()}:7676"
    assert settings.listen_host(broker) == "0.0.0.0"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_clients_are_never_sent_the_address_of_all_interfaces(host: str) -> None:
    """AF-A04 of the specification."""
    ports = Ports(web=8000, stomp=61613, stomp_tls=61614)
    own = socket.gethostname()
    assert addresses_of(member(host=host), ports).uris == (
        f"stomp://{own}:61613", f"stomp+tls://{own}:61614", f"ws://{own}:8000/ws"
    )  # fmt: skip
    advertised = member(host=host, advertised_host="b1.example")
    assert addresses_of(advertised, ports).uris[0] == "stomp://b1.example:61613"
    for written in (host, f"[{host}]"):
        with pytest.raises(
            ConfigError, match=r"MOM_ADVERTISED_HOST: .* is every address of a machine: write"
        ):
            member(advertised_host=written)


def test_the_broker_itself_and_repeated_entries_are_left_out_of_the_list() -> None:
    broker = member(
        cluster_host="b1.example",
        cluster="b1.example,b2.example,b3.example:5000,B2.example.:7676,:7676,:9876",
    )
    assert settings.others(broker, 7676) == ("b2.example:7676", "b3.example:5000", "b1.example:9876")


def test_others_reach_a_broker_at_the_port_that_is_advertised_and_itself_is_left_out_of_the_list() -> None:
    broker = member(cluster=":5001,:5002,:7676", cluster_host="localhost:5001")
    assert settings.own_address(broker, 7676) == "127.0.0.1:5001"
    assert settings.others(broker, 7676) == ("127.0.0.1:5002",)


def test_members_of_an_enhanced_cluster_have_no_list_of_others() -> None:
    broker = member(
        name="b1",
        cluster="b2.example",
        cluster_host="b1.example",
        cluster_id="shop",
        journal="file:/journals",
    )
    assert settings.others(broker, 7676) == ()


def test_all_names_of_loopback_are_one_machine() -> None:
    broker = member(cluster="localhost,127.0.0.1:7677,localhost:7677,:7678,127.0.0.1:7676")
    assert settings.others(broker, 7676) == ("127.0.0.1:7677", "127.0.0.1:7678")


def test_the_keeper_is_one_of_the_brokers() -> None:
    broker = member(cluster="b2.example", cluster_host="b1.example", cluster_keeper="b3.example")
    assert settings.others(broker, 7676) == ("b2.example:7676", "b3.example:7676")
    assert settings.keeper_address(broker) == "b3.example:7676"
    assert settings.keeper_address(member()) == ""


def test_settings_that_must_be_equal_have_the_names_that_users_know() -> None:
    assert settings.must_be_equal(member(cluster="b1", cluster_keeper="b1")) == {
        "imq.autocreate.queue": "true",
        "imq.cluster.clusterid": "",
        "imq.cluster.dynamicChangeMasterBrokerEnabled": "false",
        "imq.cluster.masterbroker": "b1:7676",
        "imq.cluster.transport": "tcp",
    }


def test_members_of_an_enhanced_cluster_agree_in_all_that_decides_when_one_is_taken_over() -> None:
    enhanced = {"cluster_id": "shop", "journal": "file:/srv/shop", "name": "b1"}
    own, other = (settings.must_be_equal(member(**enhanced, lease_s=value)) for value in ("2", "5"))
    assert own.keys() - settings.must_be_equal(member()).keys() == {
        "imq.cluster.heartbeat.interval",
        "imq.cluster.heartbeat.threshold",
        "imq.cluster.monitor.interval",
        "imq.cluster.monitor.threshold",
        "lease_s",
    }
    found = settings.difference(own, other)
    assert found == ("lease_s", "2.0", "5.0")
    assert settings.mismatch("b1", "b2", found).detail.startswith("lease_s is '2.0' at b1 and '5.0' at b2, ")


def test_a_keeper_that_may_move_is_not_compared() -> None:
    moving = member(cluster="b1", cluster_keeper="b1", cluster_dynamic_keeper="true")
    assert "imq.cluster.masterbroker" not in settings.must_be_equal(moving)


def test_a_difference_is_named_with_both_values_and_both_brokers() -> None:
    own, other = (settings.must_be_equal(member(auto_create_queues=value)) for value in ("true", "false"))
    assert settings.difference(own, dict(own)) is None
    found = settings.difference(own, other)
    assert found == ("imq.autocreate.queue", "true", "false")
    refused = settings.mismatch("b1", "b2", found)
    assert refused.code == "cluster-mismatch"
    assert refused.detail == (
        "imq.autocreate.queue (auto_create_queues) is 'true' at b1 and 'false' at b2, and must be equal "
        "at all brokers of a cluster; set it in the central file of cluster_url, or at each broker"
    )
    assert refused.facts == {"property": "imq.autocreate.queue", "values": {"b1": "true", "b2": "false"}}


@pytest.mark.parametrize("row", foreign_names.NAMES.values(), ids=lambda row: row.name)
def test_each_name_of_another_broker_is_a_setting_or_says_what_to_do(row: ForeignName) -> None:
    if row.setting:
        assert row.setting in {setting.name for setting in config.settings()}
        assert not (row.accepted or row.number)
    else:
        assert row.about
        assert not row.must_be_equal


def test_a_property_that_only_one_broker_knows_is_a_difference() -> None:
    assert settings.difference({"a": "1"}, {"a": "1", "b": "2"}) == ("b", "", "2")
    refused = settings.mismatch("b1", "b2", ("b", "", "2"))
    assert refused.detail.startswith("b is not set at b1 and '2' at b2")
