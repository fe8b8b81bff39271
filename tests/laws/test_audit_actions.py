"""Each action of the audit log is declared once, with its facts, and has a German label."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from django.utils.translation import override

from broker_app.base import audit_actions
from broker_app.base.audit_actions import ACTIONS, CHANGES, KINDS, AuditAction
from broker_app.web.console.base.labels import done, one_of
from broker_app.web.resource_types import RESOURCE_TYPES
from tests.support import checkout
from tests.support.checkout import ROOT

#: what takes a declared action: its place among the arguments
_TAKE = {"audit": 0, "audit_read": 0, "of": 0, "note": 1}


def records() -> Iterator[tuple[str, ast.Call, AuditAction]]:
    """Each call of the broker that records an action by its constant, with its file."""
    for name in checkout.files("broker_app/*.py"):
        source = (ROOT / name).read_text(encoding="utf-8")
        if "audit_actions" in source:
            for call in (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Call)):
                if (action := taken(call)) is not None:
                    yield name, call, action


def taken(call: ast.Call) -> AuditAction | None:
    """The action that a call records; None for other calls."""
    place = _TAKE.get(call.func.attr) if isinstance(call.func, ast.Attribute) else None
    if place is None or len(call.args) <= place or not isinstance(call.args[place], ast.Name):
        return None
    action = getattr(audit_actions, ast.unparse(call.args[place]), None)
    return action if isinstance(action, AuditAction) else None


def undeclared(call: ast.Call, action: AuditAction) -> set[str]:
    """The facts that a call records and the declaration lacks."""
    return {one.arg for one in call.keywords if one.arg is not None} - {*action.fields}


def test_no_action_is_recorded_with_a_fact_that_is_not_declared() -> None:
    found = {(name, call.lineno): undeclared(call, action) for name, call, action in records()}
    assert {where: facts for where, facts in found.items() if facts} == {}
    assert len(found) > 30


def test_a_fact_that_is_not_declared_would_be_found() -> None:
    (call,) = (
        one
        for one in ast.walk(ast.parse("request.audit(JOB_UNDONE, name, by=a, colour=b)"))
        if isinstance(one, ast.Call)
    )
    action = taken(call)
    assert action is audit_actions.JOB_UNDONE
    assert undeclared(call, action) == {"colour"}


def test_each_declared_action_is_recorded_somewhere() -> None:
    text = "\n".join(
        (ROOT / name).read_text(encoding="utf-8")
        for name in checkout.files("broker_app/*.py")
        if name != "broker_app/base/audit_actions.py"
    )
    constants = {name for name, value in vars(audit_actions).items() if isinstance(value, AuditAction)}
    returned = {"QUEUE_READ", "TOPIC_READ"}  # by `read_of`
    assert len(constants) == len(ACTIONS)
    assert {name for name in constants - returned if not re.search(rf"\b{name}\b", text)} == set()


def test_an_action_is_declared_once_for_a_kind_that_has_a_label() -> None:
    names = [(one.kind, one.name) for one in ACTIONS]
    assert len(set(names)) == len(names)
    assert {one.kind for one in ACTIONS} <= {*KINDS, *RESOURCE_TYPES}
    assert not KINDS.keys() & RESOURCE_TYPES.keys()


def test_each_action_and_each_kind_has_a_german_label() -> None:
    names, kinds = {*CHANGES, *(one.name for one in ACTIONS)}, {*KINDS, *RESOURCE_TYPES}
    with override("de"):
        same = {name for name in names if done(name) == name}
        same |= {kind for kind in kinds if str(one_of(kind)) in (kind, KINDS.get(kind))}
    assert same <= {"job", "cluster", "callbacks", "token", "tokens"}, "they have no German"
