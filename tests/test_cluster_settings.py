"""Settings of a cluster: what each takes, and which contradict each other."""

import re
from dataclasses import replace

import pytest

from broker_app import config
from broker_app.base.settings import cluster_addresses
from broker_app.base.settings.cluster_addresses import BrokerAddress
from broker_app.config import Config
from broker_app.features.cluster.configuration import expectations
from broker_app.features.cluster.configuration.expectations import Expectation
from broker_app.journal.stores.postgres import PostgresStore

SECRET = "a secret of these three brokers"
#: what a broker of a cluster has at least
ENOUGH = {"MOM_CLUSTER_PORT": "7676", "MOM_CLUSTER_SECRET": SECRET}


def refusal(**variables: str) -> str:
    with pytest.raises(config.ConfigError) as refused:
        config.load(variables)
    return str(refused.value)


def test_a_broker_has_no_cluster_unless_it_is_told() -> None:
    assert config.load({}).cluster_port is None


def test_settings_of_a_cluster_are_read() -> None:
    read = config.load(
        ENOUGH
        | {
            "MOM_CLUSTER": "b1.example:7676, b2.example",
            "MOM_CLUSTER_HOST": "b1.example",
            "MOM_CLUSTER_KEEPER": "b2.example",
            "MOM_CLUSTER_URL": "file:/etc/mom/cluster.properties",
        }
    )
    assert (read.cluster_port, read.cluster_host) == (7676, "b1.example")
    assert (read.cluster, read.cluster_keeper) == (("b1.example:7676", "b2.example"), "b2.example")
    assert (read.cluster_transport, read.cluster_url) == ("tcp", "file:/etc/mom/cluster.properties")
    assert SECRET not in repr(read)


def test_ssl_is_another_name_of_tls() -> None:
    given = ENOUGH | {"MOM_TLS_CERT": "cert.pem", "MOM_CLUSTER_TRANSPORT": "ssl"}
    assert config.load(given).cluster_transport == "tls"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("b1.example", BrokerAddress("b1.example", 7676)),
        ("b1.example:5000", BrokerAddress("b1.example", 5000)),
        (":9876", BrokerAddress("", 9876)),
        ("[2001:db8::1]:5000", BrokerAddress("2001:db8::1", 5000)),
        ("[2001:db8::1]", BrokerAddress("2001:db8::1", 7676)),
        ("B1.Example.", BrokerAddress("b1.example", 7676)),
    ],
)
def test_an_address_of_a_broker_has_a_host_and_a_port(text: str, address: BrokerAddress) -> None:
    assert cluster_addresses.parse(text) == address


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("CLUSTER", "b1:x", "MOM_CLUSTER: 'b1:x' is no address of a broker: write HOST:PORT"),
        ("CLUSTER", "b1:70000", "MOM_CLUSTER: 'b1:70000' is no address of a broker: write HOST:PORT"),
        ("CLUSTER", "b1:0", "MOM_CLUSTER: 'b1:0' is no address of a broker: write HOST:PORT"),
        ("CLUSTER", "2001:db8::1", "is no address of a broker: write HOST:PORT"),
        ("CLUSTER", "0.0.0.0:7676,b2", "MOM_CLUSTER: '0.0.0.0:7676' is every address of a machine"),
        ("CLUSTER", "b2,127.0.0.1:7676", "MOM_CLUSTER: '127.0.0.1:7676' is another machine for each broker"),
        ("CLUSTER_KEEPER", "a b", "MOM_CLUSTER_KEEPER: 'a b' is no address of a broker"),
        ("CLUSTER_HOST", "::", "MOM_CLUSTER_HOST: '::' is every address of a machine"),
        ("CLUSTER_HOST", "b1:0", "MOM_CLUSTER_HOST: 'b1:0' is no HOST or HOST:PORT by which other brokers"),
        ("CLUSTER_TRANSPORT", "udp", "MOM_CLUSTER_TRANSPORT: 'udp' is not one of tcp, tls"),
        ("CLUSTER_TRANSPORT", "tls", "MOM_CLUSTER_TRANSPORT: tls needs a certificate: set tls_cert"),
        ("CLUSTER_URL", "ftp://b1/x", "MOM_CLUSTER_URL: 'ftp://b1/x' is not of the form"),
        ("UPDATE_CLUSTER_FILTER", "A, [B", "MOM_UPDATE_CLUSTER_FILTER: '[B' is no regular expression: "),
        ("CLUSTER_ID", "shop-1", "MOM_CLUSTER_ID: 'shop-1' is not of the form [A-Za-z0-9]{1,32}"),
        ("ROLE", "-2", "MOM_CLUSTER_PORT: a callback broker is in no cluster: leave it out"),
    ],
)
def test_an_invalid_setting_of_a_cluster_is_named(variable: str, value: str, sentence: str) -> None:
    assert sentence in refusal(**ENOUGH, **{f"MOM_{variable}": value})


def test_a_loopback_host_is_refused_unless_all_brokers_are_on_loopback() -> None:
    here = ENOUGH | {"MOM_CLUSTER_HOST": "localhost"}
    told = refusal(**here, MOM_CLUSTER="b2:7676")
    assert told.startswith("MOM_CLUSTER_HOST: 'localhost' is another machine for each")
    assert config.load(here | {"MOM_CLUSTER": ":7676,127.0.0.1:7677"}).cluster_host == "localhost"


def test_a_cluster_needs_a_secret_of_16_characters_and_the_error_shows_how_to_make_one() -> None:
    told = refusal(MOM_CLUSTER_PORT="7676")
    assert told.startswith("MOM_CLUSTER_SECRET: brokers of a cluster prove to each other that they know it")
    assert "openssl rand -base64 32" in told
    short = refusal(MOM_CLUSTER_PORT="7676", MOM_CLUSTER_SECRET="x" * 15)
    assert short.startswith("MOM_CLUSTER_SECRET: its 15 characters can be guessed")
    assert "xxx" not in short


def test_a_list_of_brokers_without_a_port_is_refused() -> None:
    told = refusal(MOM_CLUSTER="b1,b2", MOM_CLUSTER_SECRET=SECRET)
    assert told == (
        "MOM_CLUSTER_PORT: this broker has no port for the others: set it to the port that they have for "
        "this broker (7676 is usual), or to 0 for a free one"
    )


#: what a member of an enhanced cluster needs
MEMBER = ENOUGH | {"MOM_CLUSTER_ID": "shop", "MOM_JOURNAL": "redis://store", "MOM_NAME": "b1"}


@pytest.mark.parametrize("missing", ["MOM_JOURNAL", "MOM_NAME", "MOM_CLUSTER_PORT"])
def test_a_member_of_an_enhanced_cluster_is_refused_without_what_it_needs(missing: str) -> None:
    assert config.load(MEMBER).cluster_id == "shop"
    told = refusal(**{name: value for name, value in MEMBER.items() if name != missing})
    assert told.startswith("MOM_CLUSTER_ID: a member of an enhanced cluster also needs ")
    assert [name for name in (*MEMBER, "imq.cluster.clusterid") if name in told[20:]] == [missing]


def test_the_names_of_cluster_and_member_have_room_in_postgresql_for_each_later_journal() -> None:
    url = "postgresql://store/mom"
    given = MEMBER | {"MOM_JOURNAL": url, "MOM_CLUSTER_ID": "c" * 32, "MOM_NAME": "b" * 12}
    last = replace(config.load(given), journal_generation=99_999)
    PostgresStore(url, last.journal_name).release()
    told = refusal(**given | {"MOM_NAME": "b" * 13})
    assert "have 45 bytes together; with a journal in PostgreSQL they have at most 44" in told
    assert config.load(given | {"MOM_NAME": "b" * 13, "MOM_JOURNAL": "redis://store"}).cluster_id


ALONE = Config(sources={})
STORED = Config(journal="redis://store", sources={"journal": "MOM_JOURNAL"})
OF_SHOP = replace(STORED, cluster_id="shop")


@pytest.mark.parametrize(
    ("settings", "name", "value", "sentence"),
    [
        (ALONE, "imq.cluster.ha", "TRUE", "a member of an enhanced cluster also needs cluster_id, "),
        (OF_SHOP, "imq.cluster.ha", "true", ""),
        (OF_SHOP, "imq.cluster.ha", "false", "false contradicts cluster_id 'shop': leave one of them out"),
        (STORED, "imq.cluster.ha", "false", ""),
        (ALONE, "imq.persist.store", "jdbc", "the journal is to be in a store, which has no address here"),
        (STORED, "imq.persist.store", "jdbc", ""),
        (STORED, "imq.persist.store", "file", "the journal is to be in files of this broker, and journal"),
        (ALONE, "imq.persist.store", "file", ""),
        (ALONE, "imq.cluster.port", "7676", ""),
    ],
)
def test_what_a_property_orders_is_what_the_settings_do(
    settings: Config, name: str, value: str, sentence: str
) -> None:
    order = Expectation("cluster.properties:1", name, value)
    if not sentence:
        expectations.check(settings, [order])
        return
    with pytest.raises(config.ConfigError, match=re.escape(f"cluster.properties:1: {sentence}")):
        expectations.check(settings, [order])


def test_all_that_an_ordered_member_lacks_is_named_at_once() -> None:
    with pytest.raises(config.ConfigError) as refused:
        expectations.check(ALONE, [Expectation("-D", "imq.cluster.ha", "true")])
    for option in ("--cluster-id", "--journal", "--name", "--cluster-port"):
        assert option in str(refused.value)
