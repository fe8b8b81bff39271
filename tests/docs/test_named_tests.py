"""The tables of attacks, of clusters, of what users of other brokers expect, and of what was found in the
console name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: the documents with such a table, and how many rows it has at least
TABLES = {
    "docs/security.md": 40,
    "docs/decisions/0030-enhanced-clusters.md": 35,
    "docs/decisions/0032-what-users-of-other-brokers-expect.md": 40,
    "docs/design/findings.md": 55,
}
#: of clusters and of dynamic failover
SCENARIOS = [
    *(f"CL-T{number:02}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 16)),
    *(f"AF-T{number:02}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16)),
]
#: of security, see there
OF_SECURITY = [
    *(f"G{number}" for number in range(1, 20)),
    *(f"R{number}" for number in (*range(1, 8), 9, 11, 12, 13)),
]
#: of what users of other brokers expect
OF_OTHER_BROKERS = [
    *(f"F{number}" for number in range(1, 11)),
    *(f"S{number}" for number in range(1, 10)),
    *(f"T{number}" for number in range(1, 6)),
]
#: of the console: those that were open or partly closed, and new ones
OF_CONSOLE = [
    *(f"B{number}" for number in (5, 7, *range(9, 21))),
    *(f"N{number}" for number in range(1, 9)),
]
_NAMED = re.compile(r"`((?:frontend/)?tests/[\w/-]+\.(?:py|test\.ts))(?:::([^`]+))?` \|$", re.MULTILINE)


def named(document: str) -> list[tuple[str, str]]:
    """(file, name) of the tests in the last column of a table; without a name all tests of the file."""
    return [(file, name) for file, name in _NAMED.findall((ROOT / document).read_text(encoding="utf-8"))]


NAMED = sorted({one for document in TABLES for one in named(document)})


@pytest.mark.parametrize("document", TABLES)
def test_the_table_is_read(document: str) -> None:
    assert len(named(document)) >= TABLES[document]


def test_each_scenario_of_clusters_has_a_row() -> None:
    text = (ROOT / "docs" / "decisions" / "0030-enhanced-clusters.md").read_text(encoding="utf-8")
    assert [scenario for scenario in SCENARIOS if f"\n| {scenario} |" not in text] == []


def test_each_finding_about_security_has_a_row() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:[FGR]\d+(?:, )?)+) \|", text, re.MULTILINE)
    shown = {finding for row in rows for finding in row.split(", ")}
    assert [finding for finding in OF_SECURITY if finding not in shown] == []


def test_each_finding_about_other_brokers_has_a_row() -> None:
    (document,) = (one for one in TABLES if "0032" in one)
    text = (ROOT / document).read_text(encoding="utf-8")
    assert [finding for finding in OF_OTHER_BROKERS if f"\n| {finding} |" not in text] == []


def test_each_finding_in_the_console_has_a_row() -> None:
    text = (ROOT / "docs" / "design" / "findings.md").read_text(encoding="utf-8")
    assert [finding for finding in OF_CONSOLE if f"\n| {finding} |" not in text] == []


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name or file for file, name in NAMED])
def test_each_row_has_its_test(file: str, name: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".ts"):
        assert f'test("{name}"' in text
        return
    assert re.search(rf"^ *(async )?def {name or 'test_'}", text, re.MULTILINE)


def test_each_file_that_shows_a_point_of_clusters_exists() -> None:
    """A path without a folder is in tests/cluster/."""
    text = (ROOT / "docs" / "decisions" / "0028-clusters.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\|.*\| ([^|]*) \|$", text.partition("## What shows it")[2], re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`([\w/]+\.py)`", cell)}
    assert len(named) > 40
    tests = ROOT / "tests"
    assert [
        one for one in sorted(named) if not (tests / (one if "/" in one else f"cluster/{one}")).exists()
    ] == []
