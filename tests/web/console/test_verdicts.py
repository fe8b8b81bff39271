"""The sentence at the head of the page of a bridge or callback."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.web.console.forwarding.verdicts import verdict_of_bridge, verdict_of_callback

BRIDGE: dict[str, Any] = {
    "desired": "running", "backlog": 0, "oldest_s": 0, "error": None, "attempts": 0, "accepted_rate": 0,
}  # fmt: skip
CALLBACK: dict[str, Any] = {
    "desired": "running", "pending": 0, "reason": "", "failures_in_row": 0, "last": None,
    "pushes": {"accepted": 0},
}  # fmt: skip
REFUSED = {"code": "REFUSED", "detail": "no broker listens at this address"}
FAILED = {"outcome": "failed", "status": 500, "detail": "it answered 500"}


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({}, "Everything was forwarded; nothing waits."),
        ({"accepted_rate": 80.0}, "80.0/s are forwarded; nothing waits."),
        (
            {"accepted_rate": 80.0, "backlog": 1204, "oldest_s": 60},
            "80.0/s are forwarded; 1,204 messages wait, the oldest for 1 min.",
        ),
        (
            {"backlog": 1, "error": REFUSED, "attempts": 37},
            "1 message waits: no broker listens at this address (37 attempts)",
        ),
        ({"error": REFUSED}, "nothing waits: no broker listens at this address"),
        ({"desired": "paused", "backlog": 2}, "An operator has paused it; 2 messages wait."),
        (
            {"desired": "draining", "backlog": 2},
            "It takes no new messages until it is drained; 2 messages wait.",
        ),
    ],
)
def test_a_bridge(facts: dict[str, Any], sentence: str) -> None:
    status: Any = {**BRIDGE, **facts}
    assert verdict_of_bridge(status) == sentence


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({}, "Nothing has been pushed yet; nothing waits."),
        ({"pushes": {"accepted": 3}}, "The receiver accepts what is pushed; nothing waits."),
        ({"reason": "the owner may not read it", "pending": 5}, "5 messages wait: the owner may not read it"),
        (
            {"failures_in_row": 1, "last": FAILED, "pending": 1},
            "The last push failed; 1 message waits: it answered 500",
        ),
        (
            {"failures_in_row": 9, "last": {**FAILED, "detail": ""}, "pending": 5},
            "The last 9 pushes failed; 5 messages wait: 500",
        ),
        ({"desired": "paused", "reason": "x"}, "An operator has paused it; nothing waits."),
    ],
)
def test_a_callback(facts: dict[str, Any], sentence: str) -> None:
    status: Any = {**CALLBACK, **facts}
    assert verdict_of_callback(status) == sentence
