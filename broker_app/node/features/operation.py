"""The things that operators see and order: the broker as a whole, alerts, events, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from broker_app.base.refused import Refused
from broker_app.features.notifications import TargetTests
from broker_app.net import asyncapi
from broker_app.net.http.routing import Handlers
from broker_app.net.rest import openapi
from broker_app.net.rest.node.alerts import AlertEndpoints, AlertOperations
from broker_app.net.rest.node.broker import BrokerEndpoints
from broker_app.net.rest.node.event_log import EventLogEndpoint
from broker_app.net.rest.node.metrics import DetailedEndpoint, Metrics, MetricsEndpoints
from broker_app.net.rest.node.node_info import NodeEndpoints
from broker_app.net.stomp.session import VERSION
from broker_app.node.features.feature import Feature, NodeParts


class Orders(NamedTuple):
    """Orders to the process: to stop, or to be started again if `stop` is called with True, unless there is a
    `restart_refusal`."""

    stop: Callable[[bool], None]
    restart_refusal: Callable[[], Refused | None]


class OperationFeature(Feature):
    """`clients` counts the connections of clients by protocol; `nearly_full` is true while the space for the
    journal nearly is; `control_document` is an OpenAPI document whose paths are added to this one's."""

    def __init__(
        self,
        parts: NodeParts,
        orders: Orders,
        alerts: AlertOperations,
        target_tests: TargetTests,
        metrics: Metrics,
        *,
        clients: Callable[[], Mapping[str, int]],
        nearly_full: Callable[[], object],
        control_document: Mapping[str, Any] | None,
    ) -> None:
        self._parts = parts
        self._orders = orders
        self.alerts = AlertEndpoints(alerts, target_tests, parts.config.alert_notify, parts.rest.limits)
        self._metrics = metrics
        self._clients = clients
        self._nearly_full = nearly_full
        self._control_document = control_document
        self._started_s = time.time()

    def endpoints(self) -> Handlers:
        """`/broker`, `/node`, `/health`, `/alerts`, `/events`, `/metrics` and the descriptions."""
        parts, rest, metrics = self._parts, self._parts.rest, self._metrics
        config, state = parts.config, parts.state
        orders = BrokerEndpoints(
            *(config.name, VERSION, state),
            clients=self._clients,
            stop=self._orders.stop,
            restart_refusal=self._orders.restart_refusal,
            started_s=self._started_s,
        )
        documents = (
            partial(openapi.document, self._control_document),
            partial(asyncapi.document, config.base_path),
        )
        node = NodeEndpoints(
            *(rest.engine_client, rest.waiting, rest.limits), *documents, self._nearly_full, state
        )
        return {
            **orders.handlers(),
            **node.handlers(),
            **self.alerts.handlers(),
            "list_events": EventLogEndpoint(parts.events, rest.limits).page,
            "get_metrics": MetricsEndpoints(metrics.node.collect, metrics.pipeline).of_node,
            "get_detailed_metrics": DetailedEndpoint(metrics.detailed).detailed,
        }
