"""Settings of destinations are checked, stored, versioned, and reach the policy."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from broker_app.models import DestinationSettings
from broker_app.web import actions, snapshot
from broker_app.web.resource_types import destinations

pytestmark = pytest.mark.django_db

A = "/queue/a"


def say(address: str, values: dict[str, Any], expected: int | None = None) -> actions.DestinationSpec:
    actions.apply(actions.SYSTEM, [actions.Edit("destinations", address, values, expected)])
    row = actions.destination_spec(address)
    assert row is not None
    return row


def forget(address: str, expected: int) -> bool:
    edit = actions.Edit("destinations", address, None, expected)
    return bool(actions.apply(actions.SYSTEM, [edit]).changed)


def test_new_settings_replace_the_old_ones_and_raise_the_version() -> None:
    first = say(A, {"max_messages": 10, "retry_delay_s": 0.5}, expected=0)
    assert first.version == snapshot.read_version()
    second = say(A, {"max_bytes": 7}, expected=first.version)
    assert second.version == first.version + 1 == snapshot.read_version()
    policy = snapshot.read_policy(anonymous=False)
    assert policy.destinations.policies.of(A).max_bytes == 7
    assert policy.destinations.policies.of(A).max_messages == 0
    assert policy.destinations.version(A) == second.version


def test_saving_the_same_settings_changes_nothing() -> None:
    first = say(A, {"max_messages": 10}, expected=None)
    assert say(A, {"max_messages": 10}, expected=None).version == first.version
    assert snapshot.read_version() == first.version


def test_a_change_of_what_others_have_changed_is_refused() -> None:
    row = say(A, {}, expected=0)
    for expected in (0, row.version + 1):
        with pytest.raises(actions.Stale) as stale:
            say(A, {"max_bytes": 1}, expected=expected)
        assert stale.value.version == row.version
    with pytest.raises(actions.Stale):
        forget(A, expected=0)


def test_settings_are_reset() -> None:
    row = say(A, {"max_messages": 10}, expected=0)
    assert forget(A, expected=row.version)
    assert snapshot.read_version() == row.version + 1
    assert not forget(A, expected=0)
    assert snapshot.read_version() == row.version + 1
    again = say(A, {}, expected=0)
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
def test_invalid_settings_are_refused_and_change_nothing(address: str, values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        say(address, values, expected=None)
    assert not DestinationSettings.objects.exists()
    assert snapshot.read_version() == 0


def test_the_number_of_settings_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "MOST", 1)
    say(A, {}, expected=None)
    with pytest.raises(ValidationError):
        say("/queue/b", {}, expected=None)


@pytest.mark.parametrize(("before", "after"), [({"local_only": True}, {}), ({}, {"local_only": True})])
def test_local_only_is_fixed_when_a_destination_is_declared(
    before: dict[str, bool], after: dict[str, bool]
) -> None:
    say(A, before)
    with pytest.raises(ValidationError, match="fixed when the destination is declared"):
        say(A, after)
    say(A, {**before, "max_messages": 7})
    forget(A, expected=actions.version_of("destinations", A))
    assert say(A, after).values == after
