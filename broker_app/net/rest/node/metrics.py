"""Metrics over HTTP, for Prometheus: of the node, and of single destinations and flows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker_app.base.refused import Refused
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.policy.policy import READ_METRICS
from broker_app.telemetry.metrics import exposition
from broker_app.telemetry.metrics.detailed_metrics import LIMIT, MAX_LIMIT, DetailedMetrics
from broker_app.telemetry.metrics.families import (
    AGGREGATED,
    CALLBACK,
    DESTINATION,
    DETAILED,
    FLOW,
    REFLEX,
    Collected,
    Family,
    Samples,
)
from broker_app.telemetry.metrics.node_metrics import NodeMetrics
from broker_app.telemetry.metrics.pipeline_metrics import PipelineMetrics

_FAMILIES = [family for families in AGGREGATED.values() for family in families]


class Metrics(NamedTuple):
    """The metrics of a node."""

    node: NodeMetrics
    detailed: DetailedMetrics
    pipeline: PipelineMetrics


class MetricsEndpoints:
    """Endpoint `metrics`. `collect` reads what is in memory; jobs of the pipeline are read besides."""

    def __init__(self, collect: Callable[[], Collected], pipeline: PipelineMetrics | None = None) -> None:
        self._collect = collect
        self._pipeline = pipeline

    async def of_node(self, request: Request) -> Reply:
        """GET metrics"""
        request.query()
        _permit(request)
        of_jobs = await self._pipeline.collect() if self._pipeline is not None else []
        return await _reply(request, _FAMILIES, [*self._collect(), *of_jobs])


class DetailedEndpoint:
    """Endpoint `metrics/detailed`."""

    def __init__(self, metrics: DetailedMetrics) -> None:
        self._collect = {
            DESTINATION: metrics.of_destinations,
            FLOW: metrics.of_flows,
            CALLBACK: metrics.of_callbacks,
            REFLEX: metrics.of_reflexes,
        }

    async def detailed(self, request: Request) -> Reply:
        """GET metrics/detailed"""
        query = request.query(("family", "name", "limit"))
        _permit(request)
        name = query.get("family", DESTINATION)
        if name not in self._collect:
            raise invalid("query/family", f"must be {' or '.join(self._collect)}", name)
        limit = whole_number(query, "limit", LIMIT, 1, MAX_LIMIT)
        return await _reply(request, DETAILED[name], await self._collect[name](query.get("name", ""), limit))


async def _reply(
    request: Request, families: Iterable[Family], collected: Iterable[tuple[str, Samples]]
) -> Reply:
    accept = (request.header(b"accept") or b"").decode("latin-1")
    # Thousands of lines would hold up messages.
    text = await asyncio.to_thread(exposition.text, families, collected, accept)
    return Reply(200, text.content_type.encode(), text.content)


def _permit(request: Request) -> None:
    """Raise Refused without the right."""
    if not request.access.may_read_metrics(request.client.identity):
        raise Refused(
            "not-allowed",
            "metrics are for administrators, with a token only if one of its grants has the right "
            f"{READ_METRICS}",
            right=READ_METRICS,
        )
