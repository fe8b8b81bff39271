"""Docstrings, comments and texts keep to docs/style.md, as far as a test can check it."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import checkout
from tests.support.checkout import ROOT

#: words to replace; docs/style.md has the better ones
AVOIDED = re.compile(
    r"\b(anew|of late|beside|whoever|whomever|nobody|somebody|everybody|tells?|told|said|deeds?|lends?|mends?"
    r"|mended|asleep|foretell\w*|foresee\w*|errands?)\b",
    re.IGNORECASE,
)
#: begins a docstring that is a clause: not the action of a function, nor the noun that it returns
CLAUSE = re.compile(r"(What|Who|Whose|How|Whether|Where|When|Which|Why)\b")
DOCS = (
    "README.md",
    "CHANGELOG.md",
    "ARCHITECTURE.md",
    "docs/*.md",
    "docs/decisions/*.md",
    "templates/*.html",
    "frontend/src/*.ts",
    "frontend/tests/*.ts",
)
#: style.md lists the words
EXEMPT = ("docs/style.md", "/migrations/")


def sources(*patterns: str) -> list[Path]:
    """The files of the repository that match."""
    return [ROOT / name for name in checkout.files(*patterns) if not any(part in name for part in EXEMPT)]


PYTHON = sources(
    "broker_app/*.py", "mom_client/*.py", "mom_pipeline/*.py", "mom_site/*.py", "pyspark_mom/*.py"
)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each comment and each string with a blank in it, with its line number; of other files, each line."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(content.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield token.start[0], token.string


@pytest.mark.parametrize("files", [PYTHON, sources(*DOCS)], ids=["python", "docs"])
def test_texts_use_the_words_of_other_brokers(files: list[Path]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in files
        for line, text in texts(path)
        for match in AVOIDED.finditer(text)
    ]
    assert not found


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = []
    for path in PYTHON:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text and CLAUSE.match(text):
                    found.append(
                        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
                    )
    assert not found
