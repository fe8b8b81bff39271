"""Results of reconciliation over HTTP, for administrators."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.core.destination import MAX_ADDRESS
from broker_app.net.rest.openapi.schemas import COUNT, TEXT, TIME, array_of, object_of
from broker_app.pipeline import reconciliations
from broker_app.web.api import request_params
from broker_app.web.api.openapi_schema import problem_replies
from broker_app.web.api.permissions import MayAdminister

_MOST: Final = 2**63 - 1
_ROW: Final = {"type": "object", "description": "a message that is not ok"}
_RESULT = object_of(
    {
        "reported": TIME,
        "states": {
            "type": "object",
            "properties": dict.fromkeys(reconciliations.STATES, COUNT),
            "description": "messages in each state",
        },
        "file": {**TEXT, "description": "on the host of the run, with all messages that are not ok"},
        "rows": array_of(_ROW, reconciliations.MOST_ROWS),
    }
)
_REPLIES = problem_replies(400, 401, 403, 404, 405, 406)


def _text(length: int = 300) -> serializers.CharField:
    return serializers.CharField(max_length=length, required=False, allow_null=True, allow_blank=True)


def _number() -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0, max_value=_MOST, required=False, allow_null=True)


def _time() -> serializers.CharField:
    """A time that is kept as it was reported."""
    return _text(40)


class Message(serializers.Serializer[Any]):
    """A message that is not ok, as the report of the job has it."""

    state = serializers.ChoiceField(choices=reconciliations.STATES[1:])
    origin_broker = _text()
    origin_position = _number()
    message_id = _text()
    destination = _text(MAX_ADDRESS)
    enqueued_ts = _time()
    ended_ts = _time()
    ended_as = _text()
    reason = _text()
    receiver = _text()
    arrivals = _number()
    first_position = _number()
    last_position = _number()
    received_ts = _time()


class NewResult(serializers.Serializer[Any]):
    """A result to store; `rows` are the first messages that are not ok."""

    run_id = serializers.CharField(max_length=64)
    states = serializers.DictField(child=serializers.IntegerField(min_value=0, max_value=_MOST))
    file = serializers.CharField(max_length=1000, required=False, default="", allow_blank=True)
    rows = serializers.ListField(child=Message(), max_length=reconciliations.MOST_ROWS)

    def validate_states(self, states: dict[str, int]) -> dict[str, int]:
        """Raise ValidationError for one that is not known."""
        for state in states:
            if state not in reconciliations.STATES:
                known = ", ".join(reconciliations.STATES)
                raise serializers.ValidationError({state[:100]: f"is no state; those are {known}"})
        return states


class ReconciliationResult(APIView):
    """The newest result of a run."""

    permission_classes = (MayAdminister,)

    @extend_schema(operation_id="get_reconciliation", responses={200: _RESULT, **_REPLIES})
    def get(self, request: Request, name: str) -> Response:
        """Show the result of a reconciliation"""
        request_params.query(request, ())
        return Response(reconciliations.shown(reconciliations.find(name)))

    @extend_schema(
        operation_id="store_reconciliation",
        request=NewResult,
        responses={200: _RESULT, **_REPLIES, **problem_replies(409, 413, 415)},
    )
    def put(self, request: Request, name: str) -> Response:
        """Store the result of a reconciliation; the former one is replaced"""
        facts = request_params.valid(NewResult, request)
        return Response(reconciliations.shown(reconciliations.store(name, now=datetime.now(UTC), **facts)))
