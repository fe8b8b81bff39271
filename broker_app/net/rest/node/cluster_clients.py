"""Clients of this broker in its cluster over HTTP: their lists, and who goes elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Protocol

import msgspec

from broker_app.base.audit_actions import CLIENTS_REBALANCED
from broker_app.base.reply_types import Facts
from broker_app.base.times import rfc3339
from broker_app.features.cluster.clients.client_reports import (
    ClientReport,
    ListsReport,
    RebalanceReport,
    Rebalancing,
)
from broker_app.features.cluster.status import no_cluster
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers


class ClusterClients(Protocol):
    """The clients of a broker in a cluster; `node.features.cluster_clients` has it."""

    def lists(self) -> ListsReport: ...
    def clients(self) -> Iterator[ClientReport]: ...
    def rebalancing(self) -> RebalanceReport: ...
    def rebalance(self, user: str) -> Rebalancing | None:
        """Begin to move clients; returns None if that is not needed. Raises Refused."""


#: None where the broker is in no cluster
ReadClients = Callable[[], ClusterClients | None]


class RebalanceOrder(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an order; with `dry_run` only the report is wanted."""

    dry_run: bool = False


def client_listing(max_page: int) -> Listing[ClientReport]:
    """The list of clients: it is searched by all that identifies one."""
    return Listing(
        {
            **{name: attrgetter(name) for name in ClientReport.__struct_fields__},
            "list_since": lambda one: rfc3339(one.list_since) if one.list_since is not None else None,
        },
        {"moves": lambda one: not one.stays, "behind": lambda one: one.behind},
        max_page,
        matches={
            "stays": lambda one, stays: one.stays == stays,
            "list_version": lambda one, version: str(one.list_version) == version,
        },
        sortable=("id", "user", "list_version", "behind", "to", "stays"),
        searched=lambda one: f"{one.id} {one.user} {one.client_id} {one.address}",
        sort="id",
        last="id",
    )


class ClusterClientEndpoints:
    """Endpoints `cluster/clients`, `cluster/lists` and `cluster/rebalance`."""

    def __init__(self, read: ReadClients, limits: RestLimits) -> None:
        self._read = read
        self._clients = client_listing(limits.max_page)

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_cluster_clients": self.clients,
            "get_cluster_lists": self.lists,
            "get_rebalance": self.preview,
            "rebalance_clients": self.rebalance,
        }

    async def clients(self, request: Request) -> Reply:
        """GET cluster/clients: which list each client has, and what a rebalancing would do with it"""
        query = request.query(self._clients.parameters)
        found = self._find(request).clients()
        return json_reply((await self._clients.page_of_many(found, query))._asdict())

    async def lists(self, request: Request) -> Reply:
        """GET cluster/lists: the list that clients are sent, and former ones"""
        request.query()
        return json_reply(shown_lists(self._find(request).lists()))

    async def preview(self, request: Request) -> Reply:
        """GET cluster/rebalance: what a rebalancing would do now, and former ones"""
        request.query()
        return json_reply(shown_rebalance(self._find(request).rebalancing()))

    async def rebalance(self, request: Request) -> Reply:
        """POST cluster/rebalance: this broker's surplus of clients is asked to go to others"""
        request.query()
        request.require_administrator("the clients of a cluster are")
        order = await request.json(RebalanceOrder, required=False)
        clients = self._find(request)
        begun = None
        if not order.dry_run:
            begun = clients.rebalance(request.client.identity.user)
            if begun is not None:
                request.audit(CLIENTS_REBALANCED, "clients", planned=dict(begun.planned))
        report = shown_rebalance(clients.rebalancing())
        return json_reply({**report, "dry_run": order.dry_run}, 202 if begun is not None else 200)

    def _find(self, request: Request) -> ClusterClients:
        request.require_administrator("the clients of a cluster are")
        clients = self._read()
        if clients is None:
            raise no_cluster()
        return clients


def shown_lists(report: ListsReport) -> Facts:
    """The lists as plain data, with times as everywhere."""
    facts: Facts = msgspec.to_builtins(report)
    versions = [{**one, "since": rfc3339(one["since"])} for one in facts["versions"]]
    held = [{**one, "since": rfc3339(one["since"]) if one["since"] else None} for one in facts["held"]]
    return {**facts, "held": held, "versions": versions}


def shown_rebalance(report: RebalanceReport) -> Facts:
    """The preview and the history as plain data, with times as everywhere."""
    facts: Facts = msgspec.to_builtins(report)
    running = report.running
    return {
        **facts,
        "running": _shown(running) if running is not None else None,
        "history": [_shown(one) for one in report.history],
    }


def _shown(one: Rebalancing) -> Facts:
    ended = rfc3339(one.ended) if one.ended is not None else None
    facts: Facts = msgspec.to_builtins(one)
    return {**facts, "began": rfc3339(one.began), "ended": ended}
