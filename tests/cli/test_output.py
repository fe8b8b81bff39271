"""Formats of what commands print."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from broker_app.cli.base.output import Output
from broker_app.cli.configuration.resource_types import BRIDGES
from tests.cli.conftest import CommandLine

COLUMNS = ("name", "depth")
ROWS: list[dict[str, Any]] = [
    {"name": "a\tb", "depth": 1, "more": {"x": None}},
    {"name": "\x1b[31m", "depth": None},
]


def printed(capsys: pytest.CaptureFixture[str], form: str | None, **options: bool) -> str:
    Output(form, **options).rows(COLUMNS, ROWS)
    return capsys.readouterr().out


def test_tsv_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, None) == "name\tdepth\na\\tb\t1\n\\x1b[31m\t\n"
    assert printed(capsys, None, header=False).startswith("a\\tb")


def test_table_at_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    lines = [line.split() for line in printed(capsys, None).splitlines()]
    assert lines == [["name", "depth"], ["a\\tb", "1"], ["\\x1b[31m"]]


def test_a_narrow_table_breaks_no_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    columns = ("name", "acknowledged", "published", "note", "delivered", "unsettled", "consumers", "paused")
    row = {"name": "n" * 30, "acknowledged": 1, "published": 2, "note": "a longer note " * 5, "delivered": 3}
    Output(None).rows(columns, [row])
    written = capsys.readouterr()
    known = {*columns, *(word for value in row.values() for word in str(value).split())}
    assert set(written.out.split()) <= known and "n" * 30 in written.out
    assert all(len(line) <= 80 for line in written.out.splitlines())
    assert "hidden for lack of width: " in written.err and "paused" in written.err


def test_times_are_ages_and_states_have_colours_at_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    rows = [
        {"name": "a", "state": "failing", "since": (now - timedelta(hours=3, seconds=2)).isoformat()},
        {"name": "failing", "state": "running", "since": (now + timedelta(days=2, minutes=1)).isoformat()},
    ]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    Output(None).rows(("name", "state", "since"), rows)
    shown = capsys.readouterr().out
    for text in ("\x1b[31mfailing", "\x1b[32mrunning", "3 h ago", "in 2 d"):
        assert text in shown, text
    assert "\x1b[31mfailing" not in shown.splitlines()[2], "only states have colours"
    Output("tsv").rows(("name", "since"), rows)
    assert rows[0]["since"] in capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "json"))[0] == {"name": "a\tb", "depth": 1}
    assert [json.loads(line)["name"] for line in printed(capsys, "ndjson").splitlines()] == [
        "a\tb",
        "\x1b[31m",
    ]
    Output("json").rows(COLUMNS, ROWS, whole=True)
    assert json.loads(capsys.readouterr().out)[0]["more"] == {"x": None}


def test_ids(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "id") == "a\\tb\n\\x1b[31m\n"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("tsv", "name\tq\ndepth\t1\n"),
        ("table", "name   q\ndepth  1\n"),
        ("id", "q\n"),
        ("ndjson", '{"name": "q", "depth": 1}\n'),
    ],
)
def test_one_resource_is_shown_as_a_list_of_members(
    form: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Output(form).facts({"name": "q", "depth": 1})
    assert capsys.readouterr().out == expected


def test_quiet_prints_no_messages(capsys: pytest.CaptureFixture[str]) -> None:
    Output(quiet=True).say("done")
    assert capsys.readouterr().err == ""
    Output().say("done")
    assert capsys.readouterr().err == "done\n"


def test_warnings_are_printed_with_quiet_too(capsys: pytest.CaptureFixture[str]) -> None:
    Output(quiet=True).warn("orders: 3 messages are not where they should be [a gap]")
    assert capsys.readouterr().err == "orders: 3 messages are not where they should be [a gap]\n"


def test_at_a_terminal_changes_are_sentences_and_objects_are_readable(mom: CommandLine) -> None:
    def last(*words: str) -> str:
        return mom.at_terminal(*words).out.splitlines()[-1]

    assert last("queue", "create", "told", "max_attempts=5") == "declared queue told: max_attempts=5"
    assert last("queue", "set", "told", "max_messages=10") == (
        "changed queue told: max_attempts=5, max_messages=10"
    )
    assert last("group", "create", "told") == "created group told"
    assert last("user", "create", "told", "groups=told") == "created user told"
    assert last("user", "set", "told", "active=no") == "changed user told: active"
    shown = mom.at_terminal("queue", "show", "told").out
    assert "trend" not in shown and "{" not in shown and "[" not in shown
    assert "max_attempts  5 (own)" in shown
    assert mom("queue", "show", "told", "-o", "json").json()["trend"] is not None


@pytest.mark.parametrize("width", [60, 80, 110])
def test_the_list_of_bridges_never_hides_their_errors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """At 110 columns it hid the error, and showed the number of flows."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(width))
    row = dict.fromkeys(BRIDGES.columns, "39 min 12 s") | {"name": "dc-east", "state": "retrying"}
    row |= {"address": "stomps://east.example.org:61614", "error": "REFUSED: login or passcode is wrong"}
    Output(None).rows(BRIDGES.columns, [row])
    written = capsys.readouterr()
    assert {"retrying", "REFUSED:"} <= set(written.out.split())
    assert "error" not in written.err
