"""Options of GlassFish MQ's `imqbrokerd`, and names of ActiveMQ, are those of `mom up`."""

import pytest

from broker_app.cli.base.failures import USAGE, Failure
from broker_app.cli.broker.imq_options import translated
from tests.cli.conftest import CommandLine


def test_properties_and_the_list_of_brokers_are_settings() -> None:
    given = [
        "--port", "0", "-Dimq.brokerid=b1", "-Dimq.cluster.port=7676", "-Dimq.system.max_count=-1",
        "-Dimq.cluster.hostname=localhost", "-Dimq.autocreate.topic=true",
        "-Dimq.destination.DMQ.truncateBody=false", "-cluster", "b1,b2:5000",
    ]  # fmt: skip
    assert translated(given) == [
        "--port", "0", "--name=b1", "--cluster-port=7676", "--max-messages=0", "--cluster", "b1,b2:5000",
    ]  # fmt: skip


def test_names_of_activemq_are_settings() -> None:
    given = ["-DdiscoveryUri=multicast://default", "-DnetworkConnector=static:(tcp://b2:7676,tcp://b3)"]
    assert translated([*given, "-DupdateClusterClients=true"]) == [
        "--discovery-uri=multicast://default", "--network-connector=static:(tcp://b2:7676,tcp://b3)",
        "--update-cluster-clients=true",
    ]  # fmt: skip


def test_attributes_of_activemq_that_are_so_here_change_nothing() -> None:
    given = (
        "networkTTL=3", "messageTTL=-1", "duplex=true", "conduitSubscriptions=true", "dynamicOnly=false",
        "decreaseNetworkConsumerPriority=false", "prefetchSize=1000", "alwaysSyncSend=false",
        "autoStart=true", "suppressDuplicateQueueSubscriptions=false", "bridgeTempDestinations=true",
    )  # fmt: skip
    assert translated([f"-D{one}" for one in given]) == []


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("-DnetworkTTL=0", "networkTTL is a whole number from 1, or -1, not '0'"),
        ("-DnetworkTtl=3", "there is no property networkTtl; did you mean networkTTL?"),
        (
            "-Dduplex=false",
            "duplex is always true here, and 'false' is not possible: a link carries messages both ways; for",
        ),
        (
            "-DdecreaseNetworkConsumerPriority=true",
            "decreaseNetworkConsumerPriority is always false here, and 'true' is not possible: set prefer_l",
        ),
        ("-DdynamicOnly=1", "dynamicOnly is true or false here, and '1' is not possible: the messages of a"),
        ("-DexcludedDestinations=queue.a", "excludedDestinations is no setting here: set local_only of the"),
        ("-DpublishedAddressPolicy=x", "publishedAddressPolicy is no setting here: set advertised_host at"),
        ("-DclusterClientUriQuery=a=b", "clusterClientUriQuery is no setting here: clients keep the options"),
        ("-DdiscoveryURI=x", "there is no property discoveryURI; did you mean discoveryUri?"),
        ("-Dimq.cluster.prt=1", "there is no property imq.cluster.prt; did you mean imq.cluster.port?"),
        ("-Dimq.persist.jdbc.dbVendor=mysql", "imq.persist.jdbc.* is no setting here: set journal"),
        (
            "-Dimq.cluster.sharecc.persist.jdbc.user=mq",
            "imq.cluster.sharecc.persist.jdbc.* is no setting here: all brokers keep",
        ),
        ("-Dimq.cluster.heartbeat.port=7676", "imq.cluster.heartbeat.port is no setting here: heart-beats"),
        (
            "-Dimq.autocreate.destination.maxNumMsgs=5",
            "imq.autocreate.destination.* is no setting here: set max_messages and",
        ),
        (
            "-Dimq.message.expiration.interval=60",
            "imq.message.expiration.interval is no setting here: messages that have expired",
        ),
        (
            "-Dimq.transaction.producer.maxNumMsgs=1000",
            "imq.transaction.producer.maxNumMsgs is no setting here: the bytes of a transaction",
        ),
        (
            "-Dimq.transaction.consumer.maxNumMsgs=100",
            "imq.transaction.consumer.maxNumMsgs is no setting here: the bytes of a transaction",
        ),
        ("-Dimq.green.threshold=0", "imq.green.threshold is no setting here: memory_bytes bounds"),
        ("-Dimq.red.threshold=98", "imq.red.threshold is no setting here: memory_bytes bounds"),
        (
            "-Dimq.destination.DMQ.truncateBody=true",
            "imq.destination.DMQ.truncateBody is always false here, and 'true' is not possible: dead letters",
        ),
        ("-Dimq.service.activelist=jms", "imq.service.activelist is no setting here: stomp_port and"),
        (
            "-Dimq.autocreate.topic=false",
            "imq.autocreate.topic is always true here, and 'false' is not possible",
        ),
    ],
)
def test_a_property_that_means_nothing_is_refused(option: str, sentence: str) -> None:
    with pytest.raises(Failure) as refused:
        translated([option])
    assert refused.value.code == USAGE
    assert refused.value.what.startswith(f"{option}: {sentence}")


def test_the_reset_of_takeovers_has_a_name_of_its_own() -> None:
    assert translated(["-reset", "takeover-then-exit", "--name", "b1"]) == [
        "--reset-takeovers",
        "--name",
        "b1",
    ]
    with pytest.raises(Failure, match="-reset is possible with takeover-then-exit alone"):
        translated(["-reset", "store"])


def test_mom_up_takes_them(command_line: CommandLine) -> None:
    refused = command_line("up", "-Dimq.cluster.prt=1")
    assert (refused.code, "did you mean imq.cluster.port?" in refused.err) == (USAGE, True)


def test_an_enhanced_cluster_of_glassfish_mq_is_refused_with_what_it_lacks(command_line: CommandLine) -> None:
    ordered = ("-Dimq.cluster.ha=true", "-Dimq.persist.store=jdbc", "-Dimq.cluster.port=0")
    refused = command_line("up", *ordered, environment={"MOM_CLUSTER_SECRET": "a secret of these brokers"})
    assert refused.code == USAGE
    assert "imq.cluster.clusterid" in refused.err
    assert "imq.brokerid" in refused.err
    assert "-Dimq.persist.store=jdbc: the journal is to be in a store" in refused.err
