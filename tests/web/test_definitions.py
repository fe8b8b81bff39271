"""Everything that is configured as one document: exported, planned, applied whole or not at all."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st

from broker_app.models import Change
from broker_app.web import actions, definitions, snapshot
from broker_app.web.actions import Actor, Edit
from broker_app.web.definitions import InvalidDocument, from_json, from_yaml, to_json, to_yaml
from broker_app.web.resource_types import RESOURCE_TYPES

pytestmark = pytest.mark.django_db

ANN = Actor("ann", actions.API)
HEAD = {"mom_definitions": 1}
WHOLE = """\
mom_definitions: 1
groups:
  staff: {}
users:
  john: {groups: [staff], email: john@example.com}
rules:
  first: {conditions: /event/queue == "orders.>", groups: [staff]}
  second: {effect: deny, users: [john]}
destinations:
  /queue/orders: {max_messages: 10, paused: none}
brokers:
  here: {environment: production}
bridges:
  far: {hostname: far.example, user: mom}
"""


def read(document: dict[str, Any]) -> definitions.Document:
    return from_json(json.dumps({**HEAD, **document}).encode())


def apply(document: definitions.Document, *, prune: bool = False) -> definitions.ImportPlan:
    return definitions.apply(ANN, document, prune=prune, expected=None)


def by_action(plan: definitions.ImportPlan) -> dict[str, str]:
    return {f"{change.kind}/{change.key}": change.action for change in plan.changes}


# ---------------------------------------------------------------------- plan, then apply


def test_a_document_is_planned_applied_and_then_changes_nothing_more() -> None:
    document = from_yaml(WHOLE.encode())
    planned = definitions.plan(ANN, document, prune=False)
    assert by_action(planned) == dict.fromkeys(
        ("groups/staff", "users/john", "rules/first", "rules/second", "destinations//queue/orders",
         "brokers/here", "bridges/far"),
        "created",
    )  # fmt: skip
    assert planned.bare == (("users", "john"), ("bridges", "far"))
    assert snapshot.read_version() == 0 and not User.objects.exists()

    assert definitions.apply(ANN, document, prune=False, expected=planned.version) == planned
    assert Change.objects.count() == 1
    again = apply(document)
    assert (again.changes, again.unchanged) == ((), 7)
    assert Change.objects.count() == 1


def test_an_export_that_was_imported_exports_the_same() -> None:
    apply(from_yaml(WHOLE.encode()))
    exported = definitions.export()
    assert exported["version"] == 1
    for text, read in ((to_json(exported), from_json), (to_yaml(exported), from_yaml)):
        planned = definitions.plan(ANN, read(text.encode()), prune=True)
        assert (planned.changes, planned.unchanged) == ((), 7)
    actions.apply(ANN, [Edit("destinations", "/queue/orders", None), Edit("rules", "second", None)])
    apply(from_json(to_json(exported).encode()))
    assert definitions.export() == {**exported, "version": 3}


def test_resources_missing_from_the_document_stay_unless_they_are_pruned() -> None:
    apply(read({"groups": {"a": {}, "b": {}}, "brokers": {"here": {}}}))
    partly = read({"groups": {"b": {}, "c": {}}})
    assert by_action(definitions.plan(ANN, partly, prune=False)) == {"groups/c": "created"}
    pruned = apply(partly, prune=True)
    assert by_action(pruned) == {"groups/a": "removed", "groups/c": "created"}
    assert list(RESOURCE_TYPES["groups"].read()) == ["b", "c"]
    assert list(RESOURCE_TYPES["brokers"].read()) == ["here"], (
        "a kind that the document does not have is let alone"
    )


def test_pruning_a_user_removes_its_tokens() -> None:
    user = actions.create_user(ANN, "john", "correct horse battery")
    actions.create_token(ANN, user, "laptop")
    assert by_action(definitions.plan(ANN, read({"users": {}}), prune=True)) == {
        "users/john": "removed",
        "tokens/john/laptop": "removed",
    }


def test_a_plan_of_another_version_is_refused() -> None:
    document = read({"groups": {"a": {}}})
    planned = definitions.plan(ANN, document, prune=False)
    actions.apply(ANN, [Edit("groups", "b", {})])
    with pytest.raises(actions.Stale):
        definitions.apply(ANN, document, prune=False, expected=planned.version)
    assert list(RESOURCE_TYPES["groups"].read()) == ["b"]


def test_plans_of_different_documents_differ() -> None:
    one, other = read({"groups": {"a": {}}}), read({"groups": {"b": {}}})
    digests = {
        definitions.plan(ANN, document, prune=prune).digest
        for document in (one, other)
        for prune in (False, True)
    }
    assert len(digests) == 4


def test_existing_passwords_stay_and_users_keep_logging_in() -> None:
    user = actions.create_user(ANN, "john", "correct horse battery")
    apply(read({"users": {"john": {"email": "john@example.com"}}}))
    user.refresh_from_db()
    assert user.email == "john@example.com"
    assert user.check_password("correct horse battery")


# ---------------------------------------------------------------------- files


def test_only_a_contradiction_of_a_file_is_a_conflict() -> None:
    actions.apply(
        ANN, [Edit("groups", "a", {}), Edit("rules", "r", {"comment": "a"}, origin="zero.config:3")]
    )
    agrees = read({"rules": {"r": {"comment": "a"}}, "groups": {}})
    planned = definitions.plan(ANN, agrees, prune=True)
    assert (by_action(planned), planned.conflicts, planned.unchanged) == ({"groups/a": "removed"}, (), 1)
    differs = read({"rules": {"r": {"comment": "b"}}, "groups": {"new": {}}})
    planned = definitions.plan(ANN, differs, prune=False)
    assert planned.conflicts == (("rules", "r", "zero.config:3"),)
    with pytest.raises(actions.Conflict, match=r"rule r belongs to zero\.config:3"):
        apply(differs)
    assert "new" not in RESOURCE_TYPES["groups"].read()


def test_resources_of_a_file_are_not_pruned() -> None:
    actions.apply(ANN, [Edit("rules", "r", {}, origin="zero.config:3")])
    pruned = apply(read({"rules": {}}), prune=True)
    assert (pruned.changes, pruned.kept) == ((), (("rules", "r", "zero.config:3"),))


# ---------------------------------------------------------------------- order


def test_rules_without_positions_are_in_the_order_of_the_document() -> None:
    apply(read({"rules": {"z": {}, "a": {}, "m": {"position": 500}, "b": {}}}))
    rules = RESOURCE_TYPES["rules"].read()
    assert [(name, rules[name]["position"]) for name in ("z", "a", "m", "b")] == [
        ("z", 10), ("a", 20), ("m", 500), ("b", 510),
    ]  # fmt: skip


# ---------------------------------------------------------------------- what will not do


def faults(content: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidDocument) as refused:
        definitions.plan(ANN, read(content), prune=False)
    return {fault.pointer: fault.detail for fault in refused.value.faults}


def test_all_errors_are_reported_with_their_positions_and_nothing_is_changed() -> None:
    found = faults(
        {
            "rules": {"r": {"efect": "deny"}, "good": {}},
            "users": {"john": {"groups": ["nobody's"]}},
            "destinations": {"/queue/a~b": {"max_messages": -1}},
        }
    )
    assert "did you mean effect?" in found["/rules/r/efect"]
    assert set(found) >= {"/rules/r/efect", "/destinations/~1queue~1a~0b/max_messages"}
    assert faults({"users": {"john": {"groups": ["nobody's"]}}}).keys() == {"/users/john/groups"}
    assert Change.objects.count() == 0


def test_secrets_are_no_part_of_a_document() -> None:
    assert (
        "there is no such field"
        in faults({"users": {"john": {"password": "marker-secret"}}})["/users/john/password"]
    )
    assert faults({"tokens": {}})["/tokens"] == "tokens are no part of definitions"


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        (b"{}", "", "begins with"),
        (b"[]", "", "begins with"),
        (b"null", "", "begins with"),
        (b'{"mom_definitions": 2}', "/mom_definitions", "must be 1"),
        (b'{"mom_definitions": true}', "/mom_definitions", "must be 1"),
        (b'{"mom_definitions": 1, "rulez": {}}', "/rulez", "did you mean rules?"),
        (b'{"mom_definitions": 1, "rules": []}', "/rules", "must be an object"),
        (b'{"mom_definitions": 1, "rules": {"a": 1}}', "/rules/a", "must be an object"),
        (b'{"mom_definitions": 1,\n"rules": }', "", "line 2, column 10"),
        (b'{"mom_definitions": 1, "rules": {"a": {}, "a": {}}}', "", "a occurs twice"),
        (b'{"mom_definitions": NaN}', "", "NaN is no JSON"),
        (b"\xff", "", "byte 0 is not UTF-8"),
        (b"[" * 100_000, "", "nested too deeply"),
    ],
)
def test_invalid_json_is_reported_with_its_position(text: bytes, place: str, what: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        from_json(text)
    (fault,) = refused.value.faults
    assert fault.pointer == place
    assert what in fault.detail


BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (BOMB, "line 2, column 8: an alias"),
        ("mom_definitions: 1\nrules: {a: {}, a: {}}", "line 2, column 16: a occurs twice"),
        ("mom_definitions: 1\nrules: [", "line 3, column 1: while parsing a flow node"),
        ("mom_definitions: 1\nrules: {[a]: {}}", "line 2, column 9: a name must be a text"),
        ("mom_definitions: 1\nrules: !!python/object/apply:os.system [true]", "line 2, column 8: could not"),
        ("mom_definitions: 1\nrules: {a: {1: 2}}", "must be an object with a text as its name"),
        ("mom_definitions: 1\nrules: {1: {}}", "must be an object with a text as its name"),
        ("--- {}\n--- {}", "expected a single document"),
        ("[" * 100_000, "nested too deeply"),
        ("a: \0", "control characters are not allowed"),
        ("mom_definitions: 1\n? " * 60, ""),
    ],
)
def test_invalid_yaml_is_reported_with_its_position(text: str, what: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        from_yaml(text.encode())
    assert what in str(refused.value)


def test_a_document_without_end_is_refused() -> None:
    for read_it in (from_json, from_yaml):
        with pytest.raises(InvalidDocument, match="more than 8388608 bytes"):
            read_it(b" " * (definitions.MAX_BYTES + 1))


def test_a_date_in_yaml_is_a_text() -> None:
    assert from_yaml(b"mom_definitions: 1\nbrokers: {b: {comment: 2026-01-01}}")["brokers"]["b"] == {
        "comment": "2026-01-01"
    }


@pytest.mark.parametrize("value", [".inf", ".nan", "!!binary AAAA", "!!set {a}"])
def test_text_that_is_not_json_is_refused_with_its_position(value: str) -> None:
    document = from_yaml(
        f"mom_definitions: 1\ndestinations: {{/queue/a: {{retry_delay_s: {value}}}}}".encode()
    )
    with pytest.raises(InvalidDocument, match="/destinations/~1queue~1a: the spec must be JSON"):
        definitions.plan(ANN, document, prune=False)


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=5))
def test_any_text_survives_conversion_through_yaml_and_json(said: dict[str, str]) -> None:
    document = {**HEAD, "brokers": {"b": said}}
    try:
        text = to_yaml(document).encode()
    except UnicodeEncodeError:
        return
    assert from_yaml(text) == from_json(to_json(document).encode())


def test_the_example_of_the_documents_can_be_applied() -> None:
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(mom_definitions.*?)```", text, re.DOTALL)
    assert len(apply(from_yaml(example.encode())).changes) == 3
