"""The screen of `mom top`: totals, destinations with their states, and the keys that change what is shown."""

from __future__ import annotations

import os
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from select import select
from typing import TYPE_CHECKING, Any, Final

from broker_app.base import durations

if TYPE_CHECKING:
    from rich.console import Group, JustifyMethod
    from rich.text import Text

Row = Mapping[str, Any]

#: sort keys by name, and the key that chooses each; all but `name` are descending
SORTS: Final[Mapping[str, tuple[str, Callable[[Row], Any]]]] = {
    "rate": ("r", lambda row: -(row["in_rate"] + row["out_rate"])),
    "depth": ("d", lambda row: -row["depth"]),
    "oldest": ("o", lambda row: -row["oldest_s"]),
    "name": ("n", lambda row: row["name"]),
}
#: the columns, those first that are dropped last where the terminal is narrow
COLUMNS: Final = (
    "name", "state", "depth", "in_rate", "out_rate", "oldest", "unsettled", "consumers", "delayed",
)  # fmt: skip
#: the column by which each order sorts
_SORTED: Final = {"rate": "in_rate", "depth": "depth", "oldest": "oldest", "name": "name"}
_STYLES: Final = {"at-limit": "red", "no-consumer": "yellow", "growing": "yellow", "paused": "dim"}
_SUMMED: Final = ("depth", "in_rate", "out_rate", "unsettled", "consumers", "delayed")
_MIB: Final = 1 << 20
_WIDEST_NAME: Final = 60
#: rates from here on have no decimals
_WHOLE: Final = 1000
_ENTER, _ESCAPE, _BACK = ("\r", "\n"), "\x1b", ("\x7f", "\b")


def with_states(destinations: Sequence[Row], conspicuous: Mapping[str, str]) -> list[Row]:
    """The rows of destinations with their states: those of the broker where something is `conspicuous`."""

    def state(row: Row) -> str:
        moves = row["in_rate"] or row["out_rate"]
        return conspicuous.get(row["name"]) or ("flowing" if moves else "idle")

    return [{**row, "state": state(row)} for row in destinations]


def ordered(rows: Sequence[Row], sort: str) -> list[Row]:
    """The rows in one of the orders of `SORTS`."""
    return sorted(rows, key=SORTS[sort][1])


@dataclass
class TopScreen:
    """The content of the screen, as keys have changed it. `rows` and `node` are the latest figures."""

    sort: str
    lines: int
    rows: Sequence[Row] = ()
    node: Row | None = None
    time: str = ""
    filter: str = ""
    #: the text of the filter is being typed
    typing: bool = False
    paused: bool = False
    ended: bool = False

    def take(self, time: str, node: Row, rows: Sequence[Row]) -> None:
        """Take newer figures, unless the screen is paused."""
        if not self.paused:
            self.time, self.node, self.rows = time, node, rows

    def press(self, key: str) -> None:
        """Obey a key."""
        if self.typing:
            self._type(key)
        elif key == "/":
            self.typing = True
        elif key == _ESCAPE:
            self.filter = ""
        elif key in ("p", " "):
            self.paused = not self.paused
        elif key in ("q", "\x03"):
            self.ended = True
        else:
            self.sort = next((name for name, (letter, _) in SORTS.items() if letter == key), self.sort)

    def _type(self, key: str) -> None:
        if key in _ENTER:
            self.typing = False
        elif key == _ESCAPE:
            self.typing, self.filter = False, ""
        elif key in _BACK:
            self.filter = self.filter[:-1]
        elif key.isprintable():
            self.filter += key

    @property
    def chosen(self) -> list[Row]:
        """The rows that the filter leaves, in order."""
        sought = self.filter.lower()
        return ordered([row for row in self.rows if sought in row["name"].lower()], self.sort)

    def shown(self, width: int) -> Group:
        """The whole screen, not wider than `width` characters."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        chosen = self.chosen
        cells = [_cells(row) for row in [_totals(chosen), *chosen[: self.lines]]]
        shown = _fitting(cells, width)
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in shown:
            arrow = " ▾" if _SORTED[self.sort] == name else ""
            justify: JustifyMethod = "left" if name in ("name", "state") else "right"
            table.add_column(_head(name) + arrow, justify=justify, no_wrap=True, overflow="ellipsis")
        for number, row in enumerate(cells):
            table.add_row(*[_styled(name, row[name], total=not number) for name in shown])
        title = Text(self._title(), no_wrap=True, overflow="ellipsis")
        return Group(
            title, table, Text(self._keys(len(chosen)), style="dim", no_wrap=True, overflow="ellipsis")
        )

    def _title(self) -> str:
        node = self.node
        if node is None:
            return ""
        return (
            f"{node['name']}  {self.time}  in {node['in_rate']:g}/s  out {node['out_rate']:g}/s  "
            f"{node['connections']} connections  memory {node['memory_bytes'] // _MIB} MiB  "
            f"journal {node['journal_bytes'] // _MIB} MiB"
        )

    def _keys(self, found: int) -> str:
        if self.typing:
            return f"filter: {self.filter}▏  (Enter keeps it, Esc clears it)"
        keys = "  ".join(f"{letter} {name}" for name, (letter, _) in SORTS.items())
        filtered = f"filter {self.filter!r}: {found} of {len(self.rows)}  " if self.filter else ""
        return f"{'PAUSED  ' if self.paused else ''}{filtered}{keys}  / filter  p pause  q quit"


def _totals(rows: Sequence[Row]) -> Row:
    """The row of totals of all rows, also of those that are not shown."""
    summed: dict[str, Any] = {name: sum(row[name] for row in rows) for name in _SUMMED}
    oldest = max((row["oldest_s"] for row in rows), default=0)
    return {**summed, "name": f"all {len(rows)}", "state": "", "oldest_s": oldest}


def _cells(row: Row) -> dict[str, str]:
    counts = {name: f"{row[name]:,}" for name in ("depth", "unsettled", "consumers", "delayed")}
    rates = {name: _rate(row[name]) for name in ("in_rate", "out_rate")}
    oldest = durations.in_words(row["oldest_s"]) if row["oldest_s"] else ""
    return {"name": row["name"], "state": row["state"], **counts, **rates, "oldest": oldest}


def _rate(rate: float) -> str:
    return f"{rate:.4g}" if rate < _WHOLE else f"{rate:,.0f}"


def _fitting(cells: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """The columns for which there is room, with the name shortened to `_WIDEST_NAME` where it has to be."""
    widths = {name: max(len(_head(name)) + 2, *(len(row[name]) for row in cells)) for name in COLUMNS}
    widths["name"] = min(widths["name"], _WIDEST_NAME)
    shown = list(COLUMNS)
    while len(shown) > 2 and sum(widths[name] + 2 for name in shown) > width:
        shown.pop()
    return shown


def _head(name: str) -> str:
    return {"in_rate": "in/s", "out_rate": "out/s"}.get(name, name)


def _styled(name: str, cell: str, *, total: bool) -> Text:
    from rich.text import Text

    style = _STYLES.get(cell, "") if name == "state" else "dim" if cell == "0" else ""
    return Text(cell, style="bold" if total else style)


@contextmanager
def pressed_keys() -> Iterator[Callable[[float], str]]:
    """Give a function that waits so many seconds at most, and returns the keys that were pressed."""
    if not sys.stdin.isatty():
        yield _no_keys
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def pressed(within_s: float) -> str:
        readable, _, _ = select([fd], [], [], within_s)
        keys = os.read(fd, 64).decode(errors="ignore") if readable else ""
        # Arrows and the like are sequences, of which none means anything here.
        return "" if keys.startswith(_ESCAPE) and len(keys) > 1 else keys

    # Now, and without dropping what was typed before.
    tty.setcbreak(fd, termios.TCSANOW)
    try:
        yield pressed
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _no_keys(within_s: float) -> str:
    time.sleep(within_s)
    return ""
