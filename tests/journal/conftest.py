"""Servers of the tests' own: the newest, from Python packages, and Debian's, which are older."""

import shutil
from collections.abc import Iterator

import pytest

from tests.support.missing import missing
from tests.support.postgres import Postgres, debian_programs, postgres_server
from tests.support.redis import Redis, redis_server

from .stage import Reports


@pytest.fixture(scope="session")
def postgres(processes: None) -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis(processes: None) -> Iterator[Redis]:
    with redis_server() as server:
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
