"""The text of metrics, as Prometheus reads it.

The only module that knows the library, which is loaded when it is first asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_app.telemetry.metrics.families import COUNTER, GAUGE, Family, Histogram, Samples

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class Text(NamedTuple):
    """Metrics in the format that a client accepts."""

    content_type: str
    content: bytes


def text(families: Iterable[Family], collected: Iterable[tuple[str, Samples]], accept: str) -> Text:
    """The metrics in the format that the header `accept` asks for: that of OpenMetrics, or that of
    Prometheus. Families without samples are left out."""
    from prometheus_client.exposition import choose_encoder

    known = {family.name: family for family in families}
    encode, content_type = choose_encoder(accept)
    metrics = [_metric(known[name], samples) for name, samples in collected if samples]
    return Text(content_type, encode(_Collector(metrics)))


class _Collector:
    """A registry, as the library reads one."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def _metric(family: Family, samples: Samples) -> Metric:
    from prometheus_client import metrics_core

    kinds: dict[str, Any] = {COUNTER: metrics_core.CounterMetricFamily, GAUGE: metrics_core.GaugeMetricFamily}
    make = kinds.get(family.kind, metrics_core.HistogramMetricFamily)
    metric = make(family.name, family.help, labels=family.labels)
    for labels, value in samples.items():
        if isinstance(value, Histogram):
            metric.add_metric(labels, _buckets(value), value.sum)
        else:
            metric.add_metric(labels, value)
    found: Metric = metric
    return found


def _buckets(observed: Histogram) -> list[tuple[str, int]]:
    """(upper bound, how many are at most that) of each bucket."""
    bounds = [*map(str, observed.bounds), "+Inf"]
    return list(zip(bounds, accumulate(observed.counts), strict=True))
