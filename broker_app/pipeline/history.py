"""The history of a destination: its minutes, added up in steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import BigIntegerField, Count, F, Func, Max, Min, QuerySet, Sum

from broker_app.pipeline import database
from broker_app.pipeline.models import ComputedTime, StatMinute
from broker_app.telemetry.pipeline_store import COLUMNS, COMPUTED, MINUTE_S, NoPipeline, StoredHistory

#: by column of a history, the figure of a minute that is added up
_SUMS: Final = {
    "in": "enqueued",
    "out": "delivered",
    "acked": "dequeued",
    "redelivered": "redelivered",
    "dead": "dead_lettered",
    "expired": "expired",
    "discarded": "discarded",
}
#: and that of which the largest is taken, µs: percentiles cannot be averaged
_LARGEST: Final = {
    "queue_p50_s": "queue_time_us_p50",
    "queue_p95_s": "queue_time_us_p95",
    "queue_p99_s": "queue_time_us_p99",
    "queue_max_s": "queue_time_us_max",
}
_MICRO: Final = 1_000_000


class _Step(Func):
    """The number of a step of so many seconds since 1970."""

    output_field = BigIntegerField()

    def __init__(self, expression: str, step_s: int) -> None:
        super().__init__(F(expression), step_s=step_s)

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        template = "CAST(strftime('%%%%s', %(expressions)s) AS INTEGER) / %(step_s)s"
        return self.as_sql(compiler, connection, template=template, **more)

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        template = "FLOOR(EXTRACT(EPOCH FROM %(expressions)s) / %(step_s)s)::bigint"
        return self.as_sql(compiler, connection, template=template, **more)


def of_destination(broker: str, destination: str, t0: int, step_s: int, steps: int) -> StoredHistory:
    """See `PipelineStore.history`."""
    if not database.is_created():
        return NoPipeline().history(broker, destination, t0, step_s, steps)
    end = t0 + steps * step_s
    minutes = StatMinute.objects.filter(broker=broker, destination=destination)
    times = ComputedTime.objects.filter(broker=broker)
    known = _minutes_in_steps(times, t0, step_s, steps)
    series: dict[str, list[float | None]] = {name: [None] * steps for name in COLUMNS}
    for name in _SUMS:
        series[name] = [0 if minutes_known else None for minutes_known in known]
    in_window = minutes.filter(minute__gte=_moment(t0), minute__lt=_moment(end))
    first_s, end_s, computed_s = _stored(minutes, times)
    for row in _sums(in_window, step_s):
        at = row["step"] - t0 // step_s
        if known[at] or t0 + at * step_s >= computed_s:
            known[at] = max(known[at], row["minutes"])  # minutes that are not over are stored, too
        else:  # the run has not noted what it computed: other minutes may have had no messages
            known[at] = step_s // MINUTE_S
        for name in _SUMS:
            series[name][at] = row[name]
        for name in _LARGEST:
            series[name][at] = None if row[name] is None else row[name] / _MICRO
    series[COMPUTED] = [round(minutes_known * MINUTE_S / step_s, 4) for minutes_known in known]
    return StoredHistory(t0, step_s, series, first_s, end_s)


def _sums(minutes: QuerySet[StatMinute], step_s: int) -> Iterator[Any]:
    """The sums of each step that has a minute."""
    steps = minutes.annotate(step=_Step("minute", step_s)).values("step").order_by("step")
    sums = {name: Sum(figure) for name, figure in _SUMS.items()}
    largest = {name: Max(figure) for name, figure in _LARGEST.items()}
    return steps.annotate(minutes=Count("minute"), **sums, **largest).iterator()


def _minutes_in_steps(times: QuerySet[ComputedTime], t0: int, step_s: int, steps: int) -> list[int]:
    """Return the number of minutes of each step that were computed."""
    found = [0] * steps
    end = t0 + steps * step_s
    for begin, stop in times.filter(begin__lt=_moment(end), end__gt=_moment(t0)).values_list("begin", "end"):
        at, until = max(t0, round(begin.timestamp())), min(end, round(stop.timestamp()))
        while at < until:
            step = (at - t0) // step_s
            following = min(until, t0 + (step + 1) * step_s)
            found[step] += (following - at) // MINUTE_S
            at = following
    return found


def _stored(
    minutes: QuerySet[StatMinute], times: QuerySet[ComputedTime]
) -> tuple[int | None, int | None, float]:
    """The first minute that is stored, the end of the last, and the end of what was noted as computed, which
    is infinite if nothing was."""
    rows = minutes.aggregate(first=Min("minute"), last=Max("minute"))
    computed = times.aggregate(first=Min("begin"), end=Max("end"))
    firsts = [_seconds(one) for one in (rows["first"], computed["first"]) if one is not None]
    ends = [_seconds(rows["last"]) + MINUTE_S] if rows["last"] is not None else []
    ends += [_seconds(computed["end"])] if computed["end"] is not None else []
    computed_s = math.inf if computed["end"] is None else computed["end"].timestamp()
    return min(firsts, default=None), max(ends, default=None), computed_s


def _seconds(moment: datetime) -> int:
    return round(moment.timestamp())


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
