"""The policy follower: applies a changed policy to the core, sessions, requests and features."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from broker_app.base.refused import Refused
from broker_app.config import Config, overridden
from broker_app.core.commands import Reconfigure
from broker_app.engine import Engine
from broker_app.net.auth.login import Logins
from broker_app.net.json import JsonServer
from broker_app.net.policy.destination_settings import Destinations, node_values
from broker_app.net.policy.policy import Policy
from broker_app.net.rest import RestApi
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.node.core_settings import limits_of, policies_of
from broker_app.node.features.features import Features


class PolicyFollower:
    """Swaps the policy between two batches, then ends what is not permitted any more.

    `started_with` are the settings that the node was started with; the policy overrides some of them.
    """

    def __init__(
        self,
        started_with: Config,
        engine: Engine,
        logins: Logins,
        registry: SessionRegistry,
        json: JsonServer,
        rest: RestApi,
        features: Features,
    ) -> None:
        self._started_with = started_with
        self.config = overridden(started_with, logins.policy.broker)
        self._engine = engine
        self._logins = logins
        self._registry = registry
        self._json = json
        self._rest = rest
        self._features = features
        #: set when there is a policy that is not applied yet
        self._pending = asyncio.Event()
        #: the version that all clients are under
        self._applied_version = logins.policy.version
        self._applied = asyncio.Condition()
        #: all bridges restart when the policy of this version is applied
        self._bridges_restart: int | None = None

    def reload(self, policy: Policy) -> None:
        """Use another policy for everything that is received from now on.

        `wait` returns when what had begun before has ended where it must.
        """
        former = self._logins.policy
        config = overridden(self._started_with, policy.broker)
        policies = policies_of(policy)
        if config != self.config or policies != policies_of(former):
            limits = limits_of(config) if config != self.config else None
            self._engine.submit(Reconfigure(policies, limits))
        self._logins.reload(policy)
        for feature in self._features.list:
            feature.policy_changed(policy)
        if config != self.config:
            self.config = config
            self._registry.configure(config)
            self._json.configure(config)
            self._rest.configure(config)
        self._registry.policy_changed()
        self._json.policy_changed()
        self._rest.policy_changed()
        self._pending.set()

    def settings_changed(self, started_with: Config) -> None:
        """Use other settings of the node, below those of the policy."""
        self._started_with = started_with
        policy = self._logins.policy
        values = node_values(overridden(started_with, policy.broker))
        self.reload(replace(policy, destinations=Destinations(policy.destinations.rows, values)))

    def restart_bridges(self, version: int | None) -> None:
        """Restart all bridges when the policy of `version` is applied; None: the present one."""
        self._bridges_restart = version or self._applied_version
        self._pending.set()

    async def wait(self, version: int) -> None:
        """Wait until the policy of this version, or a later one, is applied to all clients."""
        async with self._applied:
            await self._applied.wait_for(lambda: self._applied_version >= version)

    async def run(self) -> None:
        """Apply each new policy to what clients had begun before."""
        while True:
            await self._pending.wait()
            self._pending.clear()
            version = self._logins.policy.version
            try:
                await self._recheck_permissions()
            except Exception:
                self._pending.set()  # it is not applied yet
                raise
            if self._bridges_restart is not None and self._bridges_restart <= version:
                self._bridges_restart = None
                self._features.bridges.supervisor.restart_all("files of the configuration were read again")
            async with self._applied:
                self._applied_version = version
                self._applied.notify_all()

    async def _recheck_permissions(self) -> None:
        with contextlib.suppress(Refused):  # the engine has ended, and there is nothing left to recheck
            await self._rest.turn()  # subscriptions that were requested before exist by now
            for feature in self._features.list:
                feature.recheck()
            await self._registry.recheck_permissions()
            await self._rest.turn()  # and those that were to end have ended
