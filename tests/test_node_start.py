"""The start of a node: what it costs, and, where its journal fails, why."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.instruction_counter import InstructionCounter
from broker_app.base.refused import Refused
from broker_app.config import MIB, Config
from broker_app.features.jobs.job_manager import JobManager
from broker_app.journal.errors import JournalFailed
from broker_app.net.auth.login import Logins
from broker_app.node.node import Node
from tests.support.small_node import policy_of

LOST = JournalFailed("another broker has taken over")


def a_node(data: Path) -> Node:
    config = Config(data=data, segment_bytes=MIB)
    return Node(config, Logins(policy_of(users={"anna": ()}), lambda given, expected: given == expected))


async def started(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        try:
            await node.start(listener, None)
        finally:
            await node.stop()


async def test_a_lease_that_is_lost_before_the_parts_are_made_is_the_reason(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    node._fail(LOST)
    assert node.failed.result() is LOST
    with pytest.raises(JournalFailed, match="another broker has taken over"):
        await started(node)


async def test_a_lease_that_is_lost_between_two_parts_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = a_node(tmp_path)
    make: Callable[..., None] = JobManager.__init__

    def lose_the_lease(manager: JobManager, *parts: object) -> None:
        make(manager, *parts)
        node._fail(LOST)

    monkeypatch.setattr(JobManager, "__init__", lose_the_lease)
    with pytest.raises(JournalFailed, match="another broker has taken over"):
        await started(node)
    assert node.failed.result() is LOST


async def test_a_start_that_fails_for_another_reason_says_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(manager: JobManager) -> None:
        raise Refused("busy", "the jobs do not start")

    monkeypatch.setattr(JobManager, "start", refuse)
    with pytest.raises(Refused, match="the jobs do not start"):
        await started(a_node(tmp_path))


async def test_a_start_like_one_before_in_the_process_does_not_work_out_again_what_is_the_same(
    tmp_path: Path,
) -> None:
    counter = InstructionCounter()
    for _ in range(2):  # as a standby that takes over has begun before
        node = a_node(tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            counter.begin()
            await node.start(listener, None)
            counter.end()
            await node.stop()
    assert counter.instructions < 110_000
