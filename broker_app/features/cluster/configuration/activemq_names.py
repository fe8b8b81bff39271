"""Names of ActiveMQ for settings of clusters: attributes of its network and transport connectors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: the setting that each name is here
SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "networkConnector": "network_connector",
        "discoveryUri": "discovery_uri",
        "updateClusterClients": "update_cluster_clients",
        "updateClusterClientsOnRemove": "update_cluster_clients_on_remove",
        "rebalanceClusterClients": "rebalance_cluster_clients",
        "updateClusterFilter": "update_cluster_filter",
        "transportConnector": "transport_connector",
    }
)
