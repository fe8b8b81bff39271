"""Which tests do more in `make soak` than in `make test`, and how much, as their modules have it."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parents[2]
_SOAK = "SOAK"
#: all that `_counts` looks for has one of these
_COUNTED = re.compile(r"\b(rounds|sample)\(|SOAK|os\.environ\.get|\.soak\b")
_IMPORTED = re.compile(r"^\s*from (tests\.[\w.]+) import", re.MULTILINE)


class Count(NamedTuple):
    """A number as it is written in a module, in `make test` and in `make soak`."""

    few: str
    many: str


ONLY = Count("not run", "run")


@cache
def variables() -> dict[str, str]:
    """The variables that `make soak` sets."""
    command = ["make", "--dry-run", "soak"]
    printed = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"\b([A-Z_]+)=([\w.]+) ", printed))


def table() -> str:
    """A line for each test that does more."""
    lines = ["| test | `make test` | `make soak` |", "|---|---|---|"]
    for module in sorted(filter(_may_count, (_ROOT / "tests").rglob("test_*.py"))):
        for test, counts in _Module(module).tests():
            few, many = _in_words(counts)
            lines.append(f"| `{module.relative_to(_ROOT / 'tests')}` `{test}` | {few} | {many} |")
    return "\n".join(lines)


def _may_count(module: Path) -> bool:
    """Return whether a module, or one that it imports, has a count: to parse all tests takes seconds."""
    return _has_count(module) or any(map(_has_count, map(_file, _IMPORTED.findall(_text(module)))))


@cache
def _has_count(path: Path) -> bool:
    return _COUNTED.search(_text(path)) is not None


def _file(module: str) -> Path:
    return _ROOT.joinpath(*module.split(".")).with_suffix(".py")


@cache
def _text(path: Path) -> str:
    """The text of a module; none of a package."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _in_words(counts: list[Count]) -> tuple[str, str]:
    more = [count for count in counts if count != ONLY]
    few = ONLY.few if ONLY in counts else ", ".join(count.few for count in more)
    return few, ", ".join(count.many for count in more) or ONLY.many


class _Module:
    """The functions, classes and constants of a module, by name, and the counts in each."""

    def __init__(self, path: Path) -> None:
        self._defined: dict[str, list[ast.stmt]] = {}
        for statement in _statements(path):
            for name in _names(statement):
                self._defined.setdefault(name, []).append(statement)

    def tests(self) -> Iterator[tuple[str, list[Count]]]:
        """The tests that do more, each with the counts that it reaches."""
        for name in self._defined:
            if name.startswith("test_"):
                reached = [self._defined[one] for one in sorted(self._reached(name))]
                found = [count for statements in reached for one in statements for count in _found(one)]
                if found:
                    yield name, list(dict.fromkeys(found))

    def _reached(self, name: str) -> set[str]:
        """The names that a test needs, however far away, and the marks of the module."""
        found: set[str] = set()
        left = {name, *({"pytestmark"} & self._defined.keys())}
        while left:
            found.add(one := left.pop())
            for statement in self._defined[one]:
                left |= _used(statement) & self._defined.keys() - found
        return {one for one in found if one == name or not one.startswith("test_")}


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("tests."):
        return [alias.asname or alias.name for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


@cache
def _statements(path: Path) -> list[ast.stmt]:
    return ast.parse(_text(path)).body


@cache
def _found(statement: ast.stmt) -> list[Count]:
    return list(_counts(statement))


@cache
def _used(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement has."""
    return frozenset(
        node.arg if isinstance(node, ast.arg) else node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name | ast.arg)
    )


def _counts(statement: ast.stmt) -> Iterator[Count]:
    """The counts of a statement; of an import from another module of tests, those of what is imported."""
    if isinstance(statement, ast.ImportFrom):
        path = _file(str(statement.module))
        wanted = {alias.name for alias in statement.names}
        if path.exists():
            for one in _statements(path):
                if isinstance(one, ast.Assign) and wanted & set(_names(one)):
                    yield from _counts(one)
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            yield from _of_call(node)
        elif isinstance(node, ast.IfExp) and _asks_for_soak(node.test):
            yield Count(ast.unparse(node.orelse), ast.unparse(node.body))
        elif isinstance(node, ast.If) and _asks_for_soak(node.test):
            yield Count("less", "more")
        elif isinstance(node, ast.Attribute) and node.attr == _SOAK.lower():
            yield ONLY


def _of_call(call: ast.Call) -> Iterator[Count]:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name == "rounds":
        yield Count(*map(ast.unparse, call.args))
    elif name == "sample":
        things, count = map(ast.unparse, call.args)
        yield Count(f"{count} of {things}", things)
    elif isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "os.environ.get":
        yield from _of_variable(call)


def _of_variable(call: ast.Call) -> Iterator[Count]:
    """The count that `make soak` sets, with its default."""
    name, *default = (node.value if isinstance(node, ast.Constant) else "" for node in call.args)
    if name in variables():
        yield Count(str(default[0]) if default else "0", variables()[str(name)])


def _asks_for_soak(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == _SOAK for node in ast.walk(test))
