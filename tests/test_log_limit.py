"""Clients cannot fill the log: of each kind of line that they cause, one a second is written."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from broker_app.base.log_limit import RareLines, RareLog
from broker_app.base.refused import Refused

Write = Callable[..., list[str]]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def write(clock: Clock) -> Write:
    """Passes records on as a handler does; returns all lines that were written so far."""
    lines: list[str] = []
    limit = RareLines(clock)

    def one(name: str, text: str, *values: object, level: int = logging.WARNING, **more: object) -> list[str]:
        record = logging.LogRecord(name, level, "", 0, text, values, None)
        vars(record).update(more)
        if limit.filter(record):
            lines.append(record.getMessage())
        return lines

    return one


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("django.request", "Not Found: %s"),
        ("uvicorn.error", "Invalid HTTP request received from %s"),
        ("broker_app.net.stomp.session_registry", "%s refused"),
    ],
)
def test_of_lines_that_differ_in_values_alone_one_a_second_is_written(
    write: Write, clock: Clock, name: str, text: str
) -> None:
    for number in range(300):
        write(name, text, f"/nothing{number}")
    clock.now += 1
    assert write(name, text, "/again") == [
        text % "/nothing0",
        text % "/again" + " (and 299 more such lines)",
    ]


def test_refusals_are_distinguished_by_their_codes(write: Write) -> None:
    name = "broker_app.net.stomp.session_registry"
    for code in ("not-allowed", "too-many", "not-allowed"):
        lines = write(name, "%s refused: %s", "tcp 127.0.0.1", Refused(code, "because"))
    assert len(lines) == 2


def test_lines_of_the_broker_itself_are_all_written(write: Write) -> None:
    for number in range(5):
        lines = write("broker_app.journal", "segment %d", number)
    assert len(lines) == 5


def test_the_kinds_that_are_remembered_are_bounded(write: Write) -> None:
    for number in range(3_000):
        write("uvicorn.error", f"text {number}")
    assert write("uvicorn.error", "text 0")[-1] == "text 0", "it was forgotten"


def test_an_event_that_repeats_is_written_once_a_second_and_another_one_at_once(write: Write) -> None:
    """The text of all events is the same: the record says what is of one kind."""
    name = "broker_app.telemetry.event_log"
    for number in range(100):
        write(name, "%s: %s", "west", f"refused, attempt {number}", kind=("west", "refused"))
    lines = write(name, "%s: %s", "east", "connected", kind=("east", "connected"))
    assert lines == ["west: refused, attempt 0", "east: connected"]


def test_a_program_that_begins_to_print_is_written_whole_and_then_a_line_a_second(clock: Clock) -> None:
    log = logging.getLogger("broker_app.reflex.libraries.output_log")
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    rare = RareLog(log, logging.WARNING, clock, burst=3)
    for second in range(10):
        clock.now += 1
        for number in range(50):
            rare.log("%s", f"{second}.{number}")
    log.removeHandler(handler)
    assert lines[:3] == ["0.0", "0.1", "0.2"]
    assert lines[3:] == ["1.0 (and 47 more such lines)"] + [
        f"{second}.0 (and 49 more such lines)" for second in range(2, 10)
    ]
