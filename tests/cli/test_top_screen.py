"""The screen of `mom top`, without a terminal."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from broker_app.cli.top_screen import TopScreen, with_states

NODE = {
    "name": "b1", "in_rate": 5.0, "out_rate": 4.0, "connections": 3,
    "memory_bytes": 1 << 21, "journal_bytes": 1 << 20,
}  # fmt: skip


def a_row(name: str, **more: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("depth", "unsettled", "delayed", "consumers"), 0)
    return {"name": name, **nothing, "in_rate": 0.0, "out_rate": 0.0, "oldest_s": 0.0, **more}


ROWS = [
    a_row("/queue/a", depth=7, oldest_s=3725.0),
    a_row("/queue/b", depth=2, in_rate=5.0, out_rate=4.0, consumers=2),
    a_row("/topic/c"),
]


def a_screen(**more: Any) -> TopScreen:
    screen = TopScreen("rate", 30, **more)
    screen.take("12:00:00", NODE, with_states(ROWS, {"/queue/a": "no-consumer"}))
    return screen


def lines_of(screen: TopScreen, width: int = 120) -> list[str]:
    console = Console(width=width, record=True, file=StringIO())
    console.print(screen.shown(width))
    return console.export_text().splitlines()


def names_of(screen: TopScreen) -> list[str]:
    return [row["name"] for row in screen.chosen]


def test_totals_states_and_ages_are_shown() -> None:
    lines = lines_of(a_screen())
    assert lines[1].split() == "name state depth in/s ▾ out/s oldest unsettled consumers delayed".split()
    assert lines[2].split() == "all 3 9 5 4 1 h 2 min 0 2 0".split()
    assert lines[3].split()[:3] == ["/queue/b", "flowing", "2"]
    assert lines[4].split()[:3] == ["/queue/a", "no-consumer", "7"]
    assert lines[5].split()[:2] == ["/topic/c", "idle"]


def test_the_least_important_columns_go_first_where_it_is_narrow() -> None:
    lines = lines_of(a_screen(), width=60)
    assert lines[1].split() == "name state depth in/s ▾ out/s oldest".split()
    assert all(len(line) <= 60 for line in lines[1:6])
    assert lines_of(a_screen(), width=30)[1].split() == ["name", "state"]


def test_keys_sort_filter_pause_and_end() -> None:
    screen = a_screen()
    for key, first in {"d": "a", "r": "b", "n": "a", "o": "a", "x": "a"}.items():
        screen.press(key)
        assert names_of(screen)[0] == f"/queue/{first}", key
    for key in "/qux\x7f\x7f\x7fB":
        screen.press(key)
    assert (screen.ended, "filter: B" in lines_of(screen)[-1]) == (False, True)
    screen.press("\r")
    assert names_of(screen) == ["/queue/b"]
    assert "filter 'B': 1 of 3" in lines_of(screen)[-1]
    screen.press("\x1b")
    assert len(names_of(screen)) == 3
    screen.press("p")
    screen.take("12:00:01", NODE, [])
    assert (len(screen.rows), "PAUSED" in lines_of(screen)[-1]) == (3, True)
    screen.press(" ")
    screen.take("12:00:01", NODE, [])
    assert screen.rows == []
    screen.press("q")
    assert screen.ended
