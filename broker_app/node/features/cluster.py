"""The cluster: brokers that deliver messages to each other's consumers."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from broker_app.base.process.task_supervisor import TaskSupervisor
from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.config import Config
from broker_app.features.cluster import status as cluster_status
from broker_app.features.cluster.cluster import Cluster
from broker_app.features.cluster.configuration import settings as cluster_settings
from broker_app.features.cluster.configuration.central_reload import BrokerReload, CentralReload
from broker_app.features.cluster.message_reasons import MessageReasons, ReasonsQuestion
from broker_app.features.cluster.pages import RemotePages
from broker_app.features.cluster.record.destination_applier import Configuration
from broker_app.features.cluster.record.record_copy import RecordCopy
from broker_app.features.cluster.record.replicated_record import ReplicatedRecord
from broker_app.features.cluster.report import ClusterReport, RemovalReport, TakeoverReport
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.net.http.routing import Handlers
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.node.cluster import ClusterEndpoints
from broker_app.net.rest.node.cluster_clients import ClusterClientEndpoints
from broker_app.net.rest.node.cluster_destinations import ClusterDestinationEndpoints
from broker_app.net.rest.node.cluster_record import ClusterRecordEndpoints
from broker_app.net.server.listeners import Ports
from broker_app.net.tls.certificates import Certificates
from broker_app.node.central_settings import CentralSettings, SettingsSource
from broker_app.node.features.cluster_clients import ClusterClients
from broker_app.node.features.cluster_member import (
    client_addresses,
    client_web,
    consoles,
    make_cluster,
    make_record,
    web_of,
)
from broker_app.node.features.cluster_notices import ClusterNotices
from broker_app.node.features.enhanced_member import EnhancedMember
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.telemetry.component_health import Component, link_components
from broker_app.telemetry.metrics.families import Collected
from broker_app.telemetry.metrics.node_metrics import of_cluster

Explain = Callable[[ReasonsQuestion], Awaitable[MessageReasons]]


class Membership(NamedTuple):
    """The means to join a cluster: the listener for its other brokers, and all ports of this one."""

    listener: socket.socket
    ports: Ports
    certificates: Certificates | None
    configuration: Configuration | None
    #: of the journal that the broker has in a store of an enhanced cluster
    epoch: int | None
    #: of the process, which can be read again; of the node, and what replaces some of them
    settings: SettingsSource | None
    running: Callable[[], Config]
    use: Callable[[Mapping[str, Any]], Config]


class ClusterFeature(Feature):
    """Links this broker to the others of its cluster; None without a `membership`."""

    def __init__(self, parts: NodeParts, membership: Membership | None) -> None:
        self._parts = parts
        self._membership = membership
        self._cluster: Cluster | None = None
        self._notices: ClusterNotices | None = None
        self._clients: ClusterClients | None = None
        self._enhanced: EnhancedMember | None = None
        #: of the change record, for mirrors
        self._copy: RecordCopy | None = None
        self.destinations = ClusterDestinationEndpoints(
            parts.engine.broker, parts.statistics, lambda: self.pages(), parts.rest.limits
        )
        #: answers other brokers why a message of this one waits
        self.explain: Explain | None = None
        self._tasks = TaskSupervisor()

    # ------------------------------------------------------------------ what it is like

    def report(self, *, interest: bool = True) -> ClusterReport | None:
        """The cluster, with its consumers if that is of `interest`; None for a broker in none."""
        return self._cluster.report(interest=interest) if self._cluster is not None else None

    def status(self) -> Facts | None:
        """The links and the keeper; None for a broker in no cluster."""
        report = self.report(interest=False)
        return cluster_status.status(report) if report is not None else None

    def pages(self) -> RemotePages | None:
        """The pages of the other brokers; None for a broker in no cluster."""
        return self._cluster.pages if self._cluster is not None else None

    def record(self) -> ReplicatedRecord | None:
        """The change record; None for a broker in no cluster."""
        return self._cluster.record if self._cluster is not None else None

    def clients(self) -> ClusterClients | None:
        """The clients of this broker, and their lists; None for a broker in no cluster."""
        return self._clients

    async def take_over(self, member: str, user: str, *, force: bool) -> TakeoverReport:
        """Take over from a member of an enhanced cluster. Raises Refused."""
        return await self._member().take_over(member, user, force=force)

    async def remove(self, member: str, *, force: bool) -> RemovalReport:
        """Remove a member of an enhanced cluster. Raises Refused."""
        return await self._member().remove(member, force=force)

    def _member(self) -> EnhancedMember:
        if self._enhanced is None:
            raise Refused(
                "not-found",
                "this broker is no member of an enhanced cluster; start it with cluster_id, and a journal "
                "in a store that the members share",
            )
        return self._enhanced

    async def reload(self) -> list[BrokerReload]:
        """Read the central file again, here and at the brokers that are linked. Raises Refused."""
        cluster = self._cluster
        if cluster is None:
            raise cluster_status.no_cluster()
        if cluster.central is None:
            raise Refused(
                "conflict",
                "this broker has no central file; start it with cluster_url (imq.cluster.url), or give the "
                "order to a broker that has one",
            )
        return await cluster.central.everywhere([link for link in cluster.members.links() if link.is_up])

    def web_of(self, broker: str) -> str:
        """The address for HTTP of another broker of the cluster; empty if that is not known."""
        return web_of(self._cluster, broker) if self._cluster is not None else ""

    def consoles(self) -> list[str]:
        """The addresses of the consoles of the other brokers that are known; none for a broker in no
        cluster."""
        return consoles(self._cluster) if self._cluster is not None else []

    def uris(self) -> Sequence[str]:
        """The addresses that clients of HTTP may go to; none for a broker in no cluster."""
        if self._cluster is None:
            return ()
        schemes = [uri.partition(":")[0] for uri in self._cluster.client_uris]
        return self._parts.sessions.failover_uris("wss" if "wss" in schemes else "ws")

    def endpoints(self) -> Handlers:
        """`/cluster`, its destinations, its clients and its change record."""
        limits = self._parts.rest.limits
        return {
            **ClusterEndpoints(self.report, self.take_over, self.remove, self.reload, limits).handlers(),
            **self.destinations.handlers(),
            **ClusterClientEndpoints(self.clients, limits).handlers(),
            **ClusterRecordEndpoints(self.record, limits).handlers(),
        }

    def metrics(self) -> Collected:
        """The links to the other brokers, and the keeper."""
        status = self.status()
        return of_cluster(status) if status is not None else iter(())

    def components(self) -> Iterable[Component]:
        """The health of each link."""
        status = self.status()
        return link_components(status["links"]) if status is not None else ()

    # ------------------------------------------------------------------ its life

    async def start(self) -> None:
        """Join the cluster: the broker's own clients can be served by now."""
        if self._membership is None:
            return
        parts, membership = self._parts, self._membership
        config, sessions, state, ports = parts.config, parts.sessions, parts.state, membership.ports
        self._cluster = cluster = make_cluster(
            *(config, parts.engine, ports, membership.certificates), lambda: len(sessions.sessions)
        )
        if isinstance(parts.journal, SharedJournal):
            self._copy = RecordCopy(config.data, parts.journal)
            await self._copy.restore()
        record = make_record(
            *(config, parts.engine, cluster, ports.cluster or 0, membership.configuration, parts.events)
        )
        policy = parts.logins.policy
        await record.start(policy.version, policy.destinations.rows)
        if self._copy is not None:
            self._tasks.start("copy of the change record", self._copy.run)
        browser = parts.rest.browser
        browser.others = sessions.pages = cluster.pages
        cluster.pages.browse = browser.page
        cluster.pages.list_destinations = self.destinations.own
        cluster.pages.explain = self.explain
        cluster.calls, sessions.channels.sites.others = sessions.channels, cluster
        state.other_addresses = partial(client_addresses, cluster)
        state.other_web = partial(client_web, cluster)
        state.waiting = lambda: record.propagation.waiting
        state.listeners.add(lambda *_: cluster.set_quiesced(state.quiesced is not None))
        self._notices = ClusterNotices(parts.events, partial(cluster.report, interest=False))
        cluster.listeners.add(self._notices.link)
        self._clients = ClusterClients(config, cluster, sessions, parts.publisher, parts.events)
        if config.cluster_url is not None and membership.settings is not None:
            central = CentralSettings(
                *(membership.settings, membership.running, membership.use),
                *(self._settings_changed, parts.events),
            )
            cluster.central = CentralReload(config.name, central.reload)
        await cluster.start(membership.listener)
        if config.cluster_id is not None and membership.epoch is not None:
            self._enhanced = EnhancedMember(
                *(config, cluster, parts.rest.policy, parts.events, state, parts.engine.broker),
                clients=lambda: len(sessions.sessions),
                handlers=sessions.channels.handlers,
            )
            await self._enhanced.start(membership.epoch)

    def each_second(self) -> None:
        """Look after the links, the keeper and the list of brokers."""
        if self._cluster is not None:
            self._cluster.each_second()
        if self._notices is not None and self._parts.config.cluster_keeper:
            self._notices.check_keeper()
        if self._clients is not None:
            self._clients.each_second()
        if self._enhanced is not None:
            self._enhanced.each_second()
        if self._notices is not None and self._enhanced is not None:
            self._notices.check_members(self._enhanced.watch.report().members)

    def _settings_changed(self, config: Config) -> None:
        """Use other settings of the central file."""
        assert self._cluster is not None and self._membership is not None and self._clients is not None
        self._cluster.list_brokers(cluster_settings.others(config, self._membership.ports.cluster or 0))
        self._clients.configure(config)

    def policy_changed(self, policy: Policy) -> None:
        """Enter changed destinations into the change record."""
        record = self.record()
        if record is not None:
            record.policy_changed(policy.version, policy.destinations.rows)

    async def stop(self) -> None:
        """End the links, once the other brokers know what became of their messages here."""
        if self._cluster is None:
            return
        if self._parts.engine.ended is None:
            await self._parts.engine.wait_idle()
        if self._enhanced is not None:
            await self._enhanced.stop(lost_journal=self._parts.failed.done())
        await self._cluster.stop()
        await self._tasks.stop()
        if self._cluster.record is not None:
            await self._cluster.record.stop()
        if self._copy is not None:
            await self._copy.store()
