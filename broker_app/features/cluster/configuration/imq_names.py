"""Names of GlassFish MQ for settings of brokers and clusters, and the setting that each is here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker_app.features.cluster.configuration.foreign_name import ForeignName

#: its value true contradicts a keeper
NO_KEEPER: Final = "imq.cluster.nomasterbroker"
#: what these order, other settings do; see `expectations`
HA: Final = "imq.cluster.ha"
STORE: Final = "imq.persist.store"


_IN_STORE: Final = "heart-beats are in the store of the journals, and need no port: leave it out"
_SET_JOURNAL: Final = "set journal (--journal, MOM_JOURNAL) to postgresql://USER:PASSWORD@HOST/NAME"
_HA: Final = "true needs cluster_id, cluster_port, journal and name; false contradicts cluster_id"
_STORE: Final = "jdbc needs journal, the address of a store; file contradicts it"
_OF_TRANSACTIONS: Final = (
    "the bytes of a transaction are limited, to a sixteenth of memory_bytes, not its messages: leave it out"
)
_NO_LIMIT: Final = MappingProxyType({"-1": "0"})

_TABLE: Final = (
    ForeignName("imq.cluster.brokerlist", "cluster"),
    ForeignName("imq.cluster.url", "cluster_url", is_central=False),
    ForeignName("imq.cluster.masterbroker", "cluster_keeper", must_be_equal=True),
    ForeignName(
        NO_KEEPER,
        accepted=("true", "false"),
        about="set imq.cluster.masterbroker, or leave it out",
    ),
    ForeignName("imq.cluster.dynamicChangeMasterBrokerEnabled", "cluster_dynamic_keeper", must_be_equal=True),
    ForeignName("imq.cluster.port", "cluster_port"),
    # Installations have it where no name was chosen.
    ForeignName("imq.cluster.hostname", "cluster_host", is_central=False, values={"localhost": ""}),
    ForeignName("imq.cluster.transport", "cluster_transport", must_be_equal=True),
    ForeignName("imq.brokerid", "name", is_central=False),
    ForeignName("imq.instancename", "name", is_central=False),
    ForeignName("imq.autocreate.queue", "auto_create_queues", must_be_equal=True),
    ForeignName(
        "imq.autocreate.topic",
        accepted=("true",),
        about="a topic is there when it is used",
    ),
    ForeignName(
        "imq.autocreate.queue.maxNumActiveConsumers",
        accepted=("-1",),
        about="set max_consumers of the pattern /queue/>",
    ),
    ForeignName(
        "imq.autocreate.queue.maxNumBackupConsumers",
        accepted=("0",),
        about="set consumer-priority at consumers",
    ),
    ForeignName(
        "imq.autocreate.destination.*",
        about="set max_messages and its neighbours for all destinations: mom queue set '>' maxNumMsgs=100000",
    ),
    ForeignName("imq.autocreate.reaptime", "queue_reap"),
    ForeignName(
        "imq.destination.DMQ.truncateBody",
        accepted=("false",),
        about="dead letters keep their bodies; max_bytes of their queue bounds them",
    ),
    ForeignName("imq.system.max_count", "max_messages", values=_NO_LIMIT),
    ForeignName("imq.system.max_size", "max_bytes", values=_NO_LIMIT),
    ForeignName("imq.message.max_size", "max_body_bytes"),
    ForeignName(
        "imq.message.expiration.interval",
        about="messages that have expired are removed all the time: leave it out",
    ),
    *(
        ForeignName(f"imq.transaction.{kind}.maxNumMsgs", about=_OF_TRANSACTIONS)
        for kind in ("producer", "consumer")
    ),
    *(
        ForeignName(f"imq.{level}.threshold", about="memory_bytes bounds what messages take: set it instead")
        for level in ("green", "yellow", "orange", "red")
    ),
    ForeignName("imq.service.activelist", about="stomp_port and stomp_tls_port choose what listens"),
    ForeignName("imq.cluster.clusterid", "cluster_id", must_be_equal=True),
    ForeignName("imq.cluster.heartbeat.interval", "cluster_heartbeat_interval", must_be_equal=True),
    ForeignName("imq.cluster.heartbeat.threshold", "cluster_heartbeat_threshold", must_be_equal=True),
    ForeignName("imq.cluster.monitor.interval", "cluster_monitor_interval", must_be_equal=True),
    ForeignName("imq.cluster.monitor.threshold", "cluster_monitor_threshold", must_be_equal=True),
    ForeignName("imq.cluster.heartbeat.port", about=_IN_STORE),
    ForeignName("imq.cluster.heartbeat.hostname", about=_IN_STORE),
    ForeignName(HA, accepted=("true", "false"), about=_HA),
    ForeignName("imq.cluster.ha.takeoverWaitTimeout", "cluster_takeover_wait"),
    ForeignName(STORE, accepted=("jdbc", "file"), about=_STORE),
    ForeignName("imq.persist.jdbc.*", about=_SET_JOURNAL),
    ForeignName(
        "imq.cluster.sharecc.persist.jdbc.*", about="all brokers keep the record of changes: leave it out"
    ),
)

#: by name
NAMES: Final[Mapping[str, ForeignName]] = MappingProxyType({row.name: row for row in _TABLE})
