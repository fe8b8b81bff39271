"""The data pipeline: its runs, and the statistics of former days that it stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_app.net.http.routing import Handlers
from broker_app.net.rest.destinations.stored_history import StoredHistoryEndpoint
from broker_app.node.features.feature import Feature, NodeParts, Task
from broker_app.telemetry.component_health import Component, pipeline_components
from broker_app.telemetry.pipeline_runs import PipelineRuns
from broker_app.telemetry.pipeline_store import PipelineStore


class PipelineFeature(Feature):
    """Reads what the pipeline has written into its `store`."""

    def __init__(self, parts: NodeParts, store: PipelineStore) -> None:
        self._name = parts.config.name
        self.store = store
        self._runs = PipelineRuns(store.runs)

    def endpoints(self) -> Handlers:
        """The statistics of former days."""
        history = StoredHistoryEndpoint(self.store, self._name)
        return {"get_queue_history": history.of_queue, "get_topic_history": history.of_topic}

    def tasks(self) -> Mapping[str, Task]:
        """Follow the runs."""
        return {"runs of pipelines": self._runs.run}

    def components(self) -> Iterable[Component]:
        """The health of each run."""
        return pipeline_components(self._runs.reports())
