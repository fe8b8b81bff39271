"""The targets of make that errors name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("broker_app", "mom_client", "mom_pipeline", "mom_site", "pyspark_mom", "tests", "benchmarks")
_NAMED = re.compile(r"\brun `?make ([a-z-]+)")


def test_errors_name_targets_of_make_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    texts = {
        path: path.read_text(encoding="utf-8") for source in SOURCES for path in (ROOT / source).rglob("*.py")
    }
    named = {(target, path.name) for path, text in texts.items() for target in _NAMED.findall(text)}
    assert ("build", "console_assets.py") in named
    assert [one for one in sorted(named) if one[0] not in targets] == []
