"""`make soak` runs every test that does more there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
#: what a module has that is marked for `make soak`, or reads a number that it sets
_MORE = re.compile(
    r"""mark\.soak\b|\brounds\(|["'](?:SOAK|EVERY_LOOK|FUZZ_SECONDS|FOREIGN|TAKEOVERS|[A-Z_]*(?:KILLS|STORMS))["']"""
)
#: tests of doing more, which do not
_ABOUT = {Path(__file__).resolve(), _ROOT / "tests" / "test_samples.py"}
#: a sample of a family, all of which is tested there
_SAMPLE = re.compile(r"(?<!\.)\bsample\(")


def commands_of_soak() -> str:
    dry_run = ["make", "--dry-run", "soak"]
    return subprocess.run(dry_run, cwd=_ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.process
def test_make_soak_runs_every_test_that_does_more_there() -> None:
    commands = commands_of_soak()
    run = [_ROOT / word for word in commands.split() if word.startswith("tests/")]
    assert "-m hypothesis" in commands, "properties are tested with more examples there, in all modules"
    missing = [
        str(module.relative_to(_ROOT))
        for module in (_ROOT / "tests").rglob("test_*.py")
        if module not in _ABOUT
        and _does_more(module.read_text())
        and not any(module.is_relative_to(path) for path in run)
    ]
    if not run:
        pytest.fail("`make soak` names no tests")
    assert missing == []


def _does_more(module: str) -> bool:
    """Return whether `make soak` has to name a module: one with properties is run by their mark."""
    return bool(_SAMPLE.search(module)) or bool(_MORE.search(module) and "@given" not in module)
