"""What administrators say about destinations is checked, kept, versioned, and reaches the policy."""

import pytest
from django.core.exceptions import ValidationError

from broker_app.models import DestinationSettings
from broker_app.web import actions, snapshot
from broker_app.web.kinds import destinations

pytestmark = pytest.mark.django_db

A = "/queue/a"


def test_what_is_said_replaces_what_was_said_and_raises_the_version() -> None:
    first = actions.set_destination(actions.SYSTEM, A, {"max_messages": 10, "retry_delay_s": 0.5}, expected=0)
    assert first.version == snapshot.read_version()
    second = actions.set_destination(actions.SYSTEM, A, {"max_bytes": 7}, expected=first.version)
    assert second.version == first.version + 1 == snapshot.read_version()
    policy = snapshot.read_policy(anonymous=False)
    assert policy.destinations.policies.of(A).max_bytes == 7
    assert policy.destinations.policies.of(A).max_messages == 0
    assert policy.destinations.version(A) == second.version


def test_saying_the_same_again_changes_nothing() -> None:
    first = actions.set_destination(actions.SYSTEM, A, {"max_messages": 10}, expected=None)
    assert (
        actions.set_destination(actions.SYSTEM, A, {"max_messages": 10}, expected=None).version
        == first.version
    )
    assert snapshot.read_version() == first.version


def test_a_change_adds_replaces_and_takes_back() -> None:
    actions.set_destination(actions.SYSTEM, A, {"max_messages": 10, "max_bytes": 7}, expected=None)
    row = actions.change_destination(
        actions.SYSTEM, A, {"max_messages": None, "max_bytes": 8, "paused": "all"}, expected=None
    )
    assert row.values == {"max_bytes": 8, "paused": "all"}
    fresh = actions.change_destination(actions.SYSTEM, "/queue/b", {"max_messages": None}, expected=0)
    assert fresh.values == {}


def test_a_change_of_what_others_have_changed_is_refused() -> None:
    row = actions.set_destination(actions.SYSTEM, A, {}, expected=0)
    for expected in (0, row.version + 1):
        with pytest.raises(actions.Stale) as stale:
            actions.set_destination(actions.SYSTEM, A, {"max_bytes": 1}, expected=expected)
        assert stale.value.version == row.version
    with pytest.raises(actions.Stale):
        actions.forget_destination(actions.SYSTEM, A, expected=0)
    with pytest.raises(actions.Stale):
        actions.change_destination(actions.SYSTEM, "/queue/b", {}, expected=5)


def test_what_was_said_is_taken_back() -> None:
    row = actions.set_destination(actions.SYSTEM, A, {"max_messages": 10}, expected=0)
    assert actions.forget_destination(actions.SYSTEM, A, expected=row.version)
    assert snapshot.read_version() == row.version + 1
    assert not actions.forget_destination(actions.SYSTEM, A, expected=0)
    assert snapshot.read_version() == row.version + 1
    again = actions.set_destination(actions.SYSTEM, A, {}, expected=0)
    assert again.version > row.version, "a version is never used twice"


@pytest.mark.parametrize(
    ("address", "values"),
    [
        (A, {"max_mesages": 1}),
        (A, {"max_messages": -1}),
        ("/nowhere/a", {}),
        ("/queue/$mom", {"max_bytes": 1}),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(address: str, values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        actions.set_destination(actions.SYSTEM, address, values, expected=None)
    with pytest.raises(ValidationError):
        actions.change_destination(actions.SYSTEM, address, values, expected=None)
    assert not DestinationSettings.objects.exists()
    assert snapshot.read_version() == 0


def test_taking_back_what_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationError):
        actions.change_destination(actions.SYSTEM, A, {"colour": None}, expected=None)


def test_there_is_an_end_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "MOST", 1)
    actions.set_destination(actions.SYSTEM, A, {}, expected=None)
    with pytest.raises(ValidationError):
        actions.set_destination(actions.SYSTEM, "/queue/b", {}, expected=None)
