"""Clients of a broker in a cluster: which other brokers they may go to, and who is asked to go there."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from broker_app.base import name_filter
from broker_app.config import Config
from broker_app.core.message import Envelope
from broker_app.core.model import Subscription
from broker_app.features.cluster.client_lists import ClientLists
from broker_app.features.cluster.cluster import Cluster
from broker_app.features.cluster.rebalance_plan import plan
from broker_app.net.stomp.session import StompSession
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.node.system_publisher import SystemPublisher

log = logging.getLogger(__name__)

#: the topic of the list; clients subscribe to it after they have logged in
FAILOVER: Final = "/topic/$mom.failover"
_HEADERS: Final = b"content-type:application/json\n"
#: seconds after a broker has joined, in which all brokers learn how many clients each has
_SETTLE_S: Final = 2.0
#: clients that are asked to go elsewhere in a second
PER_SECOND: Final = 10


def list_message(content: object) -> tuple[Envelope, bytes]:
    """A message of the topic of the list."""
    return Envelope(FAILOVER, _HEADERS, persistent=False), json.dumps(content).encode()


class ClusterClients:
    """Keeps the list of brokers up to date, and moves clients to a broker that has joined."""

    def __init__(
        self, config: Config, cluster: Cluster, registry: SessionRegistry, publisher: SystemPublisher
    ) -> None:
        self._cluster = cluster
        self._registry = registry
        self._publisher = publisher
        accepted = name_filter.parse(config.update_cluster_filter)
        for glob in accepted.globs:
            log.warning(
                "update_cluster_filter: %s is no regular expression, and was taken for a wildcard that "
                "matches names which contain it; write .*A.* for that",
                glob,
            )
        if config.rebalance_cluster_clients and not _is_updating(config):
            log.warning(
                "rebalance_cluster_clients alone has no effect: set update_cluster_clients as well, so that "
                "clients are sent the addresses of other brokers"
            )
        self._updates = _is_updating(config)
        self._rebalances = config.rebalance_cluster_clients and self._updates
        self.lists = ClientLists(
            cluster.client_uris,
            accepted,
            on_remove=config.update_cluster_clients_on_remove or config.cluster_id is not None,
            published=self._publish,
        )
        #: how many clients are still to go to each broker
        self._moving: dict[str, int] = {}
        self._asked: set[StompSession] = set()
        if self._updates:
            registry.failover_uris = lambda: self.lists.uris
        cluster.listeners.add(self._on_link)

    @staticmethod
    def wanted(config: Config) -> bool:
        """Return whether clients are sent lists at all; rebalancing alone is worth a warning."""
        return _is_updating(config) or config.rebalance_cluster_clients

    def _publish(self, uris: Sequence[str]) -> None:
        self._publisher.publish([list_message(list(uris))])

    def _on_link(self, event: str, broker: str, reason: str) -> None:
        if not self._updates:
            return
        if event == "up":
            is_offered = self.lists.joined(broker, self._cluster.uris().get(broker, ()))
            if is_offered and self._rebalances:
                asyncio.get_running_loop().call_later(_SETTLE_S, partial(self._rebalance, broker))
        elif event == "down":
            self.lists.left(broker)

    def preview(self) -> dict[str, int]:
        """The number of clients that would go to each broker now."""
        counts = self._cluster.clients()
        return plan(
            len(self._registry.sessions),
            {broker: clients for broker, clients in counts.items() if self.lists.uris_of(broker)},
        )

    def _rebalance(self, joined: str) -> None:
        self._moving = self.preview()
        self._asked.clear()
        if self._moving:
            log.info(
                "clients are asked to go to other brokers, since %s has joined: %s", joined, self._moving
            )

    def each_second(self) -> None:
        """Ask some of the clients that are to go elsewhere."""
        if not self._moving:
            return
        left = PER_SECOND
        for session in list(self._registry.sessions):
            broker = next((name for name, number in self._moving.items() if number > 0), "")
            if not left or not broker:
                break
            subscription = _listens(session)
            if subscription is None or session in self._asked or not _is_free(session):
                continue
            target = _same_kind(self.lists.uris_of(broker), session.peer_name)
            if not target:
                continue
            order = {"uris": list(self.lists.uris), "rebalance": True, "to": target}
            self._publisher.deliver(subscription, [list_message(order)])
            self._asked.add(session)
            self._moving[broker] -= 1
            left -= 1
        self._moving = {broker: number for broker, number in self._moving.items() if number > 0}
        if left == PER_SECOND:
            self._moving = {}  # no client is left that can be asked


def _is_updating(config: Config) -> bool:
    """Return whether clients are sent lists: those of an enhanced cluster always are."""
    return config.update_cluster_clients or config.cluster_id is not None


def _listens(session: StompSession) -> Subscription | None:
    """The subscription of a client to the list of brokers."""
    subscriptions = session.peer.subscriptions.values()
    return next((one for one in subscriptions if one.address == FAILOVER), None)


def _is_free(session: StompSession) -> bool:
    """Return whether a client has neither a transaction nor deliveries to settle."""
    peer: Any = session.peer
    return not peer.transactions and not peer.unsettled


def _same_kind(uris: Sequence[str], peer_name: str) -> str:
    """The address of a broker for the transport of a client."""
    kinds = ("ws", "stomp") if peer_name.startswith("websocket") else ("stomp", "ws")
    return next((uri for kind in kinds for uri in uris if uri.startswith(kind)), "")
