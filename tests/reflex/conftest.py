"""Fixtures of tests of reflexes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.reflex.filtering_broker import COMMIT_S, FilteringBroker


@pytest.fixture
def held_bytes() -> int:
    """Bytes that may wait for reflexes."""
    return 64 * 1024 * 1024


@pytest.fixture
def commit_s() -> float:
    """Seconds of a commit of the journal."""
    return COMMIT_S


@pytest.fixture
async def filtering(
    processes: None, tmp_path: Path, held_bytes: int, commit_s: float
) -> AsyncIterator[FilteringBroker]:
    """A broker in memory with reflexes."""
    broker = FilteringBroker(tmp_path, held_bytes=held_bytes, commit_s=commit_s)
    yield broker
    await broker.stop()
