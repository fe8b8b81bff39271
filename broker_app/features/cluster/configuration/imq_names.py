"""Names of GlassFish MQ for settings of brokers and clusters, and the setting that each is here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

#: its value true contradicts a keeper
NO_KEEPER: Final = "imq.cluster.nomasterbroker"
#: what these order, other settings do; see `expectations`
HA: Final = "imq.cluster.ha"
STORE: Final = "imq.persist.store"


class ImqName(NamedTuple):
    """One row. `values` are those that are written in another way here. A property that is no setting is
    accepted with the values `accepted`, which say what happens here; `about` says what to do for others."""

    name: str
    setting: str = ""
    about: str = ""
    #: whether brokers with different values refuse each other
    must_be_equal: bool = False
    #: whether the central file may have it
    is_central: bool = True
    values: Mapping[str, str] = MappingProxyType({})
    accepted: tuple[str, ...] = ()

    def value(self, text: str) -> str:
        """The value of the setting; empty if it stays as it is. Raises ValueError."""
        if self.setting:
            return self.values.get(text, text)
        if not self.accepted:
            raise ValueError(f"{self.name} is no setting here: {self.about}")
        if text and text.lower() not in self.accepted:
            accepted = " or ".join(self.accepted)
            raise ValueError(
                f"{self.name} is always {accepted} here, and {text!r} is not possible: {self.about}"
            )
        return ""


_IN_STORE: Final = "heart-beats are in the store of the journals, and need no port: leave it out"
_SET_JOURNAL: Final = "set journal (--journal, MOM_JOURNAL) to postgresql://USER:PASSWORD@HOST/NAME"
_HA: Final = "true needs cluster_id, cluster_port, journal and name; false contradicts cluster_id"
_STORE: Final = "jdbc needs journal, the address of a store; file contradicts it"
_NO_LIMIT: Final = MappingProxyType({"-1": "0"})

_TABLE: Final = (
    ImqName("imq.cluster.brokerlist", "cluster"),
    ImqName("imq.cluster.url", "cluster_url", is_central=False),
    ImqName("imq.cluster.masterbroker", "cluster_keeper", must_be_equal=True),
    ImqName(
        NO_KEEPER,
        accepted=("true", "false"),
        about="set imq.cluster.masterbroker, or leave it out",
    ),
    ImqName("imq.cluster.dynamicChangeMasterBrokerEnabled", "cluster_dynamic_keeper", must_be_equal=True),
    ImqName("imq.cluster.port", "cluster_port"),
    # Installations have it where no name was chosen.
    ImqName("imq.cluster.hostname", "cluster_host", is_central=False, values={"localhost": ""}),
    ImqName("imq.cluster.transport", "cluster_transport", must_be_equal=True),
    ImqName("imq.brokerid", "name", is_central=False),
    ImqName("imq.instancename", "name", is_central=False),
    ImqName("imq.autocreate.queue", "auto_create_queues", must_be_equal=True),
    ImqName(
        "imq.autocreate.topic",
        accepted=("true",),
        about="a topic is there when it is used",
    ),
    ImqName(
        "imq.autocreate.queue.maxNumActiveConsumers",
        accepted=("-1",),
        about="set max_consumers of the pattern /queue/>",
    ),
    ImqName(
        "imq.autocreate.queue.maxNumBackupConsumers",
        accepted=("0",),
        about="set consumer-priority at consumers",
    ),
    ImqName("imq.autocreate.reaptime", "queue_reap"),
    ImqName("imq.system.max_count", "max_messages", values=_NO_LIMIT),
    ImqName("imq.system.max_size", "max_bytes", values=_NO_LIMIT),
    ImqName("imq.message.max_size", "max_body_bytes"),
    ImqName("imq.service.activelist", about="stomp_port and stomp_tls_port choose what listens"),
    ImqName("imq.cluster.clusterid", "cluster_id", must_be_equal=True),
    ImqName("imq.cluster.heartbeat.interval", "cluster_heartbeat_interval", must_be_equal=True),
    ImqName("imq.cluster.heartbeat.threshold", "cluster_heartbeat_threshold", must_be_equal=True),
    ImqName("imq.cluster.monitor.interval", "cluster_monitor_interval", must_be_equal=True),
    ImqName("imq.cluster.monitor.threshold", "cluster_monitor_threshold", must_be_equal=True),
    ImqName("imq.cluster.heartbeat.port", about=_IN_STORE),
    ImqName("imq.cluster.heartbeat.hostname", about=_IN_STORE),
    ImqName(HA, accepted=("true", "false"), about=_HA),
    ImqName("imq.cluster.ha.takeoverWaitTimeout", "cluster_takeover_wait"),
    ImqName(STORE, accepted=("jdbc", "file"), about=_STORE),
    ImqName("imq.persist.jdbc.*", about=_SET_JOURNAL),
    ImqName(
        "imq.cluster.sharecc.persist.jdbc.*", about="all brokers keep the record of changes: leave it out"
    ),
)

#: by name
NAMES: Final[Mapping[str, ImqName]] = MappingProxyType({row.name: row for row in _TABLE})
_PREFIXES: Final = tuple(row for row in _TABLE if row.name.endswith("*"))


def find(name: str) -> ImqName | None:
    """The row of a property; None if there is none."""
    return NAMES.get(name) or next((row for row in _PREFIXES if name.startswith(row.name[:-1])), None)
