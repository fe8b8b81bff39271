"""Faults of a library that are found when a reflex is saved, without running its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_app.reflex.libraries.library_loader import fault

SOURCE = """
raise RuntimeError("this must not run")
def small(message): return 1
def _private(message): return 1
try:
    from fast import quick
except ImportError:
    def quick(message): return 1
made = small
"""


@pytest.mark.parametrize(
    ("library", "function", "found"),
    [
        ("orders", "small", None),
        ("orders", "quick", None),
        ("orders", "made", None),
        ("offers", "anything", None),
        ("orders", "smal", ("function", "library orders has no function smal; it has ")),
        ("order", "small", ("library", "did you mean orders?")),
        ("nolib", "f", ("library", "there is no library nolib in ")),
        ("broken", "f", ("library", "broken.py cannot be loaded: ")),
    ],
)
def test_what_a_declaration_names_and_is_not_there_is_found_in_the_source(
    tmp_path: Path, library: str, function: str, found: tuple[str, str] | None
) -> None:
    (tmp_path / "orders.py").write_text(SOURCE)
    (tmp_path / "offers.py").write_text("def mom_functions(): return {}\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    wrong = fault(library, function, str(tmp_path))
    if found is None:
        assert wrong is None
    else:
        assert wrong is not None and wrong[0] == found[0] and found[1] in wrong[1]


def test_without_a_directory_the_setting_that_lacks_is_named() -> None:
    wrong = fault("nolib", "f", "")
    assert wrong is not None and "MOM_REFLEX_PATH is not set" in wrong[1]
