"""Internal errors: what is counted, and what is logged of it."""

from __future__ import annotations

import pytest

from broker_app.base.internal_errors import QUIET_S, InternalErrors
from tests.support.clock import Clock


def _fault() -> Exception:
    try:
        raise LookupError("what was looked for")
    except LookupError as error:
        return error


def test_each_is_counted_and_the_first_of_a_place_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    errors = InternalErrors(clock)
    for _ in range(3):
        errors.note("a place", _fault(), "about a client")
    errors.note("another place", _fault())
    assert (errors.total, errors.of("a place")) == (4, 3)
    assert caplog.text.count("in _fault") == 2
    assert "internal error in a place (about a client)" in caplog.text
    clock.now += QUIET_S
    errors.note("a place", _fault())
    assert "2 more there were not logged" in caplog.text
    assert caplog.text.count("in _fault") == 3
