"""A state is declared once, in `broker_app.base.states`: no other table has its names, labels or signs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from broker_app.base import states
from broker_app.base.states import FAMILIES
from broker_app.features.cluster.clients.client_reports import ListPlaceState, RebalancingState, Stays
from broker_app.features.cluster.report import LinkState, MemberState, TakeoverResult
from mom_pipeline.jobs import reconcile
from tests.support import checkout
from tests.support.checkout import ROOT

#: sets of names that are enough to know a family by
KNOWN = [frozenset(family) for _subject, family in FAMILIES.values() if len(family) > 2]
LABELS = {state.label for _subject, family in FAMILIES.values() for state in family.values()}
#: where it is about something else, although its words are the same
ALLOWED = {
    "broker_app/base/states.py": "the table",
    "broker_app/reflex/stored_trials.py": "members of a reply, each with its messages",
    "mom_pipeline/jobs/reconcile.py": "it runs without the broker; compared below",
    "broker_app/features/cluster/report.py": "types of the type checker; compared below",
    "broker_app/features/cluster/clients/client_reports.py": "the same",
}
#: a sign in a browser module, written out
SIGN = re.compile(r"""\{[^{}]*\bword: gettext\("([^"]*)"\)[^{}]*\}""")
#: alternatives of texts
UNION = re.compile(r'"[\w -]+"(?:\s*\|\s*"[\w -]+")+')


def python() -> list[str]:
    return [
        name
        for name in checkout.files("broker_app/*.py", "mom_pipeline/*.py")
        if name not in ALLOWED and "/migrations/" not in name
    ]


def typescript() -> list[str]:
    return [name for name in checkout.files("frontend/src/*.ts") if "/generated/" not in name]


def tables(tree: ast.AST) -> Iterator[tuple[int, frozenset[str]]]:
    """The texts of each display: keys of a dict, items of a tuple, list or set, alternatives of a Literal."""
    for node in ast.walk(tree):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        texts = [
            item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)
        ]
        if texts and len(texts) == len(items):
            yield node.lineno, frozenset(texts)  # type: ignore[attr-defined]


def second_tables(source: str) -> list[int]:
    """The lines of displays that have all states of a family, and nothing else."""
    return [line for line, texts in tables(ast.parse(source)) if texts in KNOWN]


def second_signs(source: str) -> list[str]:
    """The labels of states that stand in signs, and the unions of all states of a family."""
    unions = (frozenset(re.findall(r'"([^"]+)"', found)) for found in UNION.findall(source))
    return [
        *(label for label in SIGN.findall(source) if label in LABELS),
        *(", ".join(sorted(union)) for union in unions if union in KNOWN),
    ]


@pytest.mark.parametrize(
    "source",
    ['STATES = ("closed", "open", "half-open")', 'LABELS = {"closed": 1, "open": 2, "half-open": 3}'],
)
def test_a_second_table_would_be_found(source: str) -> None:
    assert second_tables(source) == [1]


def test_a_second_sign_would_be_found() -> None:
    assert second_signs('{ tone: "bad", word: gettext("failing") }') == ["failing"]
    assert second_signs('state: "offline" | "stalled" | "active"') == ["active, offline, stalled"]


def test_no_module_of_the_broker_has_a_second_table() -> None:
    found = {name: second_tables((ROOT / name).read_text(encoding="utf-8")) for name in python()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_module_of_the_console_has_a_second_sign() -> None:
    found = {name: second_signs((ROOT / name).read_text(encoding="utf-8")) for name in typescript()}
    assert {name: signs for name, signs in found.items() if signs} == {}


def unpacked(source: str) -> Iterator[tuple[list[str], str]]:
    """The names that a module gives to the states of a family, and the name of that."""
    tree = ast.parse(source)
    families = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == states.__name__
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id=family)) if family in families:
                yield [name.id for name in names if isinstance(name, ast.Name)], family  # without *_


def test_owners_give_each_state_its_own_name() -> None:
    """A family is unpacked in its order: in another order of the table, a name would be that of another."""
    found = [
        (name, names, family)
        for name in python()
        for names, family in unpacked((ROOT / name).read_text(encoding="utf-8"))
    ]
    assert len(found) >= 10
    for name, names, family in found:
        own = [re.sub("[- ]", "_", state).upper() for state in getattr(states, family)]
        assert [one.removesuffix("_STATE") for one in names] == own[: len(names)], name


def test_types_have_the_names_of_the_table() -> None:
    types = {
        "LinkState": LinkState,
        "MemberState": MemberState,
        "TakeoverResult": TakeoverResult,
        "RebalancingState": RebalancingState,
        "Stays": Stays,
        "ListPlaceState": ListPlaceState,
    }
    for name, type_ in types.items():
        assert get_args(type_) == tuple(FAMILIES[name][1])
    assert tuple(FAMILIES["ReconciliationState"][1]) == reconcile.STATES


def test_each_sign_has_an_icon_of_the_console() -> None:
    icons = set(re.findall(r'<symbol id="([\w-]+)"', Path(ROOT / "static/console/icons.svg").read_text()))
    signs = {state.sign.icon for _subject, family in FAMILIES.values() for state in family.values()}
    assert signs <= icons
