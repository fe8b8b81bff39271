"""ARCHITECTURE.md is a map of the whole house."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from broker_app.config import settings

ROOT = Path(__file__).resolve().parents[2]
MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
_BRACES = re.compile(r"`([^`{]*)\{([^`}]*)\}/`")


def _named() -> set[str]:
    """The folders that the map names, each by itself or with others in braces."""
    one_by_one = set(re.findall(r"`([^`{]+)/`", MAP))
    return one_by_one | {start + end for start, ends in _BRACES.findall(MAP) for end in ends.split(",")}


def test_every_package_is_on_the_map() -> None:
    packages = [
        path.parent.relative_to(ROOT).as_posix()
        for top in ("broker_app", "mom_client", "mom_pipeline", "mom_site", "pyspark_mom")
        for path in sorted((ROOT / top).rglob("__init__.py"))
    ]
    assert not set(packages) - _named()


def test_every_folder_at_the_top_is_on_the_map() -> None:
    built = {"data", "build", "dist"}
    folders = [
        path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))
    ]
    missing = [
        name
        for name in folders
        if name not in built and not name.endswith(".egg-info") and name not in _named()
    ]
    assert not missing


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    missing = [path.name for path in sorted(folder.glob("0*.md")) if f"({path.name})" not in listed]
    assert not missing


def test_every_setting_has_a_reason_among_the_decisions() -> None:
    record = (ROOT / "docs" / "decisions" / "0033-what-the-house-keeps.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1] for row in record.splitlines() if row.startswith("| `")]
    reasons = Counter(name for row in rows for name in re.findall(r"`(\w+)`", row))
    assert reasons == Counter(setting.name for setting in settings())


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/how-to-change.md"])
def test_every_named_file_exists_and_contains_the_named_symbols(page: str) -> None:
    kinds = "py|ts|html|css"
    folders = (
        "broker_app",
        "frontend/src",
        "mom_client",
        "mom_pipeline",
        "mom_site",
        "pyspark_mom",
        "templates",
        "tests",
    )
    files = [
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*.*")
        if "node_modules" not in path.parts
    ]
    wrong = []
    text = (ROOT / page).read_text(encoding="utf-8")
    for place in re.finditer(rf"`([\w./-]+\.(?:{kinds}))`((?:,? `\w+`)*)", text):
        exact = [file for file in files if file == place[1]]
        found = exact or [file for file in files if file.endswith(f"/{place[1]}")]
        source = (ROOT / found[0]).read_text(encoding="utf-8") if found else ""
        names = re.findall(r"`(\w+)`", place[2])
        unknown = [name for name in names if not re.search(rf"\b{name}\b", source)]
        if len(found) != 1 or unknown:
            wrong.append((place[1], found, unknown))
    assert not wrong


def test_the_map_stays_a_page() -> None:
    assert len(MAP.split()) <= 1_100
    assert not [line for line in MAP.splitlines() if len(line) > 160]


def test_no_folder_of_the_product_has_more_than_25_modules() -> None:
    folders = Counter(
        path.parent.relative_to(ROOT).as_posix()
        for top in ("broker_app", "mom_client", "mom_pipeline", "mom_site", "pyspark_mom")
        for path in (ROOT / top).rglob("*.py")
    )
    assert not {folder: modules for folder, modules in folders.items() if modules > 25}


def test_every_module_has_a_floor() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    floors = [module for layer in layers for module in re.split(r" [|:] ", layer)]
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted((ROOT / "broker_app").rglob("*.py"))
        if path.name != "__init__.py"
    ]
    loose = [name for name in modules if not any(f"{name}.".startswith(f"{floor}.") for floor in floors)]
    assert not loose
