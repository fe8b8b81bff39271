"""The cluster over HTTP, for administrators: its brokers, their links, and where consumers are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter, itemgetter
from typing import Protocol

import msgspec

from broker_app.base.audit_actions import (
    CENTRAL_FILE_RELOADED,
    MEMBER_REMOVED,
    MEMBER_TAKEN_OVER,
    AuditAction,
)
from broker_app.base.reply_types import Facts
from broker_app.core.destination import QUEUE
from broker_app.features.cluster.configuration.central_reload import BrokerReload
from broker_app.features.cluster.links.frames import ChangedSetting
from broker_app.features.cluster.report import (
    ClusterReport,
    InterestReport,
    LinkReport,
    RemovalReport,
    TakeoverReport,
)
from broker_app.features.cluster.status import (
    consumers_of,
    no_cluster,
    status,
    status_of_links,
    status_of_takeover,
)
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.node.mirrors import MAX_REASON

_OF_CONSUMERS = ("address", "broker", "selector", "consumers", "credit")
#: None where the broker is in no cluster
ReadCluster = Callable[[], ClusterReport | None]


class TakeOver(Protocol):
    """Takes over from a member, as a user has ordered. Raises Refused."""

    def __call__(self, member: str, user: str, *, force: bool) -> Awaitable[TakeoverReport]:
        """The takeover, when it is complete."""


class RemoveMember(Protocol):
    """Removes a member that is gone for good. Raises Refused."""

    def __call__(self, member: str, *, force: bool) -> Awaitable[RemovalReport]:
        """The journals that were deleted."""


class MemberOrder(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an order: the name of the member, and whether it is taken over although it may be alive, or
    removed although its messages are lost then."""

    member: str
    force: bool = False
    reason: str = ""


#: reads the central file again everywhere. Raises Refused
ReloadCluster = Callable[[], Awaitable[list[BrokerReload]]]


class ClusterEndpoints:
    """Endpoints `cluster…`."""

    def __init__(
        self,
        read: ReadCluster,
        take_over: TakeOver,
        remove: RemoveMember,
        reload: ReloadCluster,
        limits: RestLimits,
    ) -> None:
        self._read = read
        self._take_over = take_over
        self._remove = remove
        self._reload = reload
        self._links = Listing[Facts](
            {name: itemgetter(name) for name in (*LinkReport.__struct_fields__, "health", "taken_by")},
            {},
            limits.max_page,
            matches={"state": lambda link, state: bool(link["state"] == state)},
            sortable=("broker", "state", "sent", "received", "sent_rate", "received_rate"),
            sort="broker",
            last="broker",
        )
        self._consumers = Listing[InterestReport](
            {
                "id": lambda one: f"{one.address} {one.broker} {one.selector}".rstrip(),
                **{name: attrgetter(name) for name in _OF_CONSUMERS},
            },
            {},
            limits.max_page,
            on_request=("id",),
            sort="address",
            last="id",
        )

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "get_cluster": self.one,
            "list_cluster_links": self.links,
            "list_cluster_consumers": self.consumers,
            "take_over_member": self.take_over,
            "remove_member": self.remove,
            "reload_cluster": self.reload,
        }

    async def one(self, request: Request) -> Reply:
        """GET cluster: this broker, the keeper, and the links to the others"""
        request.query()
        return json_reply(status(self._report(request)))

    async def links(self, request: Request) -> Reply:
        """GET cluster/links: the other brokers, as this one sees them"""
        query = request.query(self._links.parameters)
        report = self._report(request)
        return json_reply(self._links.page(status_of_links(report), query)._asdict())

    async def consumers(self, request: Request) -> Reply:
        """GET cluster/consumers: which broker has consumers of what"""
        query = request.query((*self._consumers.parameters, "destination"))
        report = self._report(request)
        wanted = query.pop("destination", "")
        if wanted and not wanted.startswith("/"):
            wanted = f"/{QUEUE}/{wanted}"
        found = consumers_of(report, wanted) if wanted else report.interest
        return json_reply((await self._consumers.page_of_many(found, query))._asdict())

    async def take_over(self, request: Request) -> Reply:
        """POST cluster/takeover: this broker takes over from a member (imqcmd takeover bkr)"""
        order = await self._order(request, MEMBER_TAKEN_OVER)
        done = await self._take_over(order.member, request.user, force=order.force)
        return json_reply(status_of_takeover(done))

    async def remove(self, request: Request) -> Reply:
        """POST cluster/remove: a member that is gone for good is removed (imqdbmgr remove bkr)"""
        order = await self._order(request, MEMBER_REMOVED)
        return json_reply(msgspec.to_builtins(await self._remove(order.member, force=order.force)))

    async def _order(self, request: Request, action: AuditAction) -> MemberOrder:
        """The order about a member, which is in the audit log."""
        request.query()
        request.require_administrator("the cluster is")
        order = await request.json(MemberOrder)
        if len(order.reason) > MAX_REASON or not (order.reason.isprintable() or not order.reason):
            raise invalid("/reason", f"must be a line of at most {MAX_REASON} printable characters")
        self._report(request)
        facts = {"force": True} if order.force else {}
        request.audit(action, order.member[:100], reason=order.reason, **facts)
        return order

    async def reload(self, request: Request) -> Reply:
        """POST cluster/reload: the central file is read again at all brokers (imqcmd reload cls)"""
        request.query()
        report = self._report(request)
        done = await self._reload()
        not_linked = [link.broker for link in report.expected_links() if link.state != "up"]
        request.audit(CENTRAL_FILE_RELOADED, "central file", brokers=len(done))
        return json_reply({"brokers": [_reloaded(one) for one in done], "not_linked": not_linked})

    def _report(self, request: Request) -> ClusterReport:
        request.require_administrator("the cluster is")
        report = self._read()
        if report is None:
            raise no_cluster()
        return report


def _reloaded(one: BrokerReload) -> Facts:
    """The result of one broker, with the names of what it changed."""
    return {
        "broker": one.broker,
        "applied": [_changed(setting) for setting in one.applied],
        "refused": [_changed(setting) for setting in one.refused],
        "error": one.error,
    }


def _changed(setting: ChangedSetting) -> Facts:
    return {"property": setting.name, "running": setting.running, "file": setting.file}
