"""Bridges whose configuration changes while they forward: what restarts, and what is not touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.bridge.pair import USERS, Pair, pair, receive, remote_of, until
from tests.support.small_node import policy_of, small_node


def remote_sessions(both: Pair) -> list[int]:
    """The connections of bridges at the remote broker, as numbers that are never used twice."""
    return [session.number for session in both.away.node.registry.sessions]


def read(outcome: str = "unchanged", version: int | None = None) -> dict[str, Any]:
    nothing: dict[str, Any] = {"added": 0, "changed": 0, "removed": 0, "errors": [], "warnings": []}
    return {"trigger": "brokers.config", "outcome": outcome, "version": version, **nothing}


async def test_with_the_setting_all_bridges_reconnect_after_a_reload(tmp_path: Path) -> None:
    policy = policy_of(users=USERS)
    async with (
        small_node(tmp_path / "away", policy, name="away") as away,
        small_node(tmp_path / "home", policy, name="home", smash_reload=True) as home,
    ):
        both = Pair(home, away)
        await both.bridges(remote_of(away, "oslo"), remote_of(away, "rome"))
        async with home.stomp("john") as john:
            for bridge in ("oslo", "rome"):
                await john.send(both.source("orders", bridge), b"1")
            await until(lambda: away.depth("orders") == 2)
            before = remote_sessions(both)
            home.node.files_read(read("refused"), refused=True)
            home.node.files_read(read(), refused=False)
            await until(lambda: len(now := remote_sessions(both)) == 2 and not set(before) & set(now))
            assert {both.report(name)["error"] for name in ("oslo", "rome")} == {None}
            await both.send(john, "orders", b"2")
            await until(lambda: away.depth("orders") == 3)
        told = home.node.features.bridges.supervisor.events_of("rome")
        assert told is not None and [event["event"] for event in told].count("restarted") == 1


async def test_by_default_files_that_were_read_leave_all_bridges_as_they_are(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1")
        await until(lambda: both.away.depth("orders") == 1)
        before = remote_sessions(both)
        both.home.node.files_read(read(), refused=False)
        await both.home.change()
        await both.send(john, "orders", b"2")
        await until(lambda: both.away.depth("orders") == 2)
        assert remote_sessions(both) == before


async def test_results_of_reloads_are_published(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("admin") as admin:
        async with admin.subscribe("/topic/$mom.config.files") as told:
            both.home.node.files_read({**read("refused"), "errors": ["brokers.config:4:1: no"]}, refused=True)
            event = json.loads((await told.get(timeout_s=10)).body)
        assert event["type"] == "mom.config.files"
        assert event["data"]["errors"] == ["brokers.config:4:1: no"]


async def test_a_new_password_is_used_at_once_and_nothing_is_lost_or_sent_twice(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john, both.away.stomp("john") as there:
        users = both.away.policy.users
        await both.send(john, "orders", *(str(number) for number in range(500)))
        spare = {**users, "spare": policy_of(users={"spare": ()}).users["spare"]}
        await both.away.change(users=spare)
        await both.change(user="spare", password="spare")
        await both.away.change(users={name: facts for name, facts in spare.items() if name != "bridge"})
        await both.send(john, "orders", *(str(number) for number in range(500, 1000)))
        assert await receive(there, "orders", 1000) == [str(number).encode() for number in range(1000)]
        await until(lambda: both.flow("orders")["depth"] == 0)
        assert both.flow("orders")["gap"] == 0
        assert both.away.depth("orders") == 0
        assert {session.user for session in both.away.node.registry.sessions} == {"spare", "john"}
