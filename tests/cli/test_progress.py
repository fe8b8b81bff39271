"""The bar of long operations at a terminal, and the lines elsewhere."""

from __future__ import annotations

import pytest

from broker_app.cli.base import progress
from broker_app.cli.base.output import Output
from broker_app.cli.base.progress import Progress


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a bar nor lines wait."""
    monkeypatch.setattr(progress, "_REDRAW_S", 0.0)
    monkeypatch.setattr(progress, "_LINE_S", 0.0)


def test_a_bar_shows_counts_and_a_note_with_brackets(
    at_once: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Progress(Output(), "to orders[old]", 0, delay_s=0.0) as bar:
        bar.update(0, "starting")
        bar.total = 1_200_000
        bar.update(600_000, "600,000 rows, [idle]")
        capsys.readouterr()
        bar.update(1_200_000, "done")
    drawn = capsys.readouterr().err
    assert "to orders[old]" in drawn
    assert "1,200,000/1,200,000" in drawn
    assert "done" in drawn


def test_without_a_terminal_there_is_a_line_for_each_change(
    at_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(Output(), "positions", 0) as lines:
        lines.update(0, "0 rows, starting")
        lines.total = 2_000
        for _ in range(3):
            lines.update(1_000, "1,000 rows")
    assert capsys.readouterr().err.splitlines() == [
        "positions: 0  0 rows, starting",
        "positions: 1,000 of 2,000  1,000 rows",
    ]
