"""Brokers of a cluster are killed and stopped, and links cut, while clients work at all of them: nothing that
was promised is lost, nothing comes twice without a mark, and what is not marked comes in order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.storm import FEW, MANY, storm
from tests.support.chance import FIRST_SEED
from tests.support.patience import patient


@pytest.mark.process
@pytest.mark.timeout(patient(3_600 if "SOAK" in os.environ else 120))
async def test_nothing_is_lost_or_repeated_unmarked_while_brokers_and_links_of_a_cluster_come_and_go(
    tmp_path: Path,
) -> None:
    try:
        if "SOAK" in os.environ:
            await storm(FIRST_SEED, tmp_path, 5, list(MANY))
        else:
            await storm(FIRST_SEED, tmp_path, 3, list(FEW))
    except Exception as failure:
        failure.add_note(f"storm {FIRST_SEED}; see it with: python -m tests.cluster.storm {FIRST_SEED}")
        raise
