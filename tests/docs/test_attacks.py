"""The table of attacks names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/security.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?` \|$", TEXT, re.MULTILINE)


def test_the_table_is_read() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name or file for file, name in NAMED])
def test_each_attack_has_its_test(file: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name or 'test_'}", (ROOT / file).read_text(), re.MULTILINE)
