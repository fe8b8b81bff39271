"""The orders to a whole cluster: its central file is read again, and another broker becomes the keeper."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from broker_app.base.audit_actions import CENTRAL_FILE_RELOADED, KEEPER_CHANGED
from broker_app.base.refused import Refused
from broker_app.features.cluster.configuration.central_reload import BrokerReload
from broker_app.node.node import Node
from broker_app.web.actions import Actor, audit
from broker_app.web.actor import actor_of
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.forwarding.cluster_status import NO_NODE
from broker_app.web.policy_sync import ask, node_of

#: seconds in which all brokers have read the central file
_RELOAD_S = 40.0


class ClusterOrders(AdministratorsPage):
    """Carries out an order, and shows the page of the cluster with what came of it."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Take `order`: "reload", or "changemaster" with the name of a `broker`."""
        node = node_of(request)
        if node is None:
            messages.error(request, NO_NODE)
            return redirect("console:cluster")
        actor = actor_of(request, request.POST.get("reason", ""))
        try:
            if request.POST.get("order") == "reload":
                _reload(request, node, actor)
            else:
                _change_keeper(request, node, actor, request.POST.get("broker", ""))
        except Refused as refusal:
            messages.error(request, refusal.detail)
        return redirect("console:cluster")


def _reload(request: HttpRequest, node: Node, actor: Actor) -> None:
    done = ask(node, node.operations.reload_cluster(), within_s=_RELOAD_S)
    audit.record(actor, audit.Action.of(CENTRAL_FILE_RELOADED, "central file", brokers=len(done)))
    for one in done:
        _show(request, one)


def _show(request: HttpRequest, one: BrokerReload) -> None:
    """Show what one broker did with its central file."""
    if one.error:
        messages.error(request, f"{one.broker}: {one.error}")
    for setting in one.refused:
        facts = {"broker": one.broker, "name": setting.name, "running": setting.running, "file": setting.file}
        messages.warning(
            request,
            _("%(broker)s: %(name)s is %(running)s, and %(file)s in the central file. It needs a restart.")
            % facts,
        )
    if not (one.error or one.refused):
        names = ", ".join(setting.name for setting in one.applied)
        done = _("%(broker)s uses the central file as it is now.") % {"broker": one.broker}
        messages.success(request, f"{done} {names}".rstrip())


def _change_keeper(request: HttpRequest, node: Node, actor: Actor, broker: str) -> None:
    ask(node, node.operations.change_keeper(broker))
    audit.record(actor, audit.Action.of(KEEPER_CHANGED, "keeper", broker=broker))
    messages.success(request, _("%(broker)s is the keeper.") % {"broker": broker})
