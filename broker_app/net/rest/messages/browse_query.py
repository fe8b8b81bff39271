"""The parameters of browsing: conditions, order, members and cursors."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection

from broker_app.base.refused import Refused
from broker_app.core.destination import parse
from broker_app.core.inspection import browse as core_browse
from broker_app.core.message import MessageIds
from broker_app.features.jobs import filters
from broker_app.features.jobs.filters import Filter
from broker_app.net.http.refusals import invalid, unknown
from broker_app.net.http.requests import Request, several
from broker_app.net.rest.messages import message_json
from broker_app.rules.event import READ

#: values of `state`; REST clients call an unsettled message `leased`
_STATES = {
    "ready": core_browse.READY,
    "unsettled": core_browse.UNSETTLED,
    "leased": core_browse.UNSETTLED,
    "delayed": core_browse.DELAYED,
}
Cursor = tuple[int, int]


def may_read(request: Request, address: str) -> bool:
    """True if the client may see the bodies of what it browses."""
    return request.access.allows(request.client, READ, parse(address))


#: the parts of `where`, each as a parameter of its own; headers are `header.<name>`
_TEXTS, _AGES, HEADER = ("q", "selector", "reason", "origin"), ("age_gt_s", "age_lt_s"), "header."
FILTERS = ("where", *_TEXTS, *_AGES)


def filter_of(query: dict[str, str]) -> Filter:
    """The filter of all conditions of a query. Raises Refused."""
    parts: dict[str, object] = {name: query[name] for name in _TEXTS if name in query}
    for name in _AGES:
        if name in query:
            try:
                parts[name] = float(query[name])
            except ValueError:
                raise invalid(f"query/{name}", "must be a number of seconds", query[name]) from None
    headers = {name[len(HEADER) :]: value for name, value in query.items() if name.startswith(HEADER)}
    if headers:
        parts["headers"] = headers
    if "where" in query and parts:
        raise invalid("query/where", "contains all conditions; leave the other parameters out")
    return filters.of(query.get("where") or parts)


def state_of(query: dict[str, str], chosen: Filter) -> str | None:
    value = query.get("state", chosen.state)
    if "state" in query and chosen.state is not None:
        raise invalid("query/where", "contains the state already; leave the parameter state out")
    if value is not None and value not in _STATES:
        raise unknown("query/state", value, _STATES, "state")
    return _STATES[value] if value is not None else None


def is_backwards(query: dict[str, str], state: str | None) -> bool:
    order = query.get("order", "oldest")
    if order not in ("oldest", "newest"):
        raise unknown("query/order", order, ("oldest", "newest"), "order")
    if order == "newest" and state == core_browse.DELAYED:
        raise invalid("query/order", "delayed messages can only be listed in the order of their due times")
    return order == "newest"


def fields_of(request: Request, address: str, query: dict[str, str], chosen: Filter) -> Collection[str]:
    """The members of a row; none stands for all. Bodies, and what is found by them, need a right of their
    own. Raises Refused."""
    names = query["fields"].split(",") if "fields" in query else ()
    fields = several("query/fields", names, message_json.BROWSED_FIELDS, "field")
    if chosen.q is not None or not message_json.BODY_FIELDS.isdisjoint(fields):
        request.permitted(READ, address)
    if "body" in fields:
        fields.append("body_base64")  # what a body that is no text is called
    if not fields and not may_read(request, address):
        return message_json.BROWSED_FIELDS - message_json.BODY_FIELDS
    return fields


def of_another_journal() -> Refused:
    return invalid(
        "query/after",
        "is of a page of another journal: a broker was set up again or restored since; begin at the first "
        "page",
    )


def is_of_cluster(query: dict[str, str]) -> bool:
    scope = query.get("scope", "cluster")
    if scope not in ("cluster", "broker"):
        raise unknown("query/scope", scope, ("cluster", "broker"), "scope")
    return scope == "cluster"


def cursor_text(cursor: Cursor, ids: MessageIds) -> str:
    text = f"{ids.tag:x}.{cursor[0]}.{cursor[1]}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def cursor_of(text: str, ids: MessageIds) -> Cursor:
    try:
        padded = text + "=" * (-len(text) % 4)
        decoded = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        journal, priority, position = decoded.split(".")
        if not (priority.isascii() and priority.isdigit() and position.isascii() and position.isdigit()):
            raise ValueError(text)
        if len(priority) > 14 or len(position) > 18:
            raise ValueError(text)
    except (ValueError, binascii.Error):
        raise invalid("query/after", "is not a cursor of an earlier page", text) from None
    if journal != f"{ids.tag:x}":
        raise of_another_journal()
    return int(priority), int(position)
