"""The additional parts of a broker whose journal is shared: mirror, and carried configuration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from broker_app.config import Config
from broker_app.features.mirror.configuration_key import ConfigurationKey
from broker_app.features.mirror.configuration_replicator import ConfigurationReplicator
from broker_app.features.mirror.mirror import Mirror
from broker_app.features.mirror.replicated_configuration import ReplicatedConfiguration
from broker_app.members.addresses import addresses_of
from broker_app.net.rest.node.mirror_status import DATABASE
from broker_app.net.server.listeners import Listeners, ports_of
from broker_app.storage.factory import is_shared, make_store
from mom_site.database import file_of


@dataclass(frozen=True, slots=True)
class SharedBroker:
    """`configuration` is None if brokers share a database."""

    mirror: Mirror
    configuration: ReplicatedConfiguration | None

    @classmethod
    def of(cls, config: Config, listeners: Listeners) -> SharedBroker | None:
        """That of these settings; None if the journal is not shared. Raises ConfigError."""
        if not is_shared(config):
            return None
        make = partial(make_store, config)
        configuration = None if config.database is not None else _replicated(config)
        carried = DATABASE if configuration is None else configuration.carried
        addresses = addresses_of(config, ports_of(listeners))
        mirror = Mirror(
            *(config.name, config.role, config.lease_s, addresses, make),
            configuration=carried,
            needs_standby=config.cluster_id is None,
        )
        return cls(mirror, configuration)

    def replicator(self) -> ConfigurationReplicator | None:
        """The replicator of the configuration; None if brokers share a database."""
        return ConfigurationReplicator(self.configuration) if self.configuration is not None else None


def _replicated(config: Config) -> ReplicatedConfiguration:
    file = config.secret_key_file
    key = ConfigurationKey(file, config.name) if file is not None else None
    return ReplicatedConfiguration(make_store(config), file_of(config.data), config.secret_key_path, key)
