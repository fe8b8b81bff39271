"""A member whose heart-beats are missing, as the other members show it while it is not yet given up."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.enhanced_cluster.members import MemberProcess, Members, cluster_of, linked, running
from tests.support.awaiting import becomes

pytestmark = pytest.mark.process

#: a suspect is watched for as long as the test lasts, and keeps its journal meanwhile
PATIENT = (
    *("--cluster-heartbeat-interval", "0.2", "--cluster-monitor-threshold", "100"),
    *("--cluster-monitor-interval", "60", "--lease-s", "600"),
)


async def suspicion_of(name: str, broker: MemberProcess) -> dict[str, Any] | None:
    """The suspicion against a member, as another one shows it."""
    members = (await cluster_of(broker))["enhanced"]["members"]
    found: dict[str, Any] | None = next(one["suspicion"] for one in members if one["broker"] == name)
    return found


async def suspected_by(name: str, broker: MemberProcess) -> list[str]:
    suspicion = await suspicion_of(name, broker)
    return suspicion["by"] if suspicion is not None else []


async def last_event_of(name: str, broker: MemberProcess) -> str:
    """Return the last event that a member has about its suspicion of another one; empty without one."""
    async with broker.rest() as http:
        items = (await http.get("/events", params={"kind": "cluster"})).json()["items"]
    noted = [one["event"] for one in items if one["name"] == name and "suspect" in one["event"]]
    return noted[0] if noted else ""


async def test_a_member_that_hangs_is_suspect_with_since_when_and_by_whom_until_it_goes_on(
    tmp_path: Path,
) -> None:
    with running(Members(tmp_path, f"file:{tmp_path / 'shared'}", 3, *PATIENT)) as members:
        b1, b2, b3 = members
        await becomes(lambda: linked(b2), ["b1", "b3"])
        await becomes(lambda: linked(b3), ["b1", "b2"])
        stopped = time.time()
        os.kill(b1.pid, signal.SIGSTOP)
        try:
            for broker in (b2, b3):
                await becomes(partial(suspected_by, "b1", broker), ["b2", "b3"])
            found = await suspicion_of("b1", b2)
            assert found is not None
            assert stopped - 1 <= datetime.fromisoformat(found["since"]).timestamp() <= time.time()
            await becomes(lambda: last_event_of("b1", b2), "suspect")
        finally:
            os.kill(b1.pid, signal.SIGCONT)
        await becomes(lambda: suspicion_of("b1", b2), None)
        await becomes(lambda: last_event_of("b1", b2), "suspect no longer")
