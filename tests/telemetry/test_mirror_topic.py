"""The system topic of mirrors."""

from __future__ import annotations

from typing import Any

from tests.telemetry.test_system_topics import Heard, bodies, events

TOPIC = "$mom.mirror.mom"


def status(position: int = 1, *, epoch: int = 3, in_step: bool = True) -> dict[str, Any]:
    mirror = {"id": "two:8000", "state": "standby", "in_step": in_step, "position": position}
    return {
        "name": "mom",
        "state": "active",
        "successor": None,
        "lease": {"epoch": epoch},
        "brokers": [mirror],
    }


def test_mirrors_are_published_when_a_state_changes_and_their_figures_every_five_seconds() -> None:
    stage = Heard()
    listener = stage.listener("$mom.mirror.>")
    stage.mirrors = status()
    stage.second()
    ((topic, type_, data),) = events(listener)
    assert (topic, type_, data) == (TOPIC, "mom.mirror", status())
    for position in range(2, 6):
        stage.mirrors = status(position)
        stage.second()
    assert events(listener) == [], "figures alone wait"
    stage.second()
    assert [data["brokers"][0]["position"] for _, _, data in events(listener)] == [5]
    for change in (status(5, in_step=False), status(5, epoch=4)):
        stage.mirrors = change
        stage.second()
        assert [data for _, _, data in events(listener)] == [change], "a new state does not wait"


def test_a_new_subscriber_receives_the_status_at_once() -> None:
    stage = Heard()
    stage.mirrors = status()
    ((topic, body),) = bodies(stage.listener(TOPIC, snapshot=True))
    assert (topic, body["type"], body["snapshot"]) == (TOPIC, "mom.mirror.mom.snapshot", True)
    assert body["data"]["items"] == [status()]


def test_a_broker_without_a_shared_journal_publishes_nothing_about_mirrors() -> None:
    stage = Heard()
    listener = stage.listener("$mom.mirror.>", snapshot=True)
    stage.second()
    assert bodies(listener) == []
