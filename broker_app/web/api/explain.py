"""The explanation of a decision over HTTP: which rule decides, and why each one before it does not."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.base.refused import Refused
from broker_app.core.destination import Destination
from broker_app.models import Token
from broker_app.net.http.refusals import invalid, unknown
from broker_app.net.http.requests import boolean
from broker_app.net.policy.access import asked_of_rules, decided_before_rules
from broker_app.net.policy.policy import Grant
from broker_app.net.rest.openapi.schemas import BOOLEAN, TEXT, Json, array_of, object_of, or_null
from broker_app.net.stomp.login.registrations import MAX_NAME
from broker_app.rules.errors import RuleError
from broker_app.rules.event import METHODS, PROTOCOLS, RIGHTS, Event, method_of
from broker_app.rules.explain import RuleStep
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import MAX_RULES, Rules
from broker_app.web.api import request_params
from broker_app.web.api.openapi_schema import problem_replies
from broker_app.web.api.permissions import is_administrator, require_administrator
from broker_app.web.api.schemas import name_of
from broker_app.web.events import destination_of, shown
from broker_app.web.impact import rules_of
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.resource_types.users import missing_user
from broker_app.web.roles import is_monitor
from broker_app.web.snapshot import read_rules

#: rules that an answer lists one by one
MAX_STEPS = 1_000

_FACTS = ("address", "protocol", "tls", "client")
_PARAMETERS = ("user", "action", "destination", "token", *_FACTS)
_DESCRIPTIONS = {
    "user": "the user whose right is explained; yourself by default",
    "action": f"a right ({', '.join(METHODS)}) or a method ({', '.join(RIGHTS)})",
    "destination": "queue:orders or topic:news, or an address such as /queue/orders",
    "token": "the user's token that is used instead of the password",
    "address": "the client's IP address; members left out are unknown",
    "protocol": "the protocol of the client",
    "tls": "whether TLS protects the connection",
    "client": "STOMP's client-id",
}
_SCHEMAS: Json = {
    "user": {**TEXT, "minLength": 1, "maxLength": 150},
    "action": {"enum": [*METHODS, *RIGHTS]},
    "destination": {**TEXT, "minLength": 1, "maxLength": 300},
    "token": {**TEXT, "minLength": 1, "maxLength": 100},
    "address": {**TEXT, "maxLength": 60},
    "protocol": {"enum": list(PROTOCOLS)},
    "tls": BOOLEAN,
    "client": {**TEXT, "maxLength": MAX_NAME},
}
_REQUIRED = ("action", "destination")

EVENT_SCHEMA = object_of(
    {
        "user": TEXT,
        "right": or_null({"enum": list(METHODS)}),
        "method": or_null({"enum": list(RIGHTS)}),
        "destination": or_null(TEXT),
        "address": or_null(TEXT),
        "protocol": or_null(TEXT),
        "tls": or_null(BOOLEAN),
        "client": or_null(TEXT),
    }
)
_RULE = {
    "number": {"type": "integer", "minimum": 1},
    "name": TEXT,
    "effect": {"enum": ["allow", "deny"]},
    "source": {**TEXT, "description": "the file and line of the rule"},
}
_COUNT = {"type": "integer", "minimum": 0}
_ANSWER = object_of(
    {
        "event": EVENT_SCHEMA,
        "allowed": BOOLEAN,
        "decided_by": TEXT,
        "rule": or_null(object_of(_RULE)),
        "steps": array_of(object_of({**_RULE, "matched": BOOLEAN, "reason": TEXT}), MAX_STEPS),
        "steps_left_out": {**_COUNT, "description": "rules before the deciding one that are not listed"},
        "not_reached": {**_COUNT, "description": "rules behind the one that decides"},
    }
)
_REPLIES = {200: _ANSWER, **problem_replies(400, 401, 403, 404, 405, 406)}


class _Query(NamedTuple):
    """The request: the event, and further facts of its user."""

    event: Event
    right: str
    destination: Destination
    admin: bool
    monitor: bool
    token: str
    grants: tuple[Grant, ...] | None


class Explain(APIView):
    """One decision explained."""

    changes_nothing: ClassVar = True

    @extend_schema(
        operation_id="explain",
        parameters=[
            OpenApiParameter(
                name, _SCHEMAS[name], description=_DESCRIPTIONS[name], required=name in _REQUIRED
            )
            for name in _PARAMETERS
        ],
        responses=_REPLIES,
    )
    def get(self, request: Request) -> Response:
        """Explain whether a user may do something, and which rule decides"""
        query = request_params.query(request, _PARAMETERS)
        given: dict[str, Any] = dict(query)
        if "tls" in query:
            given["tls"] = boolean(query, "tls")
        return _answer(request, _query_of(request, given, "query/"), read_rules())

    @extend_schema(
        operation_id="explain_with_rules",
        request={
            "application/json": object_of(
                {
                    **{name: {**_SCHEMAS[name], "description": _DESCRIPTIONS[name]} for name in _PARAMETERS},
                    "rules": {
                        **array_of({"$ref": f"#/components/schemas/{name_of('rules', 'Put')}"}, MAX_RULES),
                        "description": "rules in their order that are evaluated instead of the saved ones",
                    },
                },
                required=_REQUIRED,
            )
        },
        responses={**_REPLIES, **problem_replies(400, 401, 403, 404, 405, 406, 413, 415)},
    )
    def post(self, request: Request) -> Response:
        """The same for rules that are not saved yet"""
        request_params.query(request, ())
        body = request_params.body(request)
        for name in body:
            if name not in (*_PARAMETERS, "rules"):
                raise unknown(f"/{name[:100]}", name, (*_PARAMETERS, "rules"), "field")
        if "rules" in body:
            require_administrator(request)
        rules = _rules(body["rules"]) if "rules" in body else read_rules()
        return _answer(request, _query_of(request, body, "/"), rules)


def _query_of(request: Request, given: Mapping[str, Any], where: str) -> _Query:
    """The request, validated. Raises Refused."""
    for name in _REQUIRED:
        if name not in given:
            raise invalid(where + name, "is missing")
    for name in _PARAMETERS:
        if name in given and name != "tls":
            _check_text(given[name], where + name)
    if not isinstance(given.get("tls", True), bool):
        raise invalid(f"{where}tls", "must be true or false", given["tls"])
    user = given.get("user", request.user.get_username())
    if user != request.user.get_username() and not is_administrator(request):
        raise Refused("not-allowed", "only administrators may see the rights of others", right="administer")
    known = User.objects.filter(username=user).prefetch_related("groups").first()
    if known is None and user != request.user.get_username() and "rules" not in given:
        raise Refused("not-found", missing_user(user))
    try:
        method = method_of(given["action"])
    except ValueError as error:
        raise invalid(f"{where}action", str(error)) from None
    destination = destination_of(given["destination"])
    _check_facts(given, where)
    event = Event(
        user,
        frozenset(group.name for group in known.groups.all()) if known is not None else frozenset(),
        **asked_of_rules(RIGHTS[method], destination),
        **{name: given[name] for name in _FACTS if name in given},
    )
    admin = known is not None and known.is_superuser
    monitor = known is not None and is_monitor(known)
    token = given.get("token", "")
    grants = _grants(user, token) if token else None
    return _Query(event, RIGHTS[method], destination, admin, monitor, token, grants)


def _check_text(value: object, pointer: str) -> None:
    most = _SCHEMAS[pointer.rpartition("/")[2]].get("maxLength", 300)
    if not isinstance(value, str) or not value or len(value) > most:
        raise invalid(pointer, f"must be a text of 1 to {most} characters", value)
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise invalid(pointer, "must be a text without NUL and without unpaired surrogates")


def _check_facts(given: Mapping[str, Any], where: str) -> None:
    if "protocol" in given and given["protocol"] not in PROTOCOLS:
        raise invalid(f"{where}protocol", f"must be one of {', '.join(PROTOCOLS)}", given["protocol"])
    if "address" in given:
        try:
            ipaddress.ip_address(given["address"])
        except ValueError:
            raise invalid(f"{where}address", "must be an IP address", given["address"]) from None


def _grants(user: str, name: str) -> tuple[Grant, ...] | None:
    token = Token.objects.filter(owner__username=user, name=name).first()
    if token is None:
        raise Refused("not-found", f"{user} has no token {name}"[:300])
    if token.grants is None:
        return None
    return tuple(Grant(frozenset(one["rights"]), tuple(one["destinations"])) for one in token.grants)


def _rules(given: object) -> Rules:
    """Rules that are not saved, in the order of the list. Raises Refused, ValidationError."""
    if not isinstance(given, list) or len(given) > MAX_RULES:
        raise invalid("/rules", f"must be a list of at most {MAX_RULES} rules")
    kind, documents = RESOURCE_TYPES["rules"], {}
    for place, one in enumerate(given):
        pointer = f"/rules/{place}"
        if not isinstance(one, dict):
            raise invalid(pointer, "must be a rule, a JSON object")
        rest = {
            name: value for name, value in one.items() if name not in ("name", "version", "origin", "changed")
        }
        name = one.get("name", f"rule-{place + 1}")
        if not isinstance(name, str) or name in documents:
            raise invalid(f"{pointer}/name", "must be a text, and another one than those of the other rules")
        document = kind.complete(name, {**rest, "position": place}, None)
        try:
            kind.check(name, document)
        except ValidationError as error:
            fields = error.message_dict if hasattr(error, "error_dict") else {"name": error.messages}
            field, messages = next(iter(fields.items()))
            raise invalid(f"{pointer}/{field}", messages[0]) from None
        documents[name] = document
    try:
        return rules_of(documents)
    except RuleError as error:
        raise invalid("/rules", f"rule {error.rule}: {error}") from None


def _answer(request: Request, question: _Query, rules: Rules) -> Response:
    before = decided_before_rules(
        question.event.user,
        question.right,
        question.destination,
        admin=question.admin,
        monitor=question.monitor,
        token=question.token,
        grants=question.grants,
    )
    found = rules.explain(question.event)
    decision = found.decision if before is None else before
    tried = found.steps if before is None else ()
    # Rules name other users, which only administrators may see.
    everything = is_administrator(request)
    visible = [step for step in tried if everything or _concerns(step, question.event)][-MAX_STEPS:]
    return Response(
        {
            "event": shown(question.event),
            "allowed": decision.allowed,
            "decided_by": decision.reason,
            "rule": None if decision.rule is None else _shown_rule(decision.number, decision.rule),
            "steps": [
                {**_shown_rule(step.number, step.rule), "matched": step.matched, "reason": step.why}
                for step in visible
            ],
            "steps_left_out": len(tried) - len(visible),
            "not_reached": len(rules) - len(tried),
        }
    )


def _shown_rule(number: int, rule: Rule) -> dict[str, Any]:
    return {"number": number, "name": rule.name, "effect": rule.effect, "source": rule.source}


def _concerns(step: RuleStep, event: Event) -> bool:
    return step.rule.concerns(event.user, event.groups)
