"""A feature of a node: what it starts and stops, its endpoints, its tasks, its figures.

A feature declares itself in one module of this folder; `features` has the list. What it does is in
`broker_app/features/` or next to it and knows neither HTTP nor the other features.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple

from broker_app.config import Config
from broker_app.engine import Engine
from broker_app.features.services.registry import ServiceRegistry
from broker_app.journal.port import Journal
from broker_app.net.auth.login import Logins
from broker_app.net.broker_state import BrokerState
from broker_app.net.http.routing import Handlers
from broker_app.net.live_subscribers import LiveSubscribers
from broker_app.net.policy.access import Access
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.rest_parts import RestParts
from broker_app.net.stomp.connections import Connections
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.node.system_publisher import SystemPublisher
from broker_app.telemetry import Statistics
from broker_app.telemetry.component_health import Component
from broker_app.telemetry.event_log import EventLog
from broker_app.telemetry.metrics.families import Collected

#: what runs until it is cancelled
Task = Callable[[], Coroutine[Any, Any, Any]]


class NodeParts(NamedTuple):
    """The parts of a node that all features may use."""

    config: Config
    engine: Engine
    journal: Journal
    logins: Logins
    access: Access
    state: BrokerState
    events: EventLog
    statistics: Statistics
    #: the sessions of STOMP clients
    sessions: SessionRegistry
    connections: Connections
    #: the programs that have registered
    services: ServiceRegistry
    live: LiveSubscribers
    publisher: SystemPublisher
    #: what endpoints share
    rest: RestParts
    #: done when the node has failed, with the error
    failed: asyncio.Future[BaseException]


class Feature:
    """Declares nothing; each feature overrides what it has.

    It is made before anything runs. The node calls `start` before it accepts clients, `finish` while clients
    are still connected, and `stop` when they are gone; both also after a start that failed, `finish` only if
    `start` has returned.
    """

    def endpoints(self) -> Handlers:
        """The endpoints by the id of their operation in the OpenAPI description."""
        return {}

    def tasks(self) -> Mapping[str, Task]:
        """By name, what runs as long as the node does."""
        return {}

    async def start(self) -> None:
        """Begin."""

    async def finish(self) -> None:
        """Finish what was accepted, and begin nothing more."""

    async def stop(self) -> None:
        """End what clients needed until now."""

    def each_second(self) -> None:
        """Called each second."""

    def policy_changed(self, policy: Policy) -> None:
        """Use another configuration."""

    def recheck(self) -> None:
        """Apply the last policy to subscriptions that were requested before; they exist by now."""

    def engine_ended(self, error: BaseException) -> None:
        """Answer what waits for the engine, which has ended."""

    def metrics(self) -> Collected:
        """The families of `/metrics` that have samples."""
        return iter(())

    def components(self) -> Iterable[Component]:
        """Everything that has a health: for alerts, metrics and the console."""
        return iter(())
