"""Mirrors: brokers that share the journal of this one, of which one serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from broker_app.features.mirror.configuration_replicator import ConfigurationReplicator
from broker_app.features.mirror.mirror import Mirror
from broker_app.features.mirror.standby import Taken
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.node.mirror_status import FailoverList, Mirrors
from broker_app.net.rest.node.mirrors import MirrorEndpoints
from broker_app.node.features.feature import Feature, NodeParts, Task
from broker_app.node.features.mirror_notices import MirrorNotices
from broker_app.telemetry.component_health import Component, mirror_component
from broker_app.telemetry.metrics.families import Collected
from broker_app.telemetry.metrics.node_metrics import of_mirrors


class Shared(NamedTuple):
    """A journal that was taken over, this broker among those that share it, and the configuration that is
    replicated with it, if any."""

    taken: Taken
    mirror: Mirror
    replicator: ConfigurationReplicator | None


class MirrorFeature(Feature):
    """Reports to clients, to operators and to the other brokers what concerns mirrors, if the journal is
    `shared`. `cluster_uris` are the addresses of clients' brokers in a cluster, empty without one."""

    def __init__(
        self, parts: NodeParts, shared: Shared | None, cluster_uris: Callable[[], Sequence[str]]
    ) -> None:
        self._parts = parts
        self._shared = shared
        self._cluster_uris = cluster_uris
        self._notices: MirrorNotices | None = None
        if shared is not None:
            mirror = shared.mirror
            parts.sessions.failover_uris = lambda listener: mirror.failover_uris
            own = mirror.addresses.uris
            parts.state.other_addresses = lambda: [uri for uri in mirror.failover_uris if uri not in own]
            self._notices = MirrorNotices(mirror, parts.events, parts.publisher)

    @property
    def mirror(self) -> Mirror | None:
        """This broker among those that share its journal; None if it has a journal of its own."""
        return self._shared.mirror if self._shared is not None else None

    def status(self) -> Mirrors | None:
        """The status of the brokers that share the journal; None if it is not shared."""
        return self.mirror.status() if self.mirror is not None else None

    def endpoints(self) -> Handlers:
        """`/mirrors` and the list of brokers for clients."""
        alone: FailoverList = {"name": self._parts.config.name, "active": None, "uris": [], "brokers": []}
        return MirrorEndpoints(self.mirror, alone, self._cluster_uris).handlers()

    def tasks(self) -> Mapping[str, Task]:
        """The configuration, replicated with the journal."""
        if self._shared is None or self._shared.replicator is None:
            return {}
        return {"replicated configuration": self._shared.replicator.run}

    def metrics(self) -> Collected:
        """The lease, and the standbys."""
        status = self.status()
        return of_mirrors(status) if status is not None else iter(())

    def components(self) -> Iterable[Component]:
        """The health of this broker with its standbys."""
        status = self.status()
        return [mirror_component(status)] if status is not None else ()

    async def start(self) -> None:
        """Note the takeover."""
        if self._notices is not None and self._shared is not None:
            taken = self._shared.taken
            self._notices.took_over(taken.takeover, without_main=taken.without_main)

    def each_second(self) -> None:
        """Look who follows."""
        if self._notices is not None and self._shared is not None:
            self._shared.mirror.each_second()
            self._notices.each_second()
