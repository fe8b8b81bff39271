"""Clients of a broker in a cluster: which other brokers they may go to, and who is asked to go there."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from broker_app.base.refused import Refused
from broker_app.base.settings import name_filter
from broker_app.base.settings.cluster_addresses import reachable
from broker_app.base.settings.transport_connectors import ListSettings, by_listener
from broker_app.config import Config
from broker_app.core.message import Envelope
from broker_app.core.model import Subscription
from broker_app.features.cluster.clients.client_lists import ClientLists
from broker_app.features.cluster.clients.client_reports import (
    ClientReport,
    ListenerLists,
    ListPlace,
    ListsReport,
    ListVersion,
    RebalanceReport,
    Rebalancing,
)
from broker_app.features.cluster.clients.held_lists import held_lists
from broker_app.features.cluster.cluster import Cluster
from broker_app.features.cluster.report import ADOPTED_MARK
from broker_app.net.stomp.session import OPENED_EVENT, StompSession
from broker_app.net.stomp.session_registry import ClientList, SessionRegistry
from broker_app.node.features.rebalancer import ADDRESSES, Rebalancer, list_subscription
from broker_app.node.system_publisher import SystemPublisher
from broker_app.telemetry.event_log import EventLog

log = logging.getLogger(__name__)

_HEADERS: Final = b"content-type:application/json\n"
#: the name of no listener: its lists are those of listeners without settings of their own
_GENERAL: Final = ""
#: seconds after a broker has joined, in which all brokers learn how many clients each has
_SETTLE_S: Final = 2.0
#: lists in the report on how many clients have which
_MOST_HELD: Final = 50
#: seconds in which a client that has logged in subscribes to the list
_SUBSCRIBES_S: Final = 30.0


def list_message(content: object) -> tuple[Envelope, bytes]:
    """A message of the topic of the list."""
    return Envelope(ADDRESSES, _HEADERS, persistent=False), json.dumps(content).encode()


def general_settings(config: Config) -> ListSettings:
    """The settings of listeners that have none of their own: clients of an enhanced cluster are
    always sent lists."""
    is_enhanced = config.cluster_id is not None
    return ListSettings(
        updates=config.update_cluster_clients or is_enhanced,
        on_remove=config.update_cluster_clients_on_remove or is_enhanced,
        rebalances=config.rebalance_cluster_clients,
        filter=config.update_cluster_filter,
    )


def _settings(config: Config) -> dict[str, ListSettings]:
    """The settings of each listener, and the general ones."""
    general = general_settings(config)
    return {_GENERAL: general, **by_listener(config.transport_connector, general)}


class ClusterClients:
    """Keeps the lists of brokers up to date, and moves clients to a broker that has joined. Listeners with
    the same settings share a list."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        registry: SessionRegistry,
        publisher: SystemPublisher,
        events: EventLog,
    ) -> None:
        self._cluster = cluster
        self._publisher = publisher
        settings = _settings(config)
        made = {
            one: ClientLists(cluster.client_uris, one, published=self._publish)
            for one in dict.fromkeys(settings.values())
        }
        self._use({listener: made[one] for listener, one in settings.items()})
        #: the list that each client was sent last; None for none
        self._told: dict[StompSession, ListVersion | None] = {}
        #: those that have logged in just before a list was published, and do not listen to it yet
        self._late: dict[StompSession, None] = {}
        self._rebalancer = Rebalancer(
            config.name,
            registry.sessions,
            self._lists_of,
            self._is_offered,
            cluster.clients,
            ask=self._ask,
            report=lambda event, **facts: events.report(event, config.name, **facts),
        )
        registry.failover_uris = self._uris
        registry.list_of = self._list_of
        registry.listeners.add(self._on_session)
        cluster.listeners.add(self._on_link)

    def configure(self, config: Config) -> None:
        """Use other settings of the lists, and send clients those that follow from them."""
        settings = _settings(config)
        if settings == {listener: lists.settings for listener, lists in self._lists.items()}:
            return
        version = 1 + max(lists.version for lists in self._all)
        linked = self._cluster.uris()
        made: dict[ListSettings, ClientLists] = {}
        for listener, one in settings.items():
            if one not in made:
                made[one] = self._lists[listener].replaced(one, linked, version)
        self._rebalancer.stop()
        self._use({listener: made[one] for listener, one in settings.items()})
        for lists in self._all:
            if lists.settings.updates:
                self._publish(lists)

    def _use(self, lists: dict[str, ClientLists]) -> None:
        """Use these lists by listener, and warn of what is odd about them."""
        #: by listener, and without a name for those that have no settings of their own
        self._lists = lists
        self._general = lists[_GENERAL]
        self._all = list(dict.fromkeys(lists.values()))
        self._warnings = list(
            dict.fromkeys(
                warning
                for listener, one in lists.items()
                for warning in _warnings(one.settings, "" if one is self._general else f"{listener}: ")
            )
        )
        own = self._cluster.settings
        if not reachable(own.uris, own.address):
            self._warnings.append(
                f"clients of the other brokers are not sent to this one: {own.uris[0]} is this machine for "
                "each of them; set host to an address of the network, or advertised_host"
            )
        for warning in self._warnings:
            log.warning("%s", warning)

    # ------------------------------------------------------------------ reports and orders

    def lists(self) -> ListsReport:
        """The lists that clients are sent."""
        present = self._general
        settings = present.settings
        members = self._cluster.members
        known = {one.name for one in members.all() if one.name and ADOPTED_MARK not in one.name}
        linked = {link.broker.name for link in members.links() if link.broker is not None}
        held = held_lists(
            ((self._own_listener(session), told) for session, told in self._told.items()),
            {listener: lists.version for listener, lists in self._lists.items()},
        )
        return ListsReport(
            version=present.version,
            updates=settings.updates,
            updates_on_remove=settings.on_remove,
            rebalances=settings.rebalances,
            filter=settings.filter,
            warnings=self._warnings,
            clients=len(self._told),
            behind=sum(one.clients for one in held if one.behind),
            held=held[:_MOST_HELD],
            own=list(self._cluster.client_uris),
            brokers=present.places(known, linked),
            versions=present.versions,
            listeners=[
                _of_listener(listener, lists, lists.places(known, linked))
                for listener, lists in self._lists.items()
                if lists is not present
            ],
        )

    def _list_of(self, session: StompSession) -> ClientList:
        """The list that a client was sent last. It is behind if that is not the present one, or none."""
        told = self._told.get(session)
        behind = told is not self._lists_of(session).present
        return ClientList(told.version, told.since, behind) if told is not None else ClientList(behind=behind)

    def _own_listener(self, session: StompSession) -> str:
        """The listener of a client, if it has settings of its own; else empty."""
        listener = session.conversation.transport.connection_info.listener
        return listener if self._lists[listener] is not self._general else ""

    def clients(self) -> Iterator[ClientReport]:
        """All clients, oldest first, with the list of each, and what would become of it."""
        for choice in self._rebalancer.choices():
            session = choice.session
            has = self._list_of(session)
            yield ClientReport(
                id=session.peer.connection,
                user=session.user,
                client_id=session.conversation.client_id,
                address=session.peer_name,
                listener=self._own_listener(session),
                list_version=has.version,
                list_since=has.since_s,
                behind=has.behind,
                to=choice.to,
                stays=choice.stays,
            )

    def rebalancing(self) -> RebalanceReport:
        """The effect of a rebalancing now, and former ones."""
        return self._rebalancer.report()

    def rebalance(self, user: str) -> Rebalancing | None:
        """Ask this broker's surplus of clients to go to others, by an order; returns None if it has none.
        Raises Refused."""
        if not self._is_updating:
            raise Refused(
                "conflict",
                "clients are not sent the addresses of other brokers: set update_cluster_clients "
                "(updateClusterClients) at all brokers",
            )
        return self._rebalancer.order(f"ordered by {user}")

    # ------------------------------------------------------------------ what happens

    @property
    def _is_updating(self) -> bool:
        """True if clients of any listener are sent lists."""
        return any(lists.settings.updates for lists in self._all)

    def _lists_of(self, session: StompSession) -> ClientLists:
        """The list of a client, by its listener."""
        return self._lists[session.conversation.transport.connection_info.listener]

    def _uris(self, listener: str) -> Sequence[str]:
        """The list that a client of a listener is sent when it logs in."""
        lists = self._lists[listener]
        return lists.uris if lists.settings.updates else ()

    def _on_link(self, event: str, broker: str, reason: str) -> None:
        uris = self._cluster.uris().get(broker, ())
        updating = [lists for lists in self._all if lists.settings.updates]
        if event == "down":
            for lists in updating:
                lists.left(broker)
        elif event == "up":
            offering = [lists for lists in updating if lists.joined(broker, uris)]
            moving = [lists for lists in offering if lists.settings.rebalances]
            if moving:
                begin = partial(self._rebalancer.begin, f"{broker} joined", moving)
                asyncio.get_running_loop().call_later(_SETTLE_S, begin)

    def _is_offered(self, broker: str) -> bool:
        """Return whether a broker is on any list."""
        return any(lists.uris_of(broker) for lists in self._all)

    def _on_session(self, event: str, session: StompSession) -> None:
        if event == OPENED_EVENT:
            # CONNECTED, which comes next, has the list.
            lists = self._lists_of(session)
            self._told[session] = lists.present if lists.settings.updates else None
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
                lists = self._lists_of(session)
                self._publisher.deliver(subscription, [list_message(list(lists.uris))])
                self._told[session] = lists.present
            if subscription is not None or session.since_s < latest:
                del self._late[session]

    def _publish(self, lists: ClientLists) -> None:
        """Send a list to the clients that it is for: to all subscribers at once where that is all clients."""
        message = list_message(list(lists.uris))
        is_of_all = len(self._all) == 1
        if is_of_all:
            self._publisher.publish([message])
        latest = time.time() - _SUBSCRIBES_S
        for session in self._told:
            if not is_of_all and self._lists_of(session) is not lists:
                continue
            subscription = list_subscription(session)
            if subscription is not None:
                if not is_of_all:
                    self._publisher.deliver(subscription, [message])
                self._told[session] = lists.present
            elif session.since_s > latest:
                self._late[session] = None

    def _ask(self, session: StompSession, subscription: Subscription, address: str) -> None:
        order = {"uris": list(self._lists_of(session).uris), "rebalance": True, "to": address}
        self._publisher.deliver(subscription, [list_message(order)])


def _of_listener(listener: str, lists: ClientLists, brokers: list[ListPlace]) -> ListenerLists:
    settings = lists.settings
    return ListenerLists(
        listener=listener,
        version=lists.version,
        updates=settings.updates,
        updates_on_remove=settings.on_remove,
        rebalances=settings.rebalances,
        filter=settings.filter,
        uris=list(lists.uris),
        brokers=brokers,
    )


def _warnings(settings: ListSettings, where: str) -> Iterator[str]:
    """Settings that have another effect than it seems, in sentences; `where` begins each."""
    for glob in name_filter.parse(settings.filter).globs:
        yield (
            f"{where}update_cluster_filter: {glob} is no regular expression, and was taken for a wildcard "
            "that matches names which contain it; write .*A.* for that"
        )
    alone = (
        ("rebalance_cluster_clients", settings.rebalances),
        (
            "update_cluster_clients_on_remove",
            settings.on_remove,
        ),
    )
    for name, is_set in alone:
        if is_set and not settings.updates:
            yield (
                f"{where}{name} alone has no effect: set update_cluster_clients as well, so that clients are "
                "sent the addresses of other brokers"
            )
