"""The health of components: one word for each, from what their reports say."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.telemetry.component_health import (
    BRIDGE,
    CALLBACK,
    LINK,
    MIRROR,
    PIPELINE,
    REFLEX,
    STORE,
    Component,
    Kind,
    health_of,
    pipeline_components,
    store_component,
)

_FLOW = {"state": "running", "paused": False}
_STANDBY = {"state": "standby", "in_step": True}
#: of each kind, the report of one that works
WORKS: dict[Kind, dict[str, Any]] = {
    CALLBACK: {
        "state": "running", "failures_in_row": 0, "pending": 0, "breaker": {"state": "closed", "pause": ""},
    },
    REFLEX: {"state": "running", "failures_in_row": 0},
    BRIDGE: {"state": "running", "desired": "running", "attempts": 0, "flows": [_FLOW]},
    MIRROR: {"brokers": [_STANDBY], "private_journal": None, "needs_standby": True},
    LINK: {"state": "up", "taken_by": ""},
    PIPELINE: {"state": "running"},
    STORE: {"full": False, "nearly_full": False},
}  # fmt: skip


@pytest.mark.parametrize("kind", WORKS)
def test_what_works_is_running(kind: Kind) -> None:
    assert health_of(kind, WORKS[kind]) == "running"


@pytest.mark.parametrize(
    ("kind", "reported", "health"),
    [
        (CALLBACK, {"failures_in_row": 1_168}, "failing"),
        (CALLBACK, {"failures_in_row": 1}, "degraded"),
        (CALLBACK, {"state": "unverified"}, "failing"),
        (CALLBACK, {"state": "paused", "failures_in_row": 9}, "paused"),
        (CALLBACK, {"state": "ended"}, "off"),
        (CALLBACK, {"pending": 1, "breaker": {"state": "open", "pause": ""}}, "stalled"),
        (CALLBACK, {"pending": 0, "breaker": {"state": "open", "pause": ""}}, "running"),
        (REFLEX, {"state": "unusable"}, "failing"),
        (REFLEX, {"failures_in_row": 320}, "failing"),
        (REFLEX, {"failures_in_row": 1}, "degraded"),
        (REFLEX, {"state": "disabled"}, "off"),
        (REFLEX, {"state": "starting"}, "degraded"),
        (BRIDGE, {"state": "retrying", "attempts": 1}, "degraded"),
        (BRIDGE, {"state": "retrying", "attempts": 12}, "failing"),
        (BRIDGE, {"flows": [_FLOW, {"state": "stalled", "paused": False}]}, "stalled"),
        (BRIDGE, {"flows": [_FLOW, {"state": "stalled", "paused": True}]}, "running"),
        (BRIDGE, {"state": "suspended", "desired": "paused"}, "paused"),
        (BRIDGE, {"state": "suspended"}, "running"),  # it is idle
        (MIRROR, {"brokers": []}, "degraded"),
        (MIRROR, {"brokers": [], "needs_standby": False}, "running"),
        (MIRROR, {"brokers": [{**_STANDBY, "in_step": False}]}, "degraded"),
        (MIRROR, {"private_journal": {"error": "no space"}}, "degraded"),
        (LINK, {"state": "connecting"}, "degraded"),
        (LINK, {"state": "connecting", "taken_by": "b2"}, "off"),
        (LINK, {"state": "refused"}, "failing"),
        (LINK, {"state": "stopped"}, "off"),
        (PIPELINE, {"state": "failed"}, "failing"),
        (PIPELINE, {"state": "lost"}, "stalled"),
        (PIPELINE, {"state": "done"}, "off"),
        (STORE, {"full": True, "nearly_full": True}, "failing"),
        (STORE, {"nearly_full": True}, "degraded"),
    ],
)
def test_the_health_follows_from_what_is_reported(kind: Kind, reported: dict[str, Any], health: str) -> None:
    assert health_of(kind, {**WORKS[kind], **reported}) == health


def test_runs_of_pipelines_are_among_the_components_with_their_errors() -> None:
    failed = {"name": "archive:B1", "health": "failing", "error": "[DATA_LOSS] gone"}
    (run,) = pipeline_components([failed])
    assert run == Component(PIPELINE, "archive:B1", "failing", "[DATA_LOSS] gone")


def test_a_store_without_space_is_among_the_components_with_its_reason() -> None:
    store = store_component("no space", "80 %")
    assert store == Component(STORE, "journal", "failing", "no space")
    store = store_component("", "80 %")
    assert store == Component(STORE, "journal", "degraded", "80 %")
