"""One unconsumed message among many acknowledged ones does not keep their space; measured small."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.compaction import MIB, measure


@pytest.mark.slow
def test_the_space_of_acknowledged_messages_comes_back(tmp_path: Path) -> None:
    outcome = asyncio.run(measure(tmp_path / "journal", 60_000, 0, MIB, enough_bytes=5 * MIB))
    assert outcome.bytes_written > 6 * MIB
    assert outcome.settled_bytes < 5 * MIB
    assert outcome.segments_copied > 0
