"""The propagation of the change record among brokers, with links that are cut and brokers that crash."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from broker_app.base.refused import Refused
from broker_app.features.cluster.record import change_record, propagation
from broker_app.features.cluster.record.change_record import (
    DESTINATION,
    KEEPER,
    MOST_AHEAD,
    MOST_NUMBER,
    Change,
    ChangeRecord,
    Entry,
    Version,
)
from broker_app.features.cluster.record.keeper import KeeperResult
from broker_app.features.cluster.record.record_messages import (
    Buckets,
    Entries,
    Propose,
    Proposed,
    Summary,
)
from tests.cluster.conftest import BROKERS
from tests.cluster.record_brokers import Network

A, B = "/queue/a", "/queue/b"


def together(names: str = "12345"[:BROKERS], **facts: object) -> Network:
    """Brokers b1, b2 …, all connected, with nothing under way."""
    network = Network([f"b{number}" for number in names], **facts)  # type: ignore[arg-type]
    network.connect_all()
    network.settle()
    return network


class TestWithoutKeeper:
    def test_a_change_arrives_at_all_brokers(self) -> None:
        network = together()
        answers = network.change("b2", A, {"max_messages": 5})
        network.settle()
        assert answers == [None]
        for broker in network.brokers:
            assert network.values(broker) == {A: {"max_messages": 5}}

    def test_a_change_crosses_each_link_once(self) -> None:
        network = together("12345")
        network.change("b1", A, {})
        while network.brokers["b1"].record.value(DESTINATION, A) is None:
            network.step()
        assert sum(map(len, network.links.values())) == 4
        network.settle()

    def test_changes_while_a_link_was_cut_arrive_when_it_is_back(self) -> None:
        network = together("12")
        for number in range(300):
            network.change("b1", f"/queue/{number}", {})
        network.settle()
        network.cut("b1", "b2")
        network.change("b1", A, {"max_messages": 1})
        network.change("b2", "/queue/7", None)
        network.settle()
        network.connect_all()
        entries = 0
        while network.step():
            entries = max(entries, sum(len(one) for queue in network.links.values() for one in queue))
        assert entries < 25_000, "only the difference was sent, and the digests"
        assert network.values("b1") == network.values("b2")
        assert A in network.values("b2")
        assert "/queue/7" not in network.values("b1")

    def test_a_change_reaches_a_broker_by_way_of_a_third(self) -> None:
        network = Network(["b1", "b2", "b3"])
        network.connect("b1", "b2")
        network.connect("b2", "b3")
        network.settle()
        network.change("b1", A, {})
        network.settle()
        assert network.values("b3") == {}
        network.brokers["b2"].compare()
        network.settle()
        assert network.values("b3") == {A: {}}

    def test_a_value_that_was_changed_back_at_once_is_the_old_one_everywhere(self) -> None:
        network = together("12")
        network.change("b1", A, {"max_messages": 1})
        network.settle()
        network.change("b1", A, {"max_messages": 2})
        network.change("b1", A, {"max_messages": 1})
        network.settle()
        assert network.values("b2") == network.values("b1") == {A: {"max_messages": 1}}

    @pytest.mark.parametrize("seed", range(25))
    def test_whatever_happens_all_brokers_end_with_the_same_record(self, seed: int) -> None:
        chance = Random(seed)
        network = Network(["b1", "b2", "b3", "b4"], seed)
        names = list(network.brokers)
        for _ in range(60):
            one, other = chance.sample(names, 2)
            match chance.randrange(8):
                case 0:
                    network.cut(one, other)
                case 1 | 2:
                    network.connect(one, other)
                case 3 if chance.random() < 0.3:
                    network.crash(one)
                case _:
                    value = None if chance.random() < 0.4 else {"max_messages": chance.randrange(99)}
                    network.change(one, f"/queue/{chance.randrange(6)}", value)
            for _ in range(chance.randrange(6)):
                network.step()
        network.connect_all()
        network.settle()
        for broker in network.brokers.values():
            broker.compare()
        network.settle()
        digests = {broker.record.digest for broker in network.brokers.values()}
        assert len(digests) == 1
        assert len({str(sorted(network.values(name).items())) for name in names}) == 1


class TestWithKeeper:
    def test_changes_get_their_versions_from_the_keeper(self) -> None:
        network = together(keeper="b1")
        answers = network.change("b2", A, {})
        network.settle()
        assert answers == [None]
        entry = network.brokers["b3"].record.get(DESTINATION, A)
        assert entry is not None
        assert (entry.version.broker, entry.origin) == ("b1", "b2")
        assert network.brokers["b2"].keeper == "b1", "its name is known by now"

    def test_a_large_change_is_proposed_in_parts_and_entered_as_one(self) -> None:
        network = together(keeper="b1")
        answers: list[object] = []
        changes = [Change(DESTINATION, f"/queue/{number:0200}", {}) for number in range(1000)]
        network.brokers["b2"].change(changes, answers.append)
        network.settle()
        assert answers == [None]
        assert len(network.values("b3")) == 1000

    def test_many_changes_are_entered_in_several_turns_of_the_loop_and_others_in_between(self) -> None:
        network = together(keeper="b1")
        changes = [Change(DESTINATION, f"/queue/{number}", {}) for number in range(2_000)]
        answers: list[object] = []
        network.brokers["b2"].change(changes, answers.append)
        other = network.change("b3", A, {})
        entered = [0]
        while network.step():
            entered.append(len(network.brokers["b1"].record))
        assert max(after - before for before, after in pairwise(entered)) <= 500
        assert answers == other == [None]
        assert [len(network.values(broker)) for broker in network.brokers] == [2_001] * BROKERS
        assert not network.brokers["b1"].has_unentered

    def test_changes_are_refused_while_the_keeper_is_away(self) -> None:
        network = together(keeper="b1")
        network.cut_off("b1")
        (refusal,) = network.change("b2", A, {})
        assert refusal is not None
        assert refusal.code == "master-unavailable"
        assert "MASTER_UNAVAILABLE" in refusal.detail
        assert "b1 (b1host:7676)" in refusal.detail
        assert network.change("b1", B, {}) == [], "the keeper itself accepts them"
        network.connect_all()
        network.settle()
        assert network.values("b2") == {B: {}}
        network.change("b2", A, {})
        network.settle()
        assert set(network.values("b3")) == {A, B}

    def test_a_change_that_the_keeper_does_not_answer_is_refused(self) -> None:
        network = together(keeper="b1")
        answers = network.change("b2", A, {})
        network.cut_off("b1")
        assert [refusal.code for refusal in answers if refusal is not None] == ["master-unavailable"]

    def test_what_was_done_while_the_keeper_was_away_is_proposed_when_it_is_back(self) -> None:
        network = together(keeper="b1")
        network.cut_off("b1")
        network.brokers["b2"].note([Change(DESTINATION, A, {"max_messages": 1})])
        network.brokers["b2"].note([Change(DESTINATION, A, {"max_messages": 2})])
        network.settle()
        assert network.values("b3") == {}
        network.connect_all()
        network.settle()
        assert network.values("b3") == network.values("b1") == {A: {"max_messages": 2}}

    def test_what_was_changed_back_while_the_keeper_was_away_is_not_changed(self) -> None:
        network = together(keeper="b1")
        network.change("b1", A, {"max_messages": 1})
        network.settle()
        network.cut_off("b1")
        network.brokers["b2"].note([Change(DESTINATION, A, {"max_messages": 2})])
        network.brokers["b2"].note([Change(DESTINATION, A, {"max_messages": 1})])
        network.connect_all()
        network.settle()
        entry = network.brokers["b3"].record.get(DESTINATION, A)
        assert entry is not None
        assert (entry.value, entry.version.number) == ({"max_messages": 1}, 1)

    def test_a_broker_with_another_name_at_the_address_of_the_keeper_is_it(self) -> None:
        network = together("12", keeper="b1")
        network.cut_off("b1")
        del network.brokers["b1"]
        network.saved["b9"] = network.saved["b1"]
        network.keeper = "b9"
        network.start("b9")
        network.connect_all()
        network.settle()
        assert network.brokers["b2"].keeper == "b9"
        assert network.brokers["b2"].refusal is None

    def test_a_broker_waits_for_the_keeper_until_it_was_reached_once(self) -> None:
        network = Network(["b1", "b2"], keeper="b1")
        network.change("b1", A, {})
        network.settle()
        changed: list[str] = []
        waits = network.brokers["b2"]
        waits.on_availability.append(lambda: changed.append(waits.waiting))
        assert "b1host:7676" in waits.waiting
        assert waits.keeper == "b1host:7676", "its name is not known yet"
        network.connect_all()
        network.settle()
        assert changed == [""]
        assert network.values("b2") == {A: {}}, "it has what was changed while it was away"
        network.cut_off("b1")
        assert waits.waiting == "", "it goes on without"
        assert network.brokers["b1"].waiting == ""

    def test_a_keeper_without_its_file_gets_the_record_from_the_others(self) -> None:
        network = together(keeper="b1")
        network.change("b2", A, {})
        network.settle()
        network.saved["b1"].clear()
        network.crash("b1")
        network.connect_all()
        network.settle()
        assert network.values("b1") == {A: {}}

    @pytest.mark.parametrize("seed", range(15))
    def test_every_version_is_of_the_keeper_and_none_is_given_twice(self, seed: int) -> None:
        chance = Random(seed)
        network = Network(["b1", "b2", "b3"], seed, keeper="b1")
        names = list(network.brokers)
        for _ in range(60):
            one, other = chance.sample(names, 2)
            match chance.randrange(7):
                case 0:
                    network.cut(one, other)
                case 1 | 2:
                    network.connect(one, other)
                case 3 if chance.random() < 0.3:
                    network.crash(one)
                case _:
                    network.change(
                        one, f"/queue/{chance.randrange(5)}", {"max_messages": chance.randrange(99)}
                    )
            for _ in range(chance.randrange(8)):
                network.step()
        network.connect_all()
        network.settle()
        records = [broker.record for broker in network.brokers.values()]
        assert len({record.digest for record in records}) == 1
        assert len({str(sorted(network.values(name).items())) for name in names}) == 1
        assert {entry.version.broker for entry in records[1].entries()} <= {"b1"}


class TestChangeOfKeeper:
    def changed(self, network: Network, broker: str, new: str) -> KeeperResult | None:
        results: list[KeeperResult] = []
        network.brokers[broker].change_keeper(new, results.append)
        network.settle()
        return results[0] if results else None

    def test_the_new_keeper_goes_on_with_higher_versions(self) -> None:
        network = together(keeper="b1", may_change=True)
        network.change("b1", A, {})
        network.settle()
        assert self.changed(network, "b1", "b2") == KeeperResult.OK
        assert {broker.keeper for broker in network.brokers.values()} == {"b2"}
        before = network.brokers["b1"].record.get(DESTINATION, A)
        network.change("b3", A, None)
        network.change("b1", B, {})
        network.settle()
        after = network.brokers["b1"].record.get(DESTINATION, A)
        assert before is not None
        assert after is not None
        assert after.version > before.version
        assert after.version.broker == "b2"
        assert network.values("b3") == {B: {}}

    def test_the_choice_survives_restarts_of_all(self) -> None:
        network = together(keeper="b1", may_change=True)
        self.changed(network, "b1", "b2")
        for name in network.brokers:
            network.crash(name)
        assert {broker.keeper for broker in network.brokers.values()} == {"b2"}
        network.keeper, network.keeper_address = "b3", "b3host:7676"
        network.start("b1")
        assert network.brokers["b1"].keeper == "b3host:7676", "unless the configuration names another one"

    def test_its_results_say_why_it_is_unchanged(self) -> None:
        assert self.changed(together(may_change=True), "b1", "b2") == KeeperResult.BAD_REQUEST
        assert self.changed(together(keeper="b1"), "b1", "b2") == KeeperResult.NOT_ALLOWED
        network = together(keeper="b1", may_change=True)
        assert self.changed(network, "b1", "") == KeeperResult.BAD_REQUEST
        assert self.changed(network, "b2", "b3") == KeeperResult.NOT_ALLOWED
        assert self.changed(network, "b1", "b9") == KeeperResult.UNAVAILABLE
        assert self.changed(network, "b1", "b1") == KeeperResult.OK
        assert {broker.keeper for broker in network.brokers.values()} == {"b1"}

    def test_a_broker_that_lacks_entries_does_not_become_the_keeper(self) -> None:
        network = together(keeper="b1", may_change=True)
        network.brokers["b2"].record.merge([Entry(DESTINATION, A, Version(9, "b9"), {})])
        assert self.changed(network, "b1", "b2") == KeeperResult.PRECONDITION_FAILED
        assert network.brokers["b1"].is_keeper
        network.change("b1", B, {})
        network.cut_off("b1")
        network.connect_all()
        network.settle()
        assert self.changed(network, "b1", "b2") == KeeperResult.OK
        assert set(network.values("b3")) == {A, B}

    def test_a_new_keeper_that_leaves_at_once_is_unknown_or_unavailable(self) -> None:
        network = together(keeper="b1", may_change=True)
        results: list[KeeperResult] = []
        network.brokers["b1"].change_keeper("b2", results.append)
        network.cut_off("b2")
        assert results == [KeeperResult.UNAVAILABLE]
        assert network.brokers["b1"].is_keeper
        network.connect_all()
        network.settle()
        network.brokers["b1"].change_keeper("b2", results.append)
        while network.brokers["b1"].is_keeper:
            network.step()
        network.cut_off("b2")
        assert results[1:] == [KeeperResult.UNKNOWN]
        answers = network.change("b3", A, {})
        network.settle()
        assert [refusal is not None for refusal in answers] == [True]
        network.connect_all()
        network.settle()
        assert network.change("b2", A, {}) == []
        network.settle()
        assert {broker.keeper for broker in network.brokers.values()} == {"b2"}
        assert network.values("b3") == {A: {}}


class TestBrokenMembers:
    """Each sends what no broker would send: it changes nothing for good."""

    def said(self, network: Network, broker: str, to: str, *entries: Entry) -> None:
        network.brokers[to].receive(broker, Entries(list(entries)))
        network.settle()

    def test_a_version_far_above_all_others_leaves_room_for_changes(self) -> None:
        network = together()
        self.said(network, "b3", "b1", Entry(DESTINATION, B, Version(MOST_NUMBER, "b3"), {}))
        answers = network.change("b1", A, {"max_messages": 5})
        network.settle()
        assert answers == [None]
        assert network.values("b2") == network.values("b1") == {A: {"max_messages": 5}}
        self.said(network, "b3", "b1", Entry(DESTINATION, B, Version(MOST_AHEAD, "b3"), {}))
        assert network.values("b1") == {A: {"max_messages": 5}, B: {}}, "it was away for many changes"

    def test_a_change_that_cannot_be_entered_is_no_success(self, monkeypatch: pytest.MonkeyPatch) -> None:
        network = together("12")
        network.brokers["b1"].record.number = MOST_NUMBER
        assert _codes(network.change("b1", A, {})) == ["invalid"]
        network = together("12", keeper="b1")
        assert _codes(network.change("b1", A, {"dead_letters": "x" * 40_000})) == ["invalid"]
        monkeypatch.setattr(change_record, "MOST", 1)
        answers = [network.change("b2", A, {}), network.change("b2", B, {})]
        network.settle()
        assert [_codes(one) for one in answers] == [[""], ["master-unavailable"]]
        assert network.values("b1") == network.values("b2") == {A: {}}
        network = together("12")
        answers = [network.change("b1", A, {}), network.change("b1", B, {})]  # both, before one is saved
        network.settle()
        assert [_codes(one) for one in answers] == [[""], ["too-many"]]
        assert network.values("b1") == network.values("b2") == {A: {}}

    def test_what_was_made_here_and_cannot_be_entered_holds_up_nothing_else(self) -> None:
        network = together("12")
        impossible = Change(DESTINATION, B, {"dead_letters": "x" * 40_000})
        network.brokers["b1"].note([impossible, Change(DESTINATION, A, {})])
        network.settle()
        assert network.values("b2") == {A: {}}
        assert not network.brokers["b1"].has_unentered

    def test_what_cannot_be_entered_is_not_done_before(self) -> None:
        record = ChangeRecord()
        refusal = record.refusal([Change(DESTINATION, A, {}), Change(DESTINATION, "x" * 2_000, {})])
        assert refusal is not None
        assert "more than 1000 characters" in refusal.detail

    def test_only_the_keeper_gives_versions(self) -> None:
        network = together(keeper="b1")
        for broker, to in (("b3", "b1"), ("b3", "b2"), ("b2", "b3")):
            for giver in ("b1", broker):
                self.said(network, broker, to, Entry(DESTINATION, A, Version(5, giver), {}))
        network.change("b2", B, {})
        network.settle()
        assert [network.values(broker) for broker in network.brokers] == [{B: {}}] * 3

    def test_each_reason_for_which_entries_of_a_broker_are_not_taken_is_logged_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        network = together("12")
        for number in range(1, 5):
            ahead = Version(2 * MOST_AHEAD + number, "b2")
            for entry in (
                Entry(DESTINATION, A, ahead, {}),
                Entry(KEEPER, "keeper", Version(number, "b2"), {}),
            ):
                self.said(network, "b2", "b1", entry)
        assert len(caplog.messages) == 2

    @pytest.mark.parametrize("may_change", [False, True])
    def test_only_the_keeper_names_another_one(self, may_change: bool) -> None:
        network = together(keeper="b1", may_change=may_change)
        value: dict[str, object] = {"broker": "b3", "instead_of": "b1host:7676"}
        for to in ("b1", "b2"):
            self.said(network, "b3", to, Entry(KEEPER, "keeper", Version(6, "b1"), value))
        network.brokers["b2"].receive("b3", Summary(1, is_keeper=True))
        network.settle()
        assert [broker.keeper for broker in network.brokers.values()] == ["b1"] * 3
        network.crash("b1")
        network.connect_all()
        network.settle()
        answers = network.change("b1", A, {})
        network.settle()
        assert answers == [None]
        assert network.values("b2") == {A: {}}

    def test_without_a_keeper_none_can_be_named(self) -> None:
        network = together("12", may_change=True)
        value: dict[str, object] = {"broker": "b2", "instead_of": ""}
        self.said(network, "b2", "b1", Entry(KEEPER, "keeper", Version(6, "b2"), value))
        assert network.brokers["b1"].record.entries() == []

    def test_a_broker_that_was_away_believes_who_is_the_keeper_now_if_that_may_change(self) -> None:
        network = together(keeper="b1", may_change=True)
        network.cut_off("b3")
        network.brokers["b1"].change_keeper("b2", lambda _: None)
        network.settle()
        network.cut_off("b1")
        network.change("b2", A, {})
        network.settle()
        network.crash("b3")
        network.connect("b2", "b3")
        network.settle()
        assert network.brokers["b3"].keeper == "b2"
        assert network.brokers["b3"].refusal is None
        assert network.values("b3") == {A: {}}

    def test_a_keeper_that_has_lost_its_file_hears_that_another_broker_is_it(self) -> None:
        network = together(keeper="b1", may_change=True)
        network.brokers["b1"].change_keeper("b2", lambda _: None)
        network.settle()
        network.saved["b1"].clear()
        network.crash("b1")
        network.connect_all()
        network.settle()
        assert {broker.keeper for broker in network.brokers.values()} == {"b2"}

    def test_what_the_new_keeper_has_entered_may_come_before_the_news_of_it(self) -> None:
        network = together(keeper="b1", may_change=True)
        network.brokers["b1"].change_keeper("b2", lambda _: None)
        network.settle(held=("b1", "b3"))
        network.change("b2", A, {})
        network.settle(held=("b1", "b3"))
        assert network.values("b1") == {A: {}}
        assert network.brokers["b3"].keeper == "b1"
        network.settle()
        assert network.values("b3") == {A: {}}

    def test_many_questions_and_a_proposal_without_end_are_not_kept(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        network = together(keeper="b1")
        network.change("b1", A, {})
        network.settle()
        b1 = network.brokers["b1"]
        for _ in range(50):
            b1.receive("b3", Buckets(b""))
        network.work_off("b1")
        answers = [one.last for one in network.heard("b1", "b3") if isinstance(one, Entries)]
        assert answers == [False, True] * 2
        network.settle()
        monkeypatch.setattr(propagation, "MOST_BYTES", 100_000)
        for number in range(500):
            b1.receive("b3", Propose(7, [Change(DESTINATION, f"/queue/{number}", {})], more=True))
        (answer,) = network.heard("b1", "b3")
        assert isinstance(answer, Proposed)
        assert "268,435,456 bytes, the maximum" in answer.refusal
        assert network.values("b1") == {A: {}}


def _codes(answers: list[Refused | None]) -> list[str]:
    """The code of each answer; empty for success."""
    return [refusal.code if refusal is not None else "" for refusal in answers]
