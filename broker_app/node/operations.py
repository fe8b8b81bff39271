"""The operations of a node for the console and the control plane: the status of its parts, and orders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core.commands import DeleteQueue
from broker_app.engine.client import EngineClient
from broker_app.features.bridge.connection_test import BridgeTrial
from broker_app.features.bridge.remote import Remote
from broker_app.features.callbacks.webhooks.report import CallbackTest, Push
from broker_app.features.channels.report import ChannelReport
from broker_app.features.cluster.clients.client_reports import ListsReport, RebalanceReport, Rebalancing
from broker_app.features.cluster.configuration.central_reload import BrokerReload
from broker_app.features.cluster.report import ClusterReport
from broker_app.features.cluster.status import no_cluster
from broker_app.features.notifications.target_tests import TargetTest
from broker_app.net.http.listing import ListingPage
from broker_app.net.policy.access import Access
from broker_app.net.rest.features.bridge_status import (
    BridgeEvent,
    BridgeStatus,
    ForwardingStatus,
)
from broker_app.net.rest.features.callback_status import CallbackStatus
from broker_app.net.rest.features.reflex_trials import StoredTrialRequest
from broker_app.net.rest.journal.cursor_status import Cursors
from broker_app.net.rest.node.alerts import AlertEndpoints
from broker_app.net.rest.node.cluster_clients import client_listing
from broker_app.net.rest.node.mirror_status import Mirrors
from broker_app.node.features.features import Features
from broker_app.reflex.report import ReflexStatusList, ReflexTrial
from broker_app.reflex.stored_trials import StoredTrial
from broker_app.rules.event import REST

#: rows of a page of clients of a cluster
_MOST_CLIENTS: Final = 500
_CLIENTS: Final = client_listing(_MOST_CLIENTS)
#: seconds for past takeovers to be read from the journal
_READ_S = 2.0


class Operations:
    """Its coroutines run on the loop of the node; Django asks from the threads of requests."""

    def __init__(
        self, client: EngineClient, features: Features, alerts: AlertEndpoints, access: Access
    ) -> None:
        self._access = access
        self._client = client
        self._features = features
        self._alerts = alerts

    async def list_bridges(self) -> ForwardingStatus:
        """The status of all bridges, for administrators."""
        return self._features.bridges.rest_endpoints.whole()

    async def find_bridge(self, name: str) -> tuple[BridgeStatus, list[BridgeEvent]] | None:
        """The status of a bridge and its events, for administrators."""
        return self._features.bridges.rest_endpoints.one(name)

    async def retry_bridge(self, name: str, queue: str | None) -> bool:
        """Have a bridge, or one of its flows, try again now. Returns False if there is none."""
        return self._features.bridges.rest_endpoints.try_again(name, queue)

    async def test_remote(self, remote: Remote, queue: str | None) -> BridgeTrial:
        """Test a connection that need not be configured yet. Raises Refused."""
        return await self._features.bridges.rest_endpoints.try_remote(remote, queue)

    async def list_cursors(self) -> Cursors:
        """The cursors of the journal's readers, and the positions that are stored."""
        return await self._features.journal.cursors.all()

    async def list_callbacks(self) -> list[CallbackStatus]:
        """The status of all callbacks, for administrators."""
        return self._features.callbacks.rest_endpoints.whole()

    async def find_callback(self, name: str) -> tuple[CallbackStatus, list[Push]] | None:
        """The status of a callback and its pushes, for administrators."""
        return self._features.callbacks.rest_endpoints.one(name)

    async def push_callback(self, name: str) -> bool:
        """Have a callback push again now. Returns False if there is none."""
        return self._features.callbacks.supervisor.push_now(name)

    async def test_callback(self, name: str) -> CallbackTest:
        """Send a sample to a callback; its request and the answer. Raises Refused."""
        return await self._features.callbacks.rest_endpoints.try_out(name)

    async def test_notification(self, targets: Sequence[str], user: str) -> list[TargetTest]:
        """Send a test of notifications to targets, without any to those of all rules, and return what each
        answers. Raises Refused, and ValueError if one is invalid."""
        return await self._alerts.try_targets(targets, user)

    async def list_reflexes(self, address: str | None = None) -> ReflexStatusList:
        """The reflexes in their order (of an `address`: those that see its messages), and the libraries that
        run in processes."""
        reflexes = self._features.reflexes.reflexes
        items = reflexes.report() if address is None else reflexes.of_address(address)
        return {"items": items, "libraries": reflexes.libraries()}

    async def test_reflexes(
        self, kind: str, address: str, headers: Mapping[str, str], body: bytes, user: str
    ) -> ReflexTrial:
        """Ask the reflexes of a kind about a message, which is not published. Raises Refused."""
        return await self._features.reflexes.reflexes.trial(kind, address, headers, body, user)

    async def test_reflexes_with_stored(self, asked: StoredTrialRequest, user: str) -> StoredTrial:
        """Ask reflexes about stored messages that a user may read; nothing is changed. Raises Refused."""
        client = self._access.owner(user, REST)
        if client is None:
            raise Refused("not-allowed", f"{user} may not log in")
        return await self._features.reflexes.trials.of(client, asked)

    async def restart_library(self, name: str) -> bool:
        """Start another process of a library of reflexes. Returns False if it has none."""
        return self._features.reflexes.reflexes.restart(name)

    async def mirror_status(self) -> Mirrors | None:
        """The brokers that share the journal, for administrators; None if it is not shared."""
        mirror = self._features.mirrors.mirror
        if mirror is None:
            return None
        # Takeovers that were read before are shown while the journal cannot be reached.
        with suppress(Refused, TimeoutError):
            async with asyncio.timeout(_READ_S):
                await mirror.refresh()
        return mirror.status()

    async def cluster_report(self) -> ClusterReport | None:
        """The cluster with its consumers, for administrators; None for a broker in none."""
        return self._features.cluster.report()

    async def cluster_clients(self) -> tuple[ListsReport, RebalanceReport] | None:
        """The lists that clients are sent, and who would go elsewhere; None for a broker in no cluster."""
        clients = self._features.cluster.clients()
        return (clients.lists(), clients.rebalancing()) if clients is not None else None

    async def list_cluster_clients(self, query: dict[str, str]) -> ListingPage:
        """A page of the clients of a broker in a cluster, with the list that each has, as
        `GET cluster/clients` has it. Raises Refused."""
        clients = self._features.cluster.clients()
        if clients is None:
            raise no_cluster()
        return await _CLIENTS.page_of_many(clients.clients(), query)

    async def rebalance_clients(self, user: str) -> Rebalancing | None:
        """Ask clients to go to other brokers; returns None if none need to. Raises Refused."""
        clients = self._features.cluster.clients()
        return clients.rebalance(user) if clients is not None else None

    async def reload_cluster(self) -> list[BrokerReload]:
        """Read the central file again, here and at the brokers that are linked. Raises Refused."""
        return await self._features.cluster.reload()

    async def change_keeper(self, broker: str) -> None:
        """Make another broker the keeper of the change record. Raises Refused."""
        record = self._features.cluster.record()
        if record is None:
            raise no_cluster()
        await record.change_keeper(broker)

    async def check_queue_deletion(self, address: str, *, force: bool) -> None:
        """Raise Refused if `delete_queue` would."""
        client = self._client
        administration = client.engine.broker.administration
        await client.inspect(
            lambda: administration.check_delete(DeleteQueue(client.peer, address, force=force))
        )

    async def channel_report(self) -> ChannelReport:
        """The sites of message channels, for all users."""
        return self._features.channels.channels.report()

    async def delete_queue(self, address: str, *, force: bool) -> None:
        """Delete a queue; one with messages or consumers only with `force`. Raises Refused."""
        client = self._client
        reply = client.pending_reply()
        client.submit(DeleteQueue(client.peer, address, force, reply))
        await client.answer(reply)
