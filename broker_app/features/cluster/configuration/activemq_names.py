"""Names of ActiveMQ for settings of clusters: attributes of its network and transport connectors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker_app.features.cluster.configuration.foreign_name import ForeignName

_EITHER: Final = ("true", "false")
_ONE_STEP: Final = "each broker is linked to all others, so that a message takes one step to any of them"
_ONE_LINK: Final = "two brokers have one link, so that no subscription is there twice"
_SECRET: Final = "brokers prove to each other that they have cluster_secret: set that"
_ADVERTISED: Final = "set advertised_host at each broker, the name by which clients reach it"

_TABLE: Final = (
    ForeignName("networkConnector", "network_connector"),
    ForeignName("discoveryUri", "discovery_uri"),
    ForeignName("networkTTL", number=True, about=_ONE_STEP),
    ForeignName("messageTTL", number=True, about=_ONE_STEP),
    ForeignName("consumerTTL", number=True, about=_ONE_STEP),
    ForeignName(
        "duplex",
        accepted=("true",),
        about="a link carries messages both ways; for one way use a bridge (docs/bridges.md)",
    ),
    ForeignName(
        "conduitSubscriptions",
        accepted=("true",),
        about="a message crosses once for each broker, and those of a queue are shared by the credit of all "
        "consumers",
    ),
    ForeignName(
        "decreaseNetworkConsumerPriority",
        accepted=("false",),
        about="set prefer_local of the pattern /queue/>",
    ),
    ForeignName(
        "dynamicOnly",
        accepted=_EITHER,
        about="the messages of a durable subscription wait at the brokers that have stored them until it has "
        "a consumer",
    ),
    ForeignName("excludedDestinations", about="set local_only of these queues and topics"),
    ForeignName(
        "dynamicallyIncludedDestinations",
        about="all queues and topics cross to their consumers; set local_only of those that are not to",
    ),
    ForeignName(
        "staticallyIncludedDestinations",
        about="messages cross when they have consumers elsewhere; a bridge (docs/bridges.md) forwards them "
        "without any",
    ),
    ForeignName("prefetchSize", number=True, about="as many cross as the consumers there have credit for"),
    ForeignName("suppressDuplicateQueueSubscriptions", accepted=_EITHER, about=_ONE_LINK),
    ForeignName("suppressDuplicateTopicSubscriptions", accepted=_EITHER, about=_ONE_LINK),
    ForeignName(
        "bridgeTempDestinations",
        accepted=("true",),
        about="replies to temporary queues cross as other messages do; leave it out",
    ),
    ForeignName(
        "staticBridge",
        accepted=("false",),
        about="messages cross when they have consumers elsewhere; a bridge (docs/bridges.md) forwards them "
        "without any",
    ),
    ForeignName(
        "alwaysSyncSend",
        accepted=_EITHER,
        about="a message stays stored at its broker until its consumer has settled it",
    ),
    ForeignName("checkDuplicateMessagesOnDuplex", accepted=_EITHER, about="a message crosses once"),
    ForeignName(
        "autoStart",
        accepted=("true",),
        about="links are made at the start; leave the list of brokers out for none",
    ),
    ForeignName("userName", about=_SECRET),
    ForeignName("password", about=_SECRET),
    ForeignName(
        "replayWhenNoConsumers",
        accepted=("true",),
        about="a message that finds no consumer where it has crossed to goes back, and from there to another "
        "one; leave it out",
    ),
    ForeignName("replayDelay", number=True, about="it goes back at once"),
    ForeignName("transportConnector", "transport_connector"),
    ForeignName("updateClusterClients", "update_cluster_clients"),
    ForeignName("updateClusterClientsOnRemove", "update_cluster_clients_on_remove"),
    ForeignName("rebalanceClusterClients", "rebalance_cluster_clients"),
    ForeignName("updateClusterFilter", "update_cluster_filter"),
    ForeignName("publishedAddressPolicy", about=_ADVERTISED),
    ForeignName("publishedHostStrategy", about=_ADVERTISED),
    ForeignName("hostMapping", about=_ADVERTISED),
    ForeignName(
        "portMapping",
        about="clients are sent the ports of the listeners: set stomp_port and port at each broker",
    ),
    ForeignName(
        "clusterClientUriQuery",
        about="clients keep the options of their own URI: write them there, those of each address as "
        "nested.NAME",
    ),
)

#: by name
NAMES: Final[Mapping[str, ForeignName]] = MappingProxyType({row.name: row for row in _TABLE})
