"""Failures of members, by missing heart-beats and by looks, with a clock of the test's own."""

from __future__ import annotations

import math
import random
import time

import msgspec
import pytest

from broker_app.features.cluster.report import TakeoverReport
from broker_app.features.enhanced_cluster.failure_detection import FailureDetector, Timing
from broker_app.features.enhanced_cluster.members import members_of
from broker_app.features.enhanced_cluster.registry import JournalNote, JournalState, Seen, SeenTakeover
from tests.support.chance import FIRST_SEED, rounds

#: those of GlassFish MQ's guide: 66 s
GUIDE = Timing(2.0, 3, 30.0, 2, 10.0)


class Stage:
    """A member b1 that another one watches; `now` is the time of both."""

    def __init__(self, timing: Timing) -> None:
        self.now = 100.0
        self.beaten_at = self.now
        self.detector = FailureDetector(timing, lambda: self.now)

    def look(self, state: JournalState = "serving", epoch: int = 1) -> Seen:
        note = JournalNote(
            journal="shop.b1",
            member="b1",
            generation=0,
            holder="b1",
            address="b1:7676",
            state=state,
            epoch=epoch,
        )
        seen = Seen(note, self.now - self.beaten_at)
        self.detector.look([seen])
        return seen

    def pass_until_failed(self) -> float:
        """Looks as often as the detector wants, until the member counts as failed; when that was."""
        while not self.detector.is_failed("shop.b1"):
            self.now += self.detector.wait_s(self.now)
            self.look()
            assert self.now < 10_000
        return self.now - self.beaten_at


class Death:
    """A member dies at 100 s, a time after its last heart-beat, and renews its lease until then. Another one
    looks at it: each step of a look takes its time."""

    def __init__(self, timing: Timing, chance: random.Random) -> None:
        self._chance = chance
        self._stage = Stage(timing)
        self._stage.now = chance.uniform(50.0, 51.0)
        self._last_beat = 100.0 - chance.choice([0.0, chance.uniform(0.0, timing.heartbeat_s)])
        self._timing = timing
        # Of four steps, which a look has at most.
        self._step_s = min(timing.heartbeat_s / 8, timing.monitor_s / 3) / 4
        #: when the member was first found suspect
        self.suspect_at = 0.0

    def _step(self) -> None:
        self._stage.now += self._chance.choice([0.0, self._step_s, self._chance.uniform(0.0, self._step_s)])

    def _age_s(self) -> float:
        """The age of its last heart-beat: it had sent them regularly."""
        heartbeat_s = self._timing.heartbeat_s
        to_come = max(0, math.ceil((self._last_beat - self._stage.now) / heartbeat_s))
        return self._stage.now - (self._last_beat - to_come * heartbeat_s)

    def taken_at(self) -> float:
        """When the other one begins to take over."""
        stage, detector = self._stage, self._stage.detector
        while stage.now < 10_000:
            begun = stage.now
            self._step()  # its own heart-beat
            age_s = self._age_s()
            self._step()  # the answer
            detector.look([Seen(a_member_note("b1", suspects=[]), age_s)])
            if detector.suspicions and not self.suspect_at:
                self.suspect_at = stage.now
            if detector.is_failed("shop.b1"):
                left_s = 100.0 + self._timing.lease_s - stage.now
                self._step()
                if left_s <= 0:
                    return stage.now
                detector.look_in(left_s)
            stage.now += detector.wait_s(begun)
            self._step()  # until it runs
        raise AssertionError("it is taken over by none")


def a_timing(chance: random.Random) -> Timing:
    heartbeat_s, monitor_s = (chance.choice([0.1, 0.4, 0.5, 1.0, 1.5, 3.0, 30.0]) for _ in range(2))
    lease_s = chance.choice([0.5, 3.0, 10.0, 60.0])
    return Timing(heartbeat_s, chance.randint(1, 4), monitor_s, chance.randint(1, 4), lease_s)


@pytest.mark.parametrize("number", rounds(2, 100))
def test_a_takeover_begins_within_the_worst_case_although_looks_take_their_time(number: int) -> None:
    chance = random.Random(FIRST_SEED + number)
    for _ in range(150):
        timing = chance.choice([Timing(1.0, 2, 0.5, 2, 3.0), a_timing(chance)])
        death = Death(timing, chance)
        taken_at = death.taken_at()
        assert death.suspect_at > 100.0 or timing.heartbeat_threshold == 1, "one that lives is suspect"
        assert taken_at - 100.0 <= timing.worst_case_s, timing
        looks_s = timing.monitor_s * timing.monitor_threshold
        assert taken_at - death.suspect_at > looks_s - 0.001, "it was watched for a shorter time"


@pytest.mark.parametrize("timing", [GUIDE, Timing(5.0, 3, 30.0, 3, 10.0), Timing(1.0, 2, 0.5, 2, 3.0)])
def test_a_member_that_has_ended_has_failed_within_the_worst_case_and_no_sooner_than_its_looks(
    timing: Timing,
) -> None:
    stage = Stage(timing)
    took_s = stage.pass_until_failed()
    watched_s = timing.monitor_s * timing.monitor_threshold
    assert timing.suspect_s + watched_s <= took_s <= timing.worst_case_s


def test_a_suspect_whose_time_stamp_moves_is_suspect_no_longer() -> None:
    stage = Stage(GUIDE)
    stage.now += 6.5
    seen = stage.look()
    assert [one.state for one in members_of("b2", [seen], [], stage.detector.suspicions)] == ["UNKNOWN"]
    for _ in range(2):
        stage.now += 29.0  # it is slow, and sends a heart-beat before the last look
        stage.look()
    stage.beaten_at = stage.now
    seen = stage.look()
    assert not stage.detector.suspicions
    assert [one.state for one in members_of("b2", [seen], [], {})] == ["OPERATING"]
    assert stage.pass_until_failed() >= GUIDE.suspect_s + 60.0, "it is watched from the beginning"


def a_member_note(name: str, *, suspects: list[str]) -> JournalNote:
    return JournalNote(
        journal=f"shop.{name}", member=name, generation=0, holder=name, address="", state="serving",
        suspects=suspects,
    )  # fmt: skip


def test_a_suspect_is_shown_with_since_when_it_is_and_which_members_suspect_it() -> None:
    stage = Stage(GUIDE)
    stage.now += 6.5
    before = time.time()
    seen = stage.look()
    # b4 has suspected b1 before it became suspect itself; b5 serves no more.
    notes = [
        seen,
        Seen(a_member_note("b2", suspects=[]), 0.1),
        Seen(a_member_note("b3", suspects=["shop.b1"]), 0.1),
        Seen(a_member_note("b4", suspects=["shop.b1"]), 60.0),
        Seen(msgspec.structs.replace(a_member_note("b5", suspects=["shop.b1"]), state="stopped"), 0.1),
    ]
    stage.detector.look([notes[0], *notes[2:]])
    found = {one.broker: one for one in members_of("b2", notes, [], stage.detector.suspicions)}
    assert {name for name, one in found.items() if one.suspicion} == {"b1", "b4"}
    suspicion = found["b1"].suspicion
    assert suspicion is not None
    assert before <= suspicion.since <= time.time()
    assert (suspicion.looks, suspicion.by) == (0, ["b2", "b3"])
    assert found["b1"].why == "no heart-beat for 6.5 s; looks at it that found none: 0"


def test_a_lease_that_is_longer_than_the_watch_is_the_worst_case() -> None:
    assert Timing(1.0, 1, 0.5, 1, 30.0).worst_case_s == 31.0


def test_another_holder_of_a_journal_is_not_suspect_because_of_the_former_one() -> None:
    stage = Stage(GUIDE)
    stage.now += 200.0
    stage.look(epoch=1)
    stage.now += 30.0
    stage.look(epoch=1)
    assert stage.detector.suspicions["shop.b1"].looks == 1
    stage.look(epoch=2)
    assert stage.detector.suspicions["shop.b1"].looks == 0


def test_states_of_a_member_are_those_of_its_last_takeover() -> None:
    stage = Stage(GUIDE)
    seen = stage.look(epoch=1)

    def state(takeover: TakeoverReport, age_s: float = 0.0) -> tuple[str, str]:
        (member,) = members_of("b2", [seen], [SeenTakeover(takeover, age_s)], {})
        return member.state, member.taken_by

    running = TakeoverReport(member="b1", journal="shop.b1", taker="b2", epoch=2, why="", began=1.0)
    assert state(running) == ("TAKEOVER_STARTED", "b2")
    assert state(running, 60.0) == ("TAKEOVER_FAILED", "b2"), "its taker has ended"
    failed = TakeoverReport(
        member="b1",
        journal="shop.b1",
        taker="b2",
        epoch=2,
        why="",
        began=1.0,
        result="failed",
        error="damaged",
    )
    assert state(failed) == ("TAKEOVER_FAILED", "b2")
    seen = stage.look(epoch=3)
    assert state(failed) == ("OPERATING", ""), "it serves again since then"
    seen = stage.look(state="kept", epoch=3)
    assert state(failed) == ("BROKER_DOWN", "")
