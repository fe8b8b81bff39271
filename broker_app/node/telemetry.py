"""Alerts, metrics and system topics of a node, over all of its features."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from functools import partial

from broker_app.core.publishing.resource_alarm import STORE_FULL
from broker_app.net.policy.decisions import Decisions
from broker_app.net.policy.system_rights import SystemRights
from broker_app.net.rest.features.rights import destination_of
from broker_app.net.rest.node.metrics import Metrics
from broker_app.net.stomp.session import VERSION
from broker_app.node.features.feature import NodeParts
from broker_app.node.features.features import Features
from broker_app.node.store_usage import StoreUsage
from broker_app.node.system_events import SystemEvents
from broker_app.telemetry import SystemTopics
from broker_app.telemetry.alerts import AlertEvaluator, ConditionChecks
from broker_app.telemetry.alerts.texts import shown
from broker_app.telemetry.component_health import Component, store_component
from broker_app.telemetry.metrics.detailed_metrics import DetailedMetrics
from broker_app.telemetry.metrics.node_metrics import NodeMetrics, Sources
from broker_app.telemetry.metrics.pipeline_metrics import PipelineMetrics
from broker_app.telemetry.pipeline_store import PipelineStore
from broker_app.telemetry.system_messages import SystemMessages


class Telemetry:
    """Made once, when the features are there."""

    def __init__(
        self,
        parts: NodeParts,
        features: Features,
        store: StoreUsage,
        decisions: Decisions,
        pipeline: PipelineStore,
    ) -> None:
        self._parts = parts
        self._features = features
        self._store = store
        self.alerts = self._make_alerts()
        self.metrics = self._make_metrics(decisions, pipeline)
        self.topics = topics = self._make_topics()
        self.events = SystemEvents(
            *(parts.config, parts.logins, parts.events, parts.connections, topics, parts.publisher)
        )

    def start(self) -> None:
        """Begin to listen."""
        parts, topics = self._parts, self.topics
        self.alerts.start()
        self.alerts.listeners.add(self.events.alert)
        parts.engine.listeners.add(topics.on_events)
        parts.sessions.listeners.add(self.events.connection)
        parts.events.listeners.add(lambda event: topics.logged(event.shown()))
        for clock_stepped in (parts.statistics.clock_stepped, self.alerts.clock_stepped):
            parts.engine.clock_listeners.add(clock_stepped)
        parts.statistics.loop_lag.start()

    async def stop(self) -> None:
        """Store the alerts, and drop notifications that could not be delivered."""
        self._parts.statistics.loop_lag.stop()
        await self.alerts.stop()
        await self.events.notifications.stop()

    def _components(self) -> Iterable[Component]:
        alarm = self._parts.engine.broker.resource_alarms.alarm
        full = alarm.detail if alarm is STORE_FULL else ""
        yield store_component(full, self._store.nearly_full)
        yield from self._features.components()

    def _make_alerts(self) -> AlertEvaluator:
        """The alerts, with their state from before the last stop."""
        parts, features = self._parts, self._features
        checks = ConditionChecks(
            parts.engine.broker,
            parts.statistics,
            bridges=features.bridges.supervisor.reports,
            taken=self._store.share,
            flapping=parts.connections.client_events.flapping,
            events=parts.events.all,
            components=self._components,
            cluster=features.cluster.status,
        )
        return AlertEvaluator(
            parts.config.data / "alerts.json", checks, lambda: parts.logins.policy.alerts, time.time
        )

    def _make_metrics(self, decisions: Decisions, pipeline: PipelineStore) -> Metrics:
        parts, features = self._parts, self._features
        config, broker, statistics = parts.config, parts.engine.broker, parts.statistics
        sources = Sources(
            backend="files" if config.journal is None else config.journal.partition(":")[0],
            journal=parts.journal.statistics,
            connections=parts.connections,
            decisions=decisions,
            components=self._components,
            alerts=self.alerts.state.open,
            features=features.metrics,
        )
        detailed = DetailedMetrics(
            *(broker, statistics, features.bridges.statuses),
            *(features.callbacks.supervisor.reports, features.reflexes.reflexes.report),
        )
        return Metrics(
            NodeMetrics(broker, statistics, config.name, VERSION, sources),
            detailed,
            PipelineMetrics(parts.journal, config.name, pipeline.figures),
        )

    def _make_topics(self) -> SystemTopics:
        parts, features, alerts = self._parts, self._features, self.alerts
        broker = parts.engine.broker
        rights = SystemRights(parts.access, features.jobs.owner, partial(destination_of, broker))
        return SystemTopics(
            broker,
            parts.statistics,
            SystemMessages(broker, parts.publisher, rights, parts.failed.get_loop().call_soon),
            name=parts.config.name,
            boot=secrets.token_hex(4),
            connections=parts.connections.all,
            bridges=features.bridges.statuses,
            callbacks=features.callbacks.statuses,
            jobs=lambda: [job.progress for job in features.jobs.jobs.all()],
            mirrors=features.mirrors.status,
            cluster=features.cluster.status,
            alerts=lambda: [shown(alert) for alert in alerts.state.open()],
            clock=time.time,
        )
