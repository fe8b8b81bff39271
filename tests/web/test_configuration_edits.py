"""The laws of the one via to change the configuration."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import Model
from django.utils import timezone

from broker_app.models import AuditChain, AuditEntry, Bridge, Change, ChangedObject, Entry, Rule, Token
from broker_app.web import actions, snapshot
from broker_app.web.actions import Actor, ChangeResult, Edit, apply, audit
from broker_app.web.resource_types import RESOURCE_TYPES

pytestmark = pytest.mark.django_db

ANN = Actor("ann", actions.API, "192.0.2.7", token="laptop", reason="spring cleaning", trace_id="4b" * 16)
QUEUE = "/queue/orders"


def said(kind: str, key: str) -> dict[str, Any] | None:
    return RESOURCE_TYPES[kind].read([key]).get(key)


def rows() -> dict[str, list[dict[str, Any]]]:
    """All that the configuration database holds."""
    models: tuple[type[Model], ...] = (
        User, Group, Token, Rule, Bridge, Entry, Change, ChangedObject, AuditEntry, AuditChain,
    )  # fmt: skip
    return {model.__name__: list(model._default_manager.order_by("pk").values()) for model in models}


def john(**said: Any) -> Edit:
    return Edit("users", "john", said, secrets={"password": "correct horse battery"})


# ---------------------------------------------------------------------- all or nothing


@pytest.mark.parametrize(
    "wrong",
    [
        Edit("rules", "second", {"effect": "perhaps"}),
        Edit("users", "mary", {"groups": ["no such group"]}),
        Edit("destinations", "/nowhere/a", {}),
        Edit("users", "mary", {}, secrets={"password": "short"}),
        Edit("bridges", "far", {"hostname": "far", "port": 0}),
        Edit("brokers", "here", {"settings": {"no_such_setting": 1}}),
        Edit("tokens", "john/laptop", {"grants": []}),
        Edit("rules", "second", {"comment": "half a sign: \ud800"}),
        Edit("rules", "second", {"comment": "nothing: \0"}),
        Edit("destinations", QUEUE, {"retry_delay_s": float("inf")}),
        Edit("groups", "g", {"members": ["john"]}),
    ],
)
def test_one_wrong_edit_among_right_ones_leaves_everything_as_it_was(wrong: Edit) -> None:
    apply(ANN, [john()])
    before = rows()
    with pytest.raises(actions.InvalidEdits) as refused:
        apply(ANN, [Edit("rules", "first", {}), wrong, Edit("groups", "staff", {})])
    assert [edit for edit, _ in refused.value.faults] == [wrong]
    assert f"{wrong.kind} {wrong.key}" in str(refused.value)
    assert rows() == before


def test_errors_of_a_single_edit_are_reported_by_field() -> None:
    with pytest.raises(ValidationError) as refused:
        apply(ANN, [Edit("rules", "first", {"efect": "deny"})])
    assert "did you mean effect?" in refused.value.message_dict["efect"][0]


def test_all_errors_of_an_import_are_reported_together() -> None:
    with pytest.raises(actions.InvalidEdits) as refused:
        apply(ANN, [Edit("rules", f"r{n}", {"effect": "perhaps"}) for n in range(7)])
    assert len(refused.value.faults) == 7


def test_two_edits_of_one_resource_are_refused() -> None:
    with pytest.raises(actions.Conflict, match="rule first is edited twice"):
        apply(ANN, [Edit("rules", "first", {}), Edit("rules", "first", None)])
    assert not Rule.objects.exists()


# ---------------------------------------------------------------------- versions


def test_an_unchanged_edit_writes_nothing() -> None:
    edits = [Edit("groups", "staff", {}), Edit("rules", "r", {"groups": ["staff"], "comment": "all of them"})]
    assert apply(ANN, edits).version == 1
    before = rows()
    assert apply(ANN, edits) == ChangeResult(None, ())
    assert apply(ANN, [Edit("rules", "unknown", None)]) == ChangeResult(None, ())
    assert rows() == before


def test_one_change_has_one_version_for_all_that_it_wrote() -> None:
    outcome = apply(ANN, [Edit("groups", "staff", {}), Edit("destinations", QUEUE, {"max_messages": 5})])
    assert outcome.version == 1 == snapshot.read_version()
    assert {(row.kind, row.key): row.version for row in Entry.objects.all()} == {
        ("groups", "staff"): 1,
        ("destinations", QUEUE): 1,
    }
    apply(ANN, [Edit("destinations", QUEUE, {"max_messages": 6}, expected=1), Edit("groups", "staff", {})])
    assert (actions.version_of("destinations", QUEUE), actions.version_of("groups", "staff")) == (2, 1)


def test_versions_only_grow_even_over_what_was_removed_and_made_again() -> None:
    seen = []
    for said in ({}, None, {}, {"max_messages": 1}, None, {}):
        apply(ANN, [Edit("destinations", QUEUE, said)])
        seen.append(actions.version_of("destinations", QUEUE))
    assert seen == [1, 0, 3, 4, 0, 6]
    assert list(Change.objects.order_by("number").values_list("number", flat=True)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_an_edit_of_another_version_is_refused_with_the_current_version(expected: int) -> None:
    apply(ANN, [Edit("groups", "staff", {})])
    apply(ANN, [Edit("destinations", QUEUE, {})])
    with pytest.raises(actions.Stale) as stale:
        apply(ANN, [Edit("groups", "more", {}), Edit("destinations", QUEUE, None, expected)])
    assert stale.value.version == 2
    assert said("groups", "more") is None


# ---------------------------------------------------------------------- files


def test_a_resource_of_a_file_is_changed_by_the_file_alone() -> None:
    apply(ANN, [Edit("rules", "r", {"comment": "a"}, origin="zero.config:31")])
    for edit in (Edit("rules", "r", {"comment": "b"}), Edit("rules", "r", None)):
        with pytest.raises(actions.Conflict, match=r"zero\.config:31; change it there"):
            apply(ANN, [edit])
    apply(ANN, [Edit("rules", "r", {"comment": "b"}, origin="zero.config:31")])
    apply(ANN, [Edit("rules", "r", None, origin="zero.config")])
    assert said("rules", "r") is None


def test_a_resource_that_moved_to_another_line_has_its_new_position() -> None:
    apply(ANN, [Edit("rules", "r", {}, origin="zero.config:31")])
    apply(ANN, [Edit("rules", "r", {}, origin="zero.config:32")])
    assert Entry.objects.get().origin == "zero.config:32"


# ---------------------------------------------------------------------- order


def test_a_reference_may_precede_its_target() -> None:
    apply(ANN, [john(groups=["staff"]), Edit("groups", "staff", {})])
    assert [group.name for group in User.objects.get().groups.all()] == ["staff"]
    apply(ANN, [Edit("groups", "staff", None), Edit("users", "john", None)])
    assert not User.objects.exists() and not Group.objects.exists()


def test_a_group_goes_with_the_edit_that_takes_its_members_out() -> None:
    apply(ANN, [john(groups=["staff"]), Edit("groups", "staff", {})])
    with pytest.raises(ValidationError, match="users are in this group: john"):
        apply(ANN, [Edit("groups", "staff", None)])
    apply(ANN, [Edit("groups", "staff", None), Edit("users", "john", {})])
    assert said("groups", "staff") is None


def test_tokens_go_with_their_owner_and_are_recorded() -> None:
    apply(ANN, [john()])
    secret = actions.create_token(ANN, User.objects.get(), "laptop", grants=None).secret
    outcome = apply(ANN, [Edit("users", "john", None)])
    assert not Token.objects.exists()
    assert {(one.kind, one.key, one.action) for one in outcome.changed} == {
        ("users", "john", "removed"),
        ("tokens", "john/laptop", "removed"),
    }
    recorded = ChangedObject.objects.get(kind="tokens", after__isnull=True)
    assert recorded.before == {"grants": None, "expires": None}
    assert AuditEntry.objects.filter(kind="tokens", key="john/laptop", action="removed").exists()
    assert secret not in str(rows())


# ---------------------------------------------------------------------- the last administrator


def test_the_last_administrator_stays() -> None:
    actions.ensure_admin("correct horse battery")
    for said in (None, {"administrator": False}, {"administrator": True, "active": False}):
        with pytest.raises(ValidationError, match="no active administrator would be left"):
            apply(ANN, [Edit("users", "admin", said)])
    assert User.objects.get().is_superuser


@pytest.mark.parametrize("first", ["admin", "john"])
def test_administration_is_handed_over_in_one_change_whatever_the_order(first: str) -> None:
    actions.ensure_admin("correct horse battery")
    edits = [Edit("users", "admin", {"administrator": False}), john(administrator=True)]
    apply(ANN, edits if first == "admin" else edits[::-1])
    assert list(User.objects.filter(is_superuser=True).values_list("username", flat=True)) == ["john"]


# ---------------------------------------------------------------------- dry runs


def test_a_dry_run_shows_the_result_and_changes_nothing() -> None:
    told = []
    actions.policy_changed.connect(lambda **_: told.append(1), weak=False, dispatch_uid="dry")
    try:
        apply(ANN, [Edit("rules", "old", {})])
        before, edits = (
            rows(),
            [Edit("rules", "old", None), Edit("groups", "staff", {}), john(groups=["staff"])],
        )
        would = apply(ANN, edits, dry_run=True)
        assert rows() == before
        with pytest.raises(actions.InvalidEdits):
            apply(ANN, [*edits, Edit("users", "mary", {"groups": ["nobody's"]})], dry_run=True)
        assert rows() == before
        assert apply(ANN, edits) == would
    finally:
        actions.policy_changed.disconnect(dispatch_uid="dry")


def test_a_dry_run_within_a_greater_transaction_leaves_that_alone() -> None:
    apply(ANN, [Edit("groups", "a", {})])
    apply(ANN, [Edit("groups", "b", {})], dry_run=True)
    apply(ANN, [Edit("groups", "c", {})])
    assert [group.name for group in Group.objects.order_by("name")] == ["a", "c"]
    assert snapshot.read_version() == 2


# ---------------------------------------------------------------------- history and audit


def test_each_change_is_kept_with_its_author_and_both_sides() -> None:
    apply(ANN, [Edit("destinations", QUEUE, {"max_messages": 5})])
    apply(ANN, [Edit("destinations", QUEUE, {"max_messages": 6})])
    apply(ANN, [Edit("destinations", QUEUE, None)])
    change = Change.objects.get(number=2)
    assert (change.author, change.via, change.address, change.reason) == (
        "ann", "api", "192.0.2.7", "spring cleaning",
    )  # fmt: skip
    assert list(ChangedObject.objects.order_by("change_id").values_list("before", "after")) == [
        (None, {"max_messages": 5}),
        ({"max_messages": 5}, {"max_messages": 6}),
        ({"max_messages": 6}, None),
    ]
    entries = list(AuditEntry.objects.order_by("number"))
    assert [(entry.action, entry.change) for entry in entries] == [
        ("created", 1),
        ("changed", 2),
        ("removed", 3),
    ]
    assert all(
        (entry.author, entry.token, entry.trace_id) == ("ann", "laptop", "4b" * 16) for entry in entries
    )


def test_a_replaced_password_is_named_in_history_and_audit() -> None:
    apply(ANN, [john()])
    actions.set_password(ANN, User.objects.get(), "another horse battery")
    assert ChangedObject.objects.get(change=2).secrets == ["password"]
    entry = AuditEntry.objects.get(change=2)
    assert (entry.action, entry.before == entry.after, entry.secrets) == ("changed", True, ["password"])


def some_entries() -> None:
    for number in range(5):
        apply(ANN, [Edit("groups", f"g{number}", {}), Edit("rules", f"r{number}", {})])


def test_the_chain_of_the_audit_log_is_valid() -> None:
    assert audit.verify() == audit.AuditVerdict(0, 1, 0, None)
    some_entries()
    assert audit.verify() == audit.AuditVerdict(10, 1, 10, None)


@pytest.mark.parametrize(
    ("action", "broken_at"),
    [
        (lambda log: log.filter(number=4).update(author="somebody else"), 4),
        (lambda log: log.filter(number=4).update(after={"comment": "another"}), 4),
        (lambda log: log.filter(number=4).update(time=timezone.now()), 4),
        (lambda log: log.filter(number=4).update(number=40), 4),
        (lambda log: log.filter(number__in=(4, 5)).delete(), 4),
        (lambda log: log.filter(number=1).delete(), 1),
        (lambda log: log.filter(number__gte=9).delete(), 9),
        (lambda log: log.all().delete(), 1),
    ],
)
def test_altered_or_removed_entries_are_detected(action: Callable[[Any], object], broken_at: int) -> None:
    some_entries()
    action(AuditEntry.objects)
    assert audit.verify().broken_at == broken_at


def test_old_entries_are_deleted_and_the_rest_still_verifies() -> None:
    some_entries()
    middle = AuditEntry.objects.get(number=5).time
    assert audit.prune(middle) == 4
    assert audit.verify() == audit.AuditVerdict(6, 5, 10, None)
    assert audit.prune(timezone.now() + timedelta(days=1), most=4) == 4
    assert audit.prune(timezone.now() + timedelta(days=1)) == 2
    assert audit.verify() == audit.AuditVerdict(0, 11, 10, None)
    assert audit.prune(timezone.now()) == 0
    apply(ANN, [Edit("groups", "later", {})])
    assert audit.verify() == audit.AuditVerdict(1, 11, 11, None)


# ---------------------------------------------------------------------- secrets


def test_secrets_are_stored_only_where_they_are_needed() -> None:
    edits = [
        Edit("users", "john", {}, secrets={"password": "marker one of many"}),
        Edit("bridges", "far", {"hostname": "far.example"}, secrets={"password": "marker two of many"}),
    ]
    outcome = apply(ANN, edits)
    new = actions.create_token(ANN, User.objects.get(), "laptop")
    assert "marker" not in repr(edits) + repr(outcome) + repr(new)
    with pytest.raises(ValidationError) as refused:
        apply(ANN, [Edit("users", "mary", {}, secrets={"password": "mark"})])
    assert "mark" not in str(refused.value)
    everything = rows()
    assert "marker two of many" not in everything["Bridge"][0]["password"]
    assert "marker" not in str(everything) and new.secret not in str(everything)


# ---------------------------------------------------------------------- writers at the same time


@pytest.mark.django_db(transaction=True)
def test_writers_at_the_same_time_take_turns() -> None:
    writers, each = 4, 10
    failures: list[BaseException] = []
    barrier = threading.Barrier(writers)

    def write(writer: int) -> None:
        try:
            barrier.wait()
            for number in range(each):
                apply(Actor(f"writer{writer}", actions.API), [Edit("groups", f"{writer}.{number}", {})])
        except BaseException as failure:
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert snapshot.read_version() == writers * each == Change.objects.count() == Group.objects.count()
    assert audit.verify() == audit.AuditVerdict(writers * each, 1, writers * each, None)


@pytest.mark.django_db(transaction=True)
def test_of_two_that_replace_the_same_version_one_is_refused() -> None:
    apply(ANN, [Edit("destinations", QUEUE, {})])
    stale: list[int] = []
    barrier = threading.Barrier(2)

    def write(most: int) -> None:
        try:
            barrier.wait()
            apply(ANN, [Edit("destinations", QUEUE, {"max_messages": most}, expected=1)])
        except actions.Stale as refused:
            stale.append(refused.version)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(most,)) for most in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stale == [2]
    assert actions.version_of("destinations", QUEUE) == 2


@pytest.mark.slow
def test_an_import_of_two_thousand_is_one_change() -> None:
    edits = [Edit("destinations", f"/queue/q{number}", {"max_messages": number}) for number in range(2_000)]
    assert apply(ANN, edits).version == 1
    assert ChangedObject.objects.count() == AuditEntry.objects.count() == Entry.objects.count() == 2_000
    assert apply(ANN, edits).version is None
    assert apply(ANN, [Edit(edit.kind, edit.key, None) for edit in edits]).version == 2
