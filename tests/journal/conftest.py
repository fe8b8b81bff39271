"""Servers of the tests' own."""

from collections.abc import Iterator

import pytest

from tests.support.postgres import Postgres, postgres_server
from tests.support.redis import Redis, redis_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    with redis_server() as server:
        yield server
