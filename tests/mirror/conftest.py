"""A PostgreSQL server, and brokers that share a journal there."""

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mirrors import Mirrors, mirrors_in
from tests.support.postgres import Postgres, postgres_server

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def mirrors(processes: None, tmp_path: Path, postgres: Postgres) -> Iterator[Mirrors]:
    """Brokers of a name of their own."""
    with mirrors_in(tmp_path, f"B{next(_NUMBERS)}", postgres.url) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Adds the logs of the brokers that a failed test has used."""
    report = yield
    made = getattr(item, "funcargs", {}).get("mirrors")
    if report.failed and made is not None:
        for broker in made.brokers:
            report.sections.append((f"log of {broker.data.name}", broker.log[-5_000:]))
    return report
