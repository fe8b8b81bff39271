"""Runs of the data pipeline and its statistics over HTTP, for administrators."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.base.states import PIPELINE
from broker_app.net.http.refusals import invalid
from broker_app.net.rest.openapi.schemas import BOOLEAN, HEALTH, TEXT, TIME, array_of, object_of
from broker_app.pipeline import runs, statistics
from broker_app.pipeline.models import STATES, StatMinute
from broker_app.web.api import request_params
from broker_app.web.api.openapi_schema import problem_replies, query
from broker_app.web.api.permissions import MayAdminister

JOBS: Final = ("archive", "statistics", "reconcile", "replay", "compact")
_MOST_POSITION: Final = 2**63 - 1
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": ["number", "null"], "minimum": 0}
_BATCH = object_of({"number": _COUNT, "at": TIME, "rows": _COUNT, "ms": _COUNT})
_RUN = object_of(
    {
        "name": {**TEXT, "description": "such as archive:B1"},
        "job": {"type": "string", "enum": list(JOBS)},
        "run_id": TEXT,
        "host": TEXT,
        "state": {"type": "string", "enum": list(PIPELINE)},
        "health": HEALTH,
        "stop_requested": BOOLEAN,
        "started": TIME,
        "reported": TIME,
        "parameters": {"type": "object"},
        "command": {**TEXT, "description": "starts it again on its host; empty if it was not reported"},
        "starts": {**_COUNT, "description": "how often it was started"},
        "rows_total": {**_COUNT, "description": "processed by all runs of this name"},
        "rows": {**_COUNT, "description": "processed by this run"},
        "rows_per_s": {**_NUMBER, "description": "of the newest batch"},
        "offsets": {"type": "object", "description": "by broker: epoch and position"},
        "lag": {"type": ["integer", "null"], "minimum": 0, "description": "positions not read yet"},
        "lag_s": {**_NUMBER, "description": "seconds since the first of them"},
        "error": TEXT,
        "batches": array_of(_BATCH, runs.MOST_BATCHES),
    }
)
_FIGURE = {"type": ["integer", "null"], "minimum": 0}
_MINUTE = object_of(
    {"broker": TEXT, "destination": TEXT, "minute": TIME, **dict.fromkeys(statistics.FIGURES, _FIGURE)}
)
_REPLIES = problem_replies(400, 401, 403, 405, 406)


class _Offset(serializers.Serializer[Any]):
    epoch = serializers.IntegerField(min_value=0, max_value=_MOST_POSITION)
    pos = serializers.IntegerField(min_value=0, max_value=_MOST_POSITION)


class _Batch(serializers.Serializer[Any]):
    number = serializers.IntegerField(min_value=0, max_value=_MOST_POSITION)
    at = serializers.DateTimeField()
    rows = serializers.IntegerField(min_value=0, max_value=_MOST_POSITION)
    ms = serializers.IntegerField(min_value=0, max_value=_MOST_POSITION)


class RunStart(serializers.Serializer[Any]):
    """A run that begins."""

    job = serializers.ChoiceField(choices=JOBS)
    run_id = serializers.CharField(max_length=64)
    host = serializers.CharField(max_length=200, required=False, default="", allow_blank=True)
    parameters = serializers.DictField(required=False, default=dict)
    command = serializers.CharField(max_length=4000, required=False, default="", allow_blank=True)


class RunReport(serializers.Serializer[Any]):
    """A report of a run; figures that are left out stay as they were."""

    run_id = serializers.CharField(max_length=64)
    state = serializers.ChoiceField(choices=STATES, required=False)
    rows = serializers.IntegerField(min_value=0, max_value=_MOST_POSITION, required=False)
    offsets = serializers.DictField(child=_Offset(), required=False)
    lag = serializers.IntegerField(min_value=0, max_value=_MOST_POSITION, required=False, allow_null=True)
    lag_s = serializers.FloatField(min_value=0, required=False, allow_null=True)
    error = serializers.CharField(max_length=2000, required=False, allow_blank=True)
    batch = _Batch(required=False)


class Minute(serializers.ModelSerializer[StatMinute]):
    """A minute of a destination."""

    class Meta:
        model = StatMinute
        fields: ClassVar = [*statistics.KEY, *statistics.FIGURES]
        validators: ClassVar[list[Any]] = []  # a minute that is stored is replaced


class ComputedTime(serializers.Serializer[Any]):
    """A time in whole minutes of which a run has computed all destinations of a broker."""

    broker = serializers.CharField(max_length=64)
    begin = serializers.DateTimeField()
    end = serializers.DateTimeField()

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Raise ValidationError unless it is a time of whole minutes."""
        if not attrs["begin"] < attrs["end"]:
            raise serializers.ValidationError({"end": "must be after begin"})
        for name in ("begin", "end"):
            if attrs[name].timestamp() % 60:
                raise serializers.ValidationError({name: "must be a whole minute"})
        return attrs


class Minutes(serializers.Serializer[Any]):
    """Minutes to store. With `computed`, minutes of that time without a row had no messages."""

    rows = serializers.ListField(child=Minute(), max_length=statistics.MOST_ROWS)
    computed = ComputedTime(required=False)


class Runs(APIView):
    """All runs."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="list_pipeline_runs",
        responses={200: object_of({"items": array_of(_RUN, runs.MOST_RUNS)}), **_REPLIES},
    )
    def get(self, request: Request) -> Response:
        """List the runs of the data pipeline"""
        request_params.query(request, ())
        now = _now()
        return Response({"items": [runs.shown(run, now) for run in runs.known()]})


class Run(APIView):
    """One run by name."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="get_pipeline_run",
        responses={200: _RUN, **_REPLIES, **problem_replies(404)},
    )
    def get(self, request: Request, name: str) -> Response:
        """Show a run"""
        request_params.query(request, ())
        return Response(runs.shown(runs.find(name), _now()))

    @extend_schema(
        operation_id="begin_pipeline_run",
        request=RunStart,
        responses={200: _RUN, **_REPLIES, **problem_replies(409, 413, 415, 429)},
    )
    def put(self, request: Request, name: str) -> Response:
        """Begin a run, unless another one of this name reports"""
        facts = request_params.valid(RunStart, request)
        if len(name) > 100:
            raise invalid("name", "is longer than 100 characters")
        now = _now()
        run = runs.begin(name, now=now, **facts)
        return Response(runs.shown(run, now))

    @extend_schema(
        operation_id="remove_pipeline_run",
        responses={204: None, **_REPLIES, **problem_replies(404, 409)},
    )
    def delete(self, request: Request, name: str) -> Response:
        """Forget a run that has ended"""
        request_params.query(request, ())
        runs.remove(name, _now())
        return Response(status=204)


class Report(APIView):
    """The reports of a run."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="report_pipeline_run",
        request=RunReport,
        responses={200: _RUN, **_REPLIES, **problem_replies(404, 409, 413, 415)},
    )
    def post(self, request: Request, name: str) -> Response:
        """Report the progress of a run; the reply says whether it should stop"""
        facts = request_params.valid(RunReport, request)
        run_id, batch = facts.pop("run_id"), facts.pop("batch", None)
        if batch is not None:
            batch = {**batch, "at": batch["at"].isoformat()}
        now = _now()
        return Response(runs.shown(runs.report(name, run_id, facts, batch, now), now))


class Stop(APIView):
    """The request to stop a run."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="stop_pipeline_run",
        request=None,
        responses={200: _RUN, **_REPLIES, **problem_replies(404)},
    )
    def post(self, request: Request, name: str) -> Response:
        """Have a run stop after its present batch"""
        request_params.query(request, ())
        return Response(runs.shown(runs.request_stop(name), _now()))


class Statistics(APIView):
    """Statistics of minutes."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="list_pipeline_statistics",
        parameters=[
            OpenApiParameter("destination", TEXT, required=True, description="such as /queue/orders"),
            query("broker", TEXT, "only of this broker"),
            query("from", TIME, "not before this time; a day before `to` if it is left out"),
            query("to", TIME, "before this time; now if it is left out"),
        ],
        responses={200: object_of({"items": array_of(_MINUTE, statistics.MOST_ROWS)}), **_REPLIES},
    )
    def get(self, request: Request) -> Response:
        """List the minutes of a destination"""
        asks = request_params.query(request, ("destination", "broker", "from", "to"))
        if "destination" not in asks:
            raise invalid("query/destination", "is missing")
        end = _time(asks, "to", _now())
        begin = _time(asks, "from", end - timedelta(days=1))
        return Response(
            {"items": statistics.rows_of(asks["destination"], begin, end, asks.get("broker", ""))}
        )

    @extend_schema(
        operation_id="store_pipeline_statistics",
        request=Minutes,
        responses={204: None, **_REPLIES, **problem_replies(413, 415)},
    )
    def post(self, request: Request) -> Response:
        """Store minutes; those that are stored are replaced"""
        found = request_params.valid(Minutes, request)
        computed = statistics.Computed(**found["computed"]) if "computed" in found else None
        statistics.store(found["rows"], computed, _now())
        return Response(status=204)


def _time(asks: dict[str, str], name: str, default: datetime) -> datetime:
    if name not in asks:
        return default
    try:
        found = parse_datetime(asks[name])
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise invalid(f"query/{name}", "must be a time such as 2026-11-25T12:00:00Z", asks[name])
    return found


def _now() -> datetime:
    return datetime.now(UTC)
