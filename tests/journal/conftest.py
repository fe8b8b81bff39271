"""Servers of the tests' own: the newest, from Python packages, and Debian's, which are older."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.missing import missing
from tests.support.postgres import Postgres, debian_programs, postgres_server
from tests.support.redis import Redis, redis_server
from tests.support.temporary import IN_MEMORY

from .stage import Reports

FOLDER = Path(__file__).parent
NEWER, OLDER = ("postgres", "redis"), ("older_postgres", "older_redis")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has the tests of a server run in one process, so that it is made once in a run. Leaves to `make soak`
    journals on older servers, and those without threads on the others: all that differs is below the store,
    whose own tests run on each, and journals without threads are tested with files."""
    for item in items:
        if not item.path.is_relative_to(FOLDER):
            continue
        chosen = getattr(getattr(item, "callspec", None), "params", {})
        names = {*getattr(item, "fixturenames", ()), *map(str, chosen.values())}
        for server in (*NEWER, *OLDER):
            if server in names and item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group(f"journal-{server}"))
        if _is_for_soak(item, chosen):
            item.add_marker(pytest.mark.soak)


def _is_for_soak(item: pytest.Item, chosen: Mapping[str, object]) -> bool:
    """Return whether a test of a journal with these parameters is left to `make soak`."""
    if "reports" not in chosen:
        return False
    has_both = not any("reports" in mark.args[0] for mark in item.iter_markers("parametrize"))
    without_threads = has_both and chosen["reports"] == "at once"
    return chosen.get("kind") in OLDER or (without_threads and chosen.get("kind") in NEWER)


@pytest.fixture(scope="session")
def postgres(processes: None) -> Iterator[Postgres]:
    with postgres_server(None, IN_MEMORY) as server:
        yield server


@pytest.fixture(scope="session")
def redis(processes: None) -> Iterator[Redis]:
    with redis_server("", IN_MEMORY) as server:
        yield server


@pytest.fixture(scope="session")
def older_postgres(processes: None) -> Iterator[Postgres]:
    programs = debian_programs() or missing("Debian's PostgreSQL (postgresql)")
    with postgres_server(programs) as server:
        yield server


@pytest.fixture(scope="session")
def older_redis(processes: None) -> Iterator[Redis]:
    program = shutil.which("redis-server") or missing("Debian's Redis (redis-server)")
    with redis_server(program) as server:
        yield server


@pytest.fixture(params=["at once", "in threads"])
def reports(request: pytest.FixtureRequest) -> Reports | None:
    """The loop of a journal with threads; None for one that does everything at once."""
    return Reports() if request.param == "in threads" else None
