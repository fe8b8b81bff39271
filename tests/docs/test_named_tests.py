"""The tables of attacks, and of what users of other brokers expect, name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: the documents with such a table, and how many rows it has at least
TABLES = {"docs/security.md": 20, "docs/decisions/0032-what-users-of-other-brokers-expect.md": 24}
_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?` \|$", re.MULTILINE)


def named(document: str) -> list[tuple[str, str]]:
    """(file, name) of the tests in the last column of a table; without a name all tests of the file."""
    return [(file, name) for file, name in _NAMED.findall((ROOT / document).read_text(encoding="utf-8"))]


NAMED = sorted({one for document in TABLES for one in named(document)})


@pytest.mark.parametrize("document", TABLES)
def test_the_table_is_read(document: str) -> None:
    assert len(named(document)) >= TABLES[document]


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name or file for file, name in NAMED])
def test_each_row_has_its_test(file: str, name: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^ *(async )?def {name or 'test_'}", text, re.MULTILINE)
