"""Patterns with `*`: what they fit, and that no pattern and no text takes long."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_app.base.wildcards import matcher
from broker_app.telemetry.alerts.condition import WARNING
from broker_app.telemetry.alerts.rule import AlertRule

_FEW_LETTERS = st.text("ab", max_size=12)


@given(st.text("ab*", max_size=12), _FEW_LETTERS)
def test_a_pattern_matches_as_in_shells(pattern: str, text: str) -> None:
    assert matcher(pattern)(text) == fnmatchcase(text, pattern)


def test_the_ends_of_a_pattern_share_no_letters() -> None:
    assert not matcher("aba*ba")("aba")
    assert matcher("ab*ba")("abba")


def test_a_pattern_of_many_wildcards_is_compared_with_a_long_text_at_once() -> None:
    assert not matcher("a*" * 1_000 + "x")("a" * 100_000)
    assert matcher("a*" * 1_000)("a" * 100_000)


@pytest.mark.parametrize("pattern", ["a*" * 45 + "!", "a*" * 45 + "!>"])
def test_the_pattern_of_an_alert_rule_is_compared_at_once(pattern: str) -> None:
    rule = AlertRule("r", "oldest", 1, 0, WARNING, pattern)
    assert not rule.is_about("a" * 255)


def test_the_pattern_of_an_alert_rule_may_end_with_the_rest() -> None:
    rule = AlertRule("r", "oldest", 1, 0, WARNING, "orders.*.eu>")
    assert rule.is_about("orders.new.eu")
    assert rule.is_about("orders.new.eu.berlin")
    assert not rule.is_about("orders.new.us")
