"""Rules, masks, users, groups, brokers, bridges, reflexes and alert rules over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import Any, ClassVar

from django.conf import settings
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.response import Response

from broker_app.models import Rule
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import invalid
from broker_app.web import actions
from broker_app.web.api import request_params
from broker_app.web.api.idempotency import once
from broker_app.web.api.resource import MAX_PAGE, Resource
from broker_app.web.api.rows import Row
from broker_app.web.api.schemas import ENTRY, FACTS, SPEC_FIELDS
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.resource_types.alerts import built_in_rules
from broker_app.web.resource_types.resource_type import Spec

_SORTABLE_ENTRY = ("name", "version", "origin")


def listing(
    kind: str,
    *,
    sortable: Collection[str] = (),
    sort: str = "name",
    last: str = "name",
    filters: Mapping[str, Callable[[Row], bool]] | None = None,
    matches: Mapping[str, Callable[[Row, str], bool]] | None = None,
) -> Listing[Row]:
    """The list of a kind."""
    members = ["name", *SPEC_FIELDS[kind], *FACTS.get(kind, {}), *ENTRY]
    return Listing(
        {name: itemgetter(name) for name in members},
        filters or {},
        MAX_PAGE,
        matches=matches,
        sortable=[*_SORTABLE_ENTRY, *sortable],
        sort=sort,
        last=last,
    )


def has(member: str) -> Callable[[Row, str], bool]:
    """True if a member is a text, or has it among its texts."""
    return lambda row, text: text in row[member] if isinstance(row[member], list) else text == row[member]


class Rules(Resource):
    kind = "rules"
    listing: ClassVar[Listing[Row]] = listing(
        kind,
        sortable=("position", "effect"),
        sort="position",
        matches={"effect": has("effect"), "user": has("users"), "group": has("groups")},
    )

    def post(self, request: Request, name: str = "") -> Response:
        if name:
            raise MethodNotAllowed("POST")
        return once(request, lambda: self._create(request))

    def _create(self, request: Request) -> Response:
        query = request_params.query(request, ("dry_run",))
        body = request_params.body(request)
        # Within the transaction of the write, so that no other request takes the name meanwhile.
        key = _text(body["name"]) if "name" in body else _free_name()
        spec, _ = self._parse(key, body)
        if actions.version_of(self.kind, key):
            raise actions.Conflict(f"There is a rule {key} already.")
        outcome = self.apply(request, actions.Edit(self.kind, key, spec, 0), query)
        return self.written(key, outcome, query, created=True)


def _free_name() -> str:
    """The first of rule-1, rule-2, … behind those that there are."""
    taken = Rule.objects.filter(name__startswith="rule-").values_list("name", flat=True)
    numbers = [int(number) for name in taken if (number := name[5:]).isascii() and number.isdigit()]
    return f"rule-{max(numbers, default=0) + 1}"


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise invalid("/name", "must be a text", name)
    return name


class Masks(Resource):
    kind = "masks"
    listing: ClassVar[Listing[Row]] = listing(
        kind,
        sortable=("destination",),
        matches={"destination": has("destination"), "group": has("groups")},
    )


class Users(Resource):
    kind = "users"
    listing: ClassVar[Listing[Row]] = listing(
        kind,
        sortable=("administrator", "monitor", "active", "email"),
        filters={name: itemgetter(name) for name in ("administrator", "monitor", "active")},
        matches={"group": has("groups")},
    )

    def check_may(self, request: Request, name: str) -> None:
        # Users may read their own resource.
        if request.method not in ("GET", "HEAD") or name != request.user.get_username():
            super().check_may(request, name)


class Groups(Resource):
    kind = "groups"
    listing: ClassVar[Listing[Row]] = listing(kind, matches={"member": has("members")})


class Brokers(Resource):
    kind = "brokers"
    listing: ClassVar[Listing[Row]] = listing(
        kind, sortable=("environment",), matches={"environment": has("environment")}
    )

    def built_in_specs(self) -> Mapping[str, Spec]:
        """The broker that answers."""
        return {settings.MOM.name: RESOURCE_TYPES[self.kind].complete(settings.MOM.name, {}, None)}


class Bridges(Resource):
    kind = "bridges"
    listing: ClassVar[Listing[Row]] = listing(
        kind,
        sortable=("hostname", "port", "protocol", "user", "desired"),
        matches={"hostname": has("hostname"), "desired": has("desired")},
    )


class Reflexes(Resource):
    kind = "reflexes"
    listing: ClassVar[Listing[Row]] = listing(
        kind,
        sortable=("position", "kind", "service", "library", "function", "enabled"),
        sort="position",
        filters={"enabled": itemgetter("enabled")},
        matches={"kind": has("kind"), "service": has("service"), "library": has("library")},
    )


class AlertRules(Resource):
    """Alert rules. Built-in rules that are not replaced have version 0."""

    kind = "alerts"
    path = "alerts/rules"
    listing: ClassVar[Listing[Row]] = listing(
        kind,
        sortable=("condition", "severity", "enabled"),
        filters={"enabled": itemgetter("enabled")},
        matches={"condition": has("condition"), "severity": has("severity")},
    )

    def built_in_specs(self) -> Mapping[str, Spec]:
        return built_in_rules()
