"""The changes of each version, the difference of two, and the rollback."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from broker_app.models import Bridge, Change, PolicyVersion, Token
from broker_app.web import actions, history
from broker_app.web.actions import Actor, Edit, apply
from broker_app.web.resource_types import RESOURCE_TYPES

pytestmark = pytest.mark.django_db

ANN = Actor("ann", actions.API, reason="it was a mistake")
QUEUE = "/queue/orders"


def state() -> dict[str, dict[str, Any]]:
    return {name: kind.read() for name, kind in RESOURCE_TYPES.items()}


def state_at(number: int) -> dict[str, dict[str, Any]]:
    """All specs of a version, by the differences that the history has."""
    found = state()
    for one in history.difference(history.newest(), number):
        if one.after is None:
            found[one.kind].pop(one.key, None)
        else:
            found[one.kind][one.key] = one.after
    return found


def destination(values: dict[str, Any] | None, address: str = QUEUE) -> int:
    version = apply(ANN, [Edit("destinations", address, values)]).version
    assert version is not None
    return version


def john(**said: Any) -> Edit:
    return Edit("users", "john", said, secrets={"password": "correct horse battery"})


def test_versions_are_listed_with_their_changes_newest_first() -> None:
    for most in range(1, 6):
        destination({"max_messages": most})
    assert [change.number for change in history.versions()] == [5, 4, 3, 2, 1]
    page = history.versions(before=4, limit=2)
    assert [change.number for change in page] == [3, 2]
    (changed,) = history.changes_of(page[0])
    assert (changed.kind, changed.key, changed.action) == ("destinations", QUEUE, "changed")
    assert (changed.before, changed.after) == ({"max_messages": 2}, {"max_messages": 3})


def test_a_difference_is_the_net_effect_in_both_directions() -> None:
    for values in ({"max_messages": 1}, {"max_messages": 2}, {"max_messages": 3}):
        destination(values)
    destination({}, "/queue/short-lived")
    destination(None, "/queue/short-lived")
    destination({}, "/queue/new")
    forth = {(one.key, str(one.before), str(one.after)) for one in history.difference(1, 6)}
    assert forth == {
        (QUEUE, "{'max_messages': 1}", "{'max_messages': 3}"),
        ("/queue/new", "None", "{}"),
    }
    back = {(one.key, str(one.after), str(one.before)) for one in history.difference(6, 1)}
    assert back == forth
    assert history.difference(3, 3) == []


def test_resources_created_and_removed_or_restored_do_not_differ() -> None:
    destination({"max_messages": 1})
    destination({"max_messages": 2})
    destination({"max_messages": 1})
    assert history.difference(1, 3) == []


def test_the_difference_as_text_is_a_diff_of_lines() -> None:
    destination({"max_messages": 1, "paused": "all"})
    destination({"max_messages": 2, "paused": "all"})
    assert history.text_diff(1, 2, history.difference(1, 2)) == (
        "--- destinations//queue/orders (version 1)\n"
        "+++ destinations//queue/orders (version 2)\n"
        "@@ -1,4 +1,4 @@\n"
        " {\n"
        '-  "max_messages": 1,\n'
        '+  "max_messages": 2,\n'
        '   "paused": "all"\n'
        " }\n"
    )


@pytest.mark.parametrize("wrong", [-1, 2])
def test_unknown_versions_are_refused(wrong: int) -> None:
    destination({})
    for ask in (
        lambda: history.difference(0, wrong),
        lambda: history.difference(wrong, 1),
        lambda: history.go_back(ANN, wrong),
    ):
        with pytest.raises(history.NoSuchVersion, match=f"there is no version {wrong}"):
            ask()


def test_the_state_of_a_version_is_that_of_its_time() -> None:
    seen = [state()]
    for edits in (
        [Edit("groups", "staff", {}), john(groups=["staff"])],
        [Edit("destinations", QUEUE, {"max_messages": 1}), Edit("rules", "r", {"users": ["john"]})],
        [Edit("rules", "r", {"users": ["mary"]}), Edit("destinations", QUEUE, None)],
        [Edit("users", "john", None), Edit("groups", "staff", None)],
    ):
        apply(ANN, edits)
        seen.append(state())
    assert [state_at(number) for number in range(5)] == seen


def test_a_rollback_is_a_new_version_with_the_content_of_the_old_one() -> None:
    for edits in (
        [Edit("groups", "staff", {}), Edit("destinations", QUEUE, {"max_messages": 1})],
        [Edit("destinations", QUEUE, {"max_messages": 2}), Edit("rules", "r", {"groups": ["staff"]})],
        [Edit("destinations", QUEUE, None), Edit("groups", "staff", None), Edit("brokers", "b", {})],
    ):
        apply(ANN, edits)
    for to, expected in ((1, 3), (3, 4), (2, 5), (0, 6)):
        then = state_at(to)
        back = history.go_back(ANN, to, expected)
        assert back.outcome.version == expected + 1
        assert back.kept == ()
        assert state() == then
    assert Change.objects.get(number=4).reason == "back to version 1: it was a mistake"


def test_a_rollback_to_the_current_version_changes_nothing() -> None:
    destination({})
    assert history.go_back(ANN, 1, 1).outcome == actions.ChangeResult(None, ())


def test_a_rollback_from_an_outdated_version_is_refused() -> None:
    destination({})
    destination(None)
    with pytest.raises(actions.Stale) as stale:
        history.go_back(ANN, 0, expected=1)
    assert stale.value.version == 2


def test_a_dry_run_of_a_rollback_changes_nothing() -> None:
    destination({"max_messages": 1})
    destination({"max_messages": 2})
    would = history.go_back(ANN, 1, 2, dry_run=True)
    assert RESOURCE_TYPES["destinations"].read() == {QUEUE: {"max_messages": 2}}
    assert history.go_back(ANN, 1, 2) == would


def test_one_resource_is_rolled_back_alone() -> None:
    destination({"max_messages": 1})
    destination({"max_messages": 2})
    destination({}, "/queue/other")
    back = history.go_back(ANN, 1, only=("destinations", QUEUE))
    assert [changed.key for changed in back.outcome.changed] == [QUEUE]
    assert RESOURCE_TYPES["destinations"].read() == {QUEUE: {"max_messages": 1}, "/queue/other": {}}


def test_a_rollback_keeps_resources_of_a_file() -> None:
    apply(
        ANN,
        [
            Edit("rules", "r", {"comment": "a"}, origin="zero.config:3"),
            Edit("rules", "gone", {}, origin="zero.config:4"),
        ],
    )
    apply(
        ANN,
        [
            Edit("rules", "r", {"comment": "b"}, origin="zero.config:3"),
            Edit("rules", "gone", None, origin="zero.config"),
        ],
    )
    destination({})
    back = history.go_back(ANN, 1)
    assert {(kept.key, kept.why) for kept in back.kept} == {
        ("r", "it belongs to a file: zero.config:3"),
        ("gone", "it belongs to a file: zero.config"),
    }
    assert state()["rules"]["r"]["comment"] == "b"
    assert "gone" not in state()["rules"]
    assert state()["destinations"] == {}


def test_tokens_that_are_gone_do_not_come_back_and_passwords_stay() -> None:
    apply(ANN, [john()])
    user = User.objects.get()
    kept = actions.create_token(ANN, user, "kept").token
    before = user.password
    actions.set_password(ANN, user, "another horse battery")
    changed = User.objects.get().password
    actions.revoke_token(ANN, kept)
    actions.create_token(ANN, user, "later")
    back = history.go_back(ANN, 2)
    assert {(one.kind, one.key): one.why for one in back.kept} == {
        ("tokens", "john/kept"): "a token that is gone does not come back; make a new one",
        ("users", "john"): "its password stays as it is now",
    }
    assert not Token.objects.exists(), "one that was made later goes, with what came after"
    assert User.objects.get().password == changed != before


def test_a_user_that_comes_back_has_no_password() -> None:
    apply(ANN, [john(email="john@example.com")])
    apply(ANN, [Edit("users", "john", None)])
    back = history.go_back(ANN, 1)
    assert [one.why for one in back.kept] == ["it comes back without a password; set a new one"]
    user = User.objects.get()
    assert user.email == "john@example.com"
    assert not user.has_usable_password()


def test_a_bridge_that_comes_back_has_no_password() -> None:
    apply(ANN, [Edit("bridges", "far", {"hostname": "far"}, secrets={"password": "secret"})])
    apply(ANN, [Edit("bridges", "far", None)])
    back = history.go_back(ANN, 1)
    assert [one.why for one in back.kept] == ["it comes back without a password; set a new one"]
    assert Bridge.objects.get().password == ""


def test_a_rollback_that_would_leave_no_administrator_is_refused() -> None:
    destination({})
    actions.ensure_admin("correct horse battery")
    before = state()
    with pytest.raises((ValidationError, actions.InvalidEdits), match="no active administrator"):
        history.go_back(ANN, 0)
    assert state() == before


def test_a_history_that_was_cut_begins_later() -> None:
    for most in range(1, 5):
        destination({"max_messages": most})
    Change.objects.filter(number__lte=2).delete()
    assert (history.oldest(), history.newest()) == (2, 4)
    assert state_at(2)["destinations"] == {QUEUE: {"max_messages": 2}}
    with pytest.raises(history.NoSuchVersion, match="the history begins at 2"):
        history.go_back(ANN, 1)


def test_a_configuration_older_than_its_history_has_none_to_go_back_in() -> None:
    PolicyVersion.objects.create(pk=PolicyVersion.ONLY, number=12)
    assert (history.oldest(), history.newest()) == (12, 12)
    destination({})
    assert (history.oldest(), history.newest()) == (12, 13)
