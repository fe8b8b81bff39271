"""Clients of a broker in a cluster: which other brokers they may go to, and who is asked to go there."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from broker_app.base import name_filter
from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.message import Envelope
from broker_app.core.model import Subscription
from broker_app.features.cluster.clients.client_lists import ClientLists
from broker_app.features.cluster.clients.client_reports import (
    ClientReport,
    ListsReport,
    RebalanceReport,
    Rebalancing,
)
from broker_app.features.cluster.cluster import Cluster
from broker_app.net.stomp.session import OPENED_EVENT, StompSession
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.node.features.rebalancer import FAILOVER, Rebalancer, list_subscription
from broker_app.node.system_publisher import SystemPublisher
from broker_app.telemetry.event_log import CLUSTER, EventLog

log = logging.getLogger(__name__)

_HEADERS: Final = b"content-type:application/json\n"
#: seconds after a broker has joined, in which all brokers learn how many clients each has
_SETTLE_S: Final = 2.0
#: seconds in which a client that has logged in subscribes to the list
_SUBSCRIBES_S: Final = 30.0


def list_message(content: object) -> tuple[Envelope, bytes]:
    """A message of the topic of the list."""
    return Envelope(FAILOVER, _HEADERS, persistent=False), json.dumps(content).encode()


def is_updating(config: Config) -> bool:
    """Return whether clients are sent lists: those of an enhanced cluster always are."""
    return config.update_cluster_clients or config.cluster_id is not None


class ClusterClients:
    """Keeps the list of brokers up to date, and moves clients to a broker that has joined."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        registry: SessionRegistry,
        publisher: SystemPublisher,
        events: EventLog,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._registry = registry
        self._publisher = publisher
        accepted = name_filter.parse(config.update_cluster_filter)
        self._warnings = list(_warnings(config, accepted))
        for warning in self._warnings:
            log.warning("%s", warning)
        self._lists = ClientLists(
            cluster.client_uris,
            accepted,
            on_remove=config.update_cluster_clients_on_remove or config.cluster_id is not None,
            published=self._publish,
        )
        #: the version of the list that each client was sent last
        self._told: dict[StompSession, int] = {}
        #: those that have logged in just before a list was published, and do not listen to it yet
        self._late: dict[StompSession, None] = {}
        self._rebalancer = Rebalancer(
            config.name,
            registry.sessions,
            self._lists,
            cluster.clients,
            ask=self._ask,
            note=lambda event, detail: events.note(CLUSTER, config.name, event, detail=detail),
        )
        if is_updating(config):
            registry.failover_uris = lambda: self._lists.uris
        registry.listeners.add(self._on_session)
        cluster.listeners.add(self._on_link)

    # ------------------------------------------------------------------ reports and orders

    def lists(self) -> ListsReport:
        """The lists that clients are sent."""
        config, present = self._config, self._lists.version
        return ListsReport(
            version=present,
            updates=is_updating(config),
            updates_on_remove=config.update_cluster_clients_on_remove or config.cluster_id is not None,
            rebalances=config.rebalance_cluster_clients,
            filter=config.update_cluster_filter,
            warnings=self._warnings,
            clients=len(self._told),
            behind=sum(version < present for version in self._told.values()),
            versions=self._lists.versions,
        )

    def clients(self) -> Iterator[ClientReport]:
        """All clients, oldest first, with the list of each, and what would become of it."""
        for choice in self._rebalancer.choices():
            session = choice.session
            yield ClientReport(
                id=session.peer.connection,
                user=session.user,
                client_id=session.conversation.client_id,
                address=session.peer_name,
                list_version=self._told.get(session, 0),
                to=choice.to,
                stays=choice.stays,
            )

    def rebalancing(self) -> RebalanceReport:
        """The effect of a rebalancing now, and former ones."""
        return self._rebalancer.report()

    def rebalance(self, user: str) -> Rebalancing | None:
        """Ask this broker's surplus of clients to go to others, by an order; returns None if it has none.
        Raises Refused."""
        if not is_updating(self._config):
            raise Refused(
                "conflict",
                "clients are not sent the addresses of other brokers: set update_cluster_clients "
                "(updateClusterClients) at all brokers",
            )
        return self._rebalancer.order(f"ordered by {user}")

    # ------------------------------------------------------------------ what happens

    def _on_link(self, event: str, broker: str, reason: str) -> None:
        if not is_updating(self._config):
            return
        if event == "up":
            is_offered = self._lists.joined(broker, self._cluster.uris().get(broker, ()))
            if is_offered and self._config.rebalance_cluster_clients:
                begin = partial(self._rebalancer.begin, f"{broker} joined")
                asyncio.get_running_loop().call_later(_SETTLE_S, begin)
        elif event == "down":
            self._lists.left(broker)

    def _on_session(self, event: str, session: StompSession) -> None:
        if event == OPENED_EVENT:
            # CONNECTED, which comes next, has the list.
            self._told[session] = self._lists.version if is_updating(self._config) else 0
        else:
            self._told.pop(session, None)
            self._late.pop(session, None)
            self._rebalancer.ended(session)

    def each_second(self) -> None:
        """Ask some of the clients that are to go elsewhere, and send the list to those that missed it."""
        self._rebalancer.each_second()
        latest = time.time() - _SUBSCRIBES_S
        for session in list(self._late):
            subscription = list_subscription(session)
            if subscription is not None:
                self._publisher.deliver(subscription, [list_message(list(self._lists.uris))])
                self._told[session] = self._lists.version
            if subscription is not None or session.since_s < latest:
                del self._late[session]

    def _publish(self, uris: Sequence[str]) -> None:
        self._publisher.publish([list_message(list(uris))])
        latest = time.time() - _SUBSCRIBES_S
        for session in self._told:
            if list_subscription(session) is not None:
                self._told[session] = self._lists.version
            elif session.since_s > latest:
                self._late[session] = None

    def _ask(self, subscription: Subscription, address: str) -> None:
        order = {"uris": list(self._lists.uris), "rebalance": True, "to": address}
        self._publisher.deliver(subscription, [list_message(order)])


def _warnings(config: Config, accepted: name_filter.NameFilter) -> Iterator[str]:
    """Settings that have another effect than it seems, in sentences."""
    for glob in accepted.globs:
        yield (
            f"update_cluster_filter: {glob} is no regular expression, and was taken for a wildcard that "
            "matches names which contain it; write .*A.* for that"
        )
    if config.rebalance_cluster_clients and not is_updating(config):
        yield (
            "rebalance_cluster_clients alone has no effect: set update_cluster_clients as well, so that "
            "clients are sent the addresses of other brokers"
        )
    if config.update_cluster_clients_on_remove and not is_updating(config):
        yield (
            "update_cluster_clients_on_remove alone has no effect: set update_cluster_clients as well, so "
            "that clients are sent the addresses of other brokers"
        )
