"""Changes of other brokers reach the configuration, and those of administrators are proposed to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from broker_app.base.refused import Refused
from broker_app.features.cluster.record.change_record import Change, ChangeRecord, Entry, Version
from broker_app.features.cluster.record.destination_changes import Applied, DestinationChanges, WantedValues
from broker_app.models import AuditEntry
from broker_app.web import actions, snapshot
from broker_app.web.cluster_configuration import ClusterConfiguration, ProposedChanges

pytestmark = pytest.mark.django_db

A, B, C = "/queue/a", "/queue/b", "/queue/c"


@pytest.fixture(autouse=True)
def one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of the test stays open; a broker applies changes in a thread."""
    monkeypatch.setattr(connection, "close", lambda: None, raising=False)


def declare(address: str, values: dict[str, Any] | None, origin: str = "") -> None:
    actions.apply(actions.SYSTEM, [actions.Edit("destinations", address, values, origin=origin)])


def rows() -> dict[str, dict[str, Any]]:
    found = snapshot.read_policy(anonymous=False).destinations.rows
    return {address: dict(row.values) for address, row in found.items()}


class TestApplying:
    def test_a_change_of_another_broker_is_made_in_its_name(self) -> None:
        applied = ClusterConfiguration().apply("b2", {A: WantedValues({"max_messages": 5}, 0)})
        version = snapshot.read_version()
        assert applied == (version, {A: version}, {})
        assert rows() == {A: {"max_messages": 5}}
        entry = AuditEntry.objects.get()
        assert (entry.author, entry.via, entry.action, entry.key) == ("b2", "cluster", "created", A)
        assert entry.reason == "changed at broker b2"

    def test_a_row_that_has_changed_meanwhile_is_left_alone(self) -> None:
        declare(A, {"max_messages": 1})
        former = snapshot.read_version()
        declare(A, {"max_messages": 2})
        declare(B, {})
        wanted = {
            A: WantedValues({"max_messages": 9}, former),
            B: WantedValues(None, snapshot.read_version()),
        }
        applied = ClusterConfiguration().apply("b2", wanted)
        assert applied == (snapshot.read_version(), {B: 0}, {})
        assert rows() == {A: {"max_messages": 2}}

    def test_what_cannot_be_applied_keeps_nothing_else_back(self) -> None:
        wanted = {A: WantedValues({"of_a_newer_version": 1}, 0), B: WantedValues({"max_messages": 3}, 0)}
        applied = ClusterConfiguration().apply("b2", wanted)
        assert set(applied.rows) == {B}
        assert "of_a_newer_version" in applied.faults[A]

    def test_a_row_of_a_file_is_changed_and_still_belongs_to_it(self) -> None:
        declare(A, {"max_messages": 1}, origin="zero.config:3")
        ClusterConfiguration().apply("b2", {A: WantedValues({"max_messages": 4}, snapshot.read_version())})
        row = actions.destination_spec(A)
        assert row is not None
        assert (row.values, row.origin) == ({"max_messages": 4}, "zero.config:3")

    def test_rows_that_were_removed_since_a_version_are_known(self) -> None:
        for address in (A, B):
            declare(address, {})
        declare(A, None)
        since = snapshot.read_version()
        declare(B, None)
        assert ClusterConfiguration().removed_since(since) == [B]


class TestProposing:
    @pytest.fixture
    def proposed(self) -> Iterator[list[Any]]:
        """What is proposed; a Refused in front refuses the next change."""
        found: list[Any] = []

        def propose(changes: list[Change]) -> None:
            if found and isinstance(found[0], Refused):
                raise found.pop(0)
            found.extend(changes)

        proposals = ProposedChanges(propose)
        yield found
        proposals.close()

    def test_what_an_administrator_changes_is_proposed_and_what_the_cluster_changes_is_not(
        self, proposed: list[Any]
    ) -> None:
        declare(A, {"max_messages": 1})
        declare(A, None)
        actions.create_user(actions.SYSTEM, "ann", "a password of ann")
        ClusterConfiguration().apply("b2", {B: WantedValues({}, 0)})
        edit = actions.Edit("destinations", C, {})
        actions.apply(actions.SYSTEM, [edit], dry_run=True)
        assert proposed == [
            Change("destination", A, {"max_messages": 1}),
            Change("destination", A, None),
        ]

    def test_a_refused_change_is_not_made(self, proposed: list[Any], inside: Client) -> None:
        away = Refused("master-unavailable", "MASTER_UNAVAILABLE: b1 is away", keeper="b1")
        proposed.append(away)
        with pytest.raises(actions.Conflict, match="b1 is away"):
            declare(A, {})
        assert rows() == {}
        proposed.insert(0, away)
        answer = inside.put("/api/v1/queues/a", {}, content_type="application/json", HTTP_IF_NONE_MATCH="*")
        assert answer.status_code == 503
        assert answer.json()["type"].endswith("master-unavailable")
        assert answer.json()["keeper"] == "b1"
        assert rows() == {}


class Follower:
    """The configuration of this test and a record, as in a broker."""

    def __init__(self, *entries: Entry, since: int = 0) -> None:
        self.record = ChangeRecord(entries)
        self.noted: list[Change] = []
        self.applying: list[tuple[str, dict[str, WantedValues]]] = []
        self.changes = DestinationChanges(
            self.record, self.noted.extend, lambda broker, wanted: self.applying.append((broker, wanted))
        )
        policy = snapshot.read_policy(anonymous=False)
        removed = ClusterConfiguration().removed_since(since) if since else []
        self.changes.begin(policy.version, policy.destinations.rows, since, removed)

    def reload(self) -> None:
        policy = snapshot.read_policy(anonymous=False)
        self.changes.policy_changed(policy.version, policy.destinations.rows)

    def arrive(self, number: int, name: str, value: dict[str, Any] | None) -> None:
        self.changes.entries_arrived(self.record.merge([entry(number, name, value)]))

    def apply(self) -> Applied:
        applied = ClusterConfiguration().apply(*self.applying.pop())
        self.changes.applied(applied)
        return applied


def entry(number: int, name: str, value: dict[str, Any] | None) -> Entry:
    return Entry("destination", name, Version(number, "b2"), value, "b2")


class TestFollowing:
    def test_a_change_here_is_entered_once(self) -> None:
        follower = Follower()
        declare(A, {"max_messages": 1})
        follower.reload()
        follower.reload()
        declare(A, None)
        follower.reload()
        assert follower.noted == [
            Change("destination", A, {"max_messages": 1}),
            Change("destination", A, None),
        ]

    def test_what_arrives_is_applied_and_is_no_change_of_this_broker(self) -> None:
        follower = Follower()
        follower.arrive(1, A, {"max_messages": 7})
        # The configuration is read again before the outcome is known here.
        applied = ClusterConfiguration().apply(*follower.applying.pop())
        follower.reload()
        follower.arrive(2, A, {"max_messages": 8})
        follower.changes.applied(applied)
        follower.apply()
        follower.reload()
        assert (rows(), follower.noted) == ({A: {"max_messages": 8}}, [])
        follower.arrive(3, A, None)
        follower.apply()
        follower.reload()
        assert (rows(), follower.noted, follower.applying) == ({}, [], [])

    def test_a_change_here_that_was_not_seen_yet_is_newer_than_what_arrives(self) -> None:
        declare(A, {"max_messages": 1})
        follower = Follower()
        follower.noted.clear()
        declare(A, {"max_messages": 2})
        follower.arrive(5, A, {"max_messages": 9})
        follower.apply()
        follower.reload()
        assert rows() == {A: {"max_messages": 2}}
        assert follower.noted == [Change("destination", A, {"max_messages": 2})]

    def test_a_policy_that_was_read_before_the_last_change_of_the_cluster_changes_nothing(self) -> None:
        follower = Follower()
        former = snapshot.read_policy(anonymous=False)
        follower.arrive(1, A, {})
        follower.apply()
        follower.changes.policy_changed(former.version, former.destinations.rows)
        assert follower.noted == []

    def test_after_a_restart_the_record_wins_but_for_what_has_changed_here_since(self) -> None:
        for address in (A, B, C, "/queue/d"):
            declare(address, {"max_messages": 1})
        since = snapshot.read_version()
        declare(B, {"max_messages": 2})
        declare(C, None)
        follower = Follower(
            entry(1, A, {"max_messages": 5}),
            entry(1, B, {"max_messages": 1}),
            entry(1, C, {"max_messages": 1}),
            entry(2, "/queue/d", None),
            entry(1, "/queue/e", {}),
            since=since,
        )
        assert follower.noted == [
            Change("destination", B, {"max_messages": 2}),
            Change("destination", C, None),
        ]
        follower.apply()
        assert rows() == {A: {"max_messages": 5}, B: {"max_messages": 2}, "/queue/e": {}}

    def test_an_entry_that_cannot_be_applied_is_kept_with_its_reason(self) -> None:
        follower = Follower()
        follower.arrive(1, A, {"of_a_newer_version": 1})
        follower.apply()
        assert "of_a_newer_version" in follower.changes.faults[A]
        follower.arrive(2, A, {})
        follower.apply()
        assert (follower.changes.faults, rows()) == ({}, {A: {}})
