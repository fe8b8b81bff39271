"""docs/protocol.md agrees with the code, and so do the generated parts of other pages."""

from pathlib import Path

import pytest

from broker_app.config import settings
from broker_app.core.selectors.compiler import MAX_DEPTH, MAX_LENGTH
from tests.docs import generated

PAGE = generated.PROTOCOL.read_text(encoding="utf-8")
#: `make` is asked what the table of soak needs
PAGES = [
    pytest.param(page, marks=pytest.mark.process) if page == generated.SOAK else page
    for page in generated.PAGES
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_parts_are_current(page: Path) -> None:
    current = page.read_text(encoding="utf-8")
    assert generated.with_parts(page) == current, "run `python -m tests.docs.generated`"


def test_every_setting_it_names_exists() -> None:
    known = {setting.variable for setting in settings()}
    named = {
        word.strip("`;,.|)") for word in PAGE.replace("`", " ").split() if word.strip("`(").startswith("MOM_")
    }
    assert named
    assert named <= known


def test_it_has_the_limits_of_selectors() -> None:
    assert f"A selector has at most {MAX_LENGTH:,} characters and {MAX_DEPTH} nested expressions." in PAGE
