"""The log: the form of its lines."""

from __future__ import annotations

import json
import logging
import re
from logging import LogRecord

from mom_site.log_formats import FORMATS

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"


def a_record(text: str, *values: object, error: Exception | None = None) -> LogRecord:
    about = (type(error), error, error.__traceback__) if error is not None else None
    return LogRecord("broker_app.node.process", logging.WARNING, "process.py", 7, text, values, about)


def test_a_line_of_text_has_the_zone_of_its_time() -> None:
    line = FORMATS["text"]().format(a_record("broker %s stops", "west"))
    assert re.fullmatch(rf"{TIME} WARNING broker_app\.node\.process: broker west stops", line)


def test_a_line_of_json_is_one_object_also_with_a_trace_back() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        line = FORMATS["json"]().format(a_record("it failed: %s", error, error=error))
    found = json.loads(line)
    assert "\n" not in line
    assert (found["level"], found["logger"], found["message"]) == (
        "warning", "broker_app.node.process", "it failed: two\nlines",
    )  # fmt: skip
    assert re.fullmatch(TIME, found["time"])
    assert found["exception"].splitlines()[-2:] == ["ValueError: two", "lines"]


def test_what_an_event_is_about_is_a_member_of_its_json() -> None:
    record = a_record("bridge west: connected")
    record.facts = {"kind": "bridges", "name": "west", "event": "connected"}
    found = json.loads(FORMATS["json"]().format(record))
    assert (found["kind"], found["name"], found["event"]) == ("bridges", "west", "connected")
