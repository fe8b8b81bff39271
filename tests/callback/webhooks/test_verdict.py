"""Verdicts on answers."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from broker_app.features.callbacks.webhooks import verdict
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.host import (
    ALIVE,
    BROKEN,
    NO_WORKER,
    RETRY_AFTER,
    SILENT,
    UNCONNECTED,
)
from broker_app.peers.http_client import exchange
from broker_app.peers.http_client.exchange import HttpAnswer, Unanswered


def of(status: int, retry_after: str = "") -> verdict.PushVerdict:
    return verdict.of_answer(HttpAnswer(status, {"retry-after": retry_after} if retry_after else {}, b""))


@pytest.mark.parametrize(
    ("status", "outcome", "effect"),
    [
        (302, verdict.REFUSED, ALIVE),
        (404, verdict.REFUSED, ALIVE),
        (500, verdict.FAILED, BROKEN),
        (502, verdict.FAILED, BROKEN),
    ],
)
def test_retry_after_delays_the_message_whatever_the_status(status: int, outcome: str, effect: str) -> None:
    asked = of(status, "4")
    assert (asked.outcome, asked.delay_s, asked.pause_s, asked.effect) == (outcome, 4.0, 0.0, effect)
    plain = of(status)
    assert (plain.outcome, plain.delay_s, plain.effect) == (outcome, 0.0, effect)


@pytest.mark.parametrize("status", [429, 503])
def test_of_two_statuses_it_is_a_pause_of_the_host_too(status: int) -> None:
    asked = of(status, "4")
    assert (asked.outcome, asked.delay_s, asked.pause_s) == (verdict.DELAYED, 4.0, 4.0)
    assert asked.effect == RETRY_AFTER


@pytest.mark.parametrize("status", [400, 500, 503])
def test_a_receiver_cannot_ask_for_more_than_a_day(status: int) -> None:
    assert of(status, "9" * 30).delay_s == verdict.LONGEST_DELAY_S
    assert of(status, formatdate(time.time() + 1e6, usegmt=True)).delay_s == verdict.LONGEST_DELAY_S


@pytest.mark.parametrize("text", ["-1", "soon", "1.5", formatdate(0, usegmt=True), "\u0664"])
def test_a_time_that_is_none_or_is_over_asks_for_nothing(text: str) -> None:
    assert of(500, text).delay_s == 0.0


@pytest.mark.parametrize(
    ("code", "effect"),
    [
        (exchange.DNS, UNCONNECTED),
        (exchange.CONNECT, UNCONNECTED),
        (exchange.TLS, UNCONNECTED),
        (exchange.TIMEOUT, SILENT),
        (exchange.ADDRESS, SILENT),
        (exchange.RESET, BROKEN),
        (exchange.PROTOCOL, BROKEN),
        (exchange.NO_WORKER, NO_WORKER),
        (exchange.WORKER, ""),
    ],
)
def test_only_failures_to_connect_concern_all_owners(code: str, effect: str) -> None:
    assert verdict.of_silence(Unanswered(code, "why")).effect == effect


def test_another_attempt_comes_after_the_time_of_the_callback_or_what_the_receiver_asks_for() -> None:
    hook = Callback("hook", "https://b1.example", retry_s=1.0, max_retry_s=6.0)
    least, most = 1 - verdict.JITTER, 1 + verdict.JITTER
    for attempts, usual_s in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 6.0)):
        assert usual_s * least <= of(500).retry_s(hook, attempts) <= usual_s * most
    assert of(500, "30").retry_s(hook, 1) == 30.0
