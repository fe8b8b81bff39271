"""The sources of the console keep to their limits, and its tables to those of the broker."""

import re

from tests.docs import console_tables
from tests.docs.test_style import sources
from tests.support.checkout import ROOT

MOST_LINES = 300


def test_no_module_of_the_console_is_longer_than_a_few_screens() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8").count("\n")
        for path in sources("frontend/src/*.ts", "frontend/tests/*.ts")
    }
    assert not {name: length for name, length in lengths.items() if length > MOST_LINES}


def test_the_tables_of_the_console_are_those_of_the_broker() -> None:
    for file, text in console_tables.files().items():
        assert file.read_text(encoding="utf-8") == text, "run `python -m tests.docs.generated`"


def test_a_value_has_the_label_of_its_column_on_a_phone_too() -> None:
    """There the head of a table is hidden, and each cell shows its label."""
    wrong = []
    for path in sources("frontend/src/*.ts"):
        text = path.read_text(encoding="utf-8")
        labels = set(re.findall(r'data-label=\$\{gettext\(("[^"]+")\)', text))
        others = re.sub(r"data-label=\$\{gettext\([^)]*\)", "", text)
        wrong += [f"{path.name}: {label}" for label in labels if f"gettext({label})" not in others]
    assert not wrong
