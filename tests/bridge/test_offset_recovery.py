"""Between two MOMs every message arrives once: what the receiver has, the sender learns from its mark."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.bridge.pair import USERS, Pair, pair, receive, remote_of, until
from tests.support.proxy import proxy
from tests.support.small_node import policy_of, small_node


async def test_messages_stored_but_not_confirmed_are_settled_without_being_sent_again(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, proxy(both.away.node.stomp_port or 0) as network:
        await both.change(port=network.port)
        async with both.home.stomp("john") as john:
            await both.send(john, "orders", b"0")
            await until(lambda: both.flow("orders")["accepted"] == 1)
            network.back.drops = True
            await both.send(john, "orders", *(str(number) for number in range(1, 51)))
            await until(lambda: both.away.depth("orders") == 51)
            await until(lambda: both.flow("orders")["in_flight"] == 50)
            network.cut()
            network.back.drops = False
            await until(lambda: both.flow("orders")["duplicate"] == 50)
            await both.send(john, "orders", b"51")
            await until(lambda: both.flow("orders")["accepted"] == 2)
        flow = both.flow("orders")
        assert (flow["sent"], flow["unanswered"], flow["gap"], flow["depth"]) == (52, 50, 0, 0)
        assert both.report()["foreign"] is False
        async with both.away.stomp("john") as there:
            assert await receive(there, "orders", 52) == [str(number).encode() for number in range(52)]


async def test_messages_sent_but_not_stored_are_sent_again(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, proxy(both.away.node.stomp_port or 0) as network:
        await both.change(port=network.port)
        async with both.home.stomp("john") as john:
            await both.send(john, "orders", b"0")
            await until(lambda: both.flow("orders")["accepted"] == 1)
            network.out.drops = True
            await both.send(john, "orders", *(str(number) for number in range(1, 51)))
            await until(lambda: both.flow("orders")["in_flight"] == 50)
            network.cut()
            network.out.drops = False
            await until(lambda: both.flow("orders")["accepted"] == 51)
        flow = both.flow("orders")
        assert (flow["sent"], flow["unanswered"], flow["duplicate"], flow["gap"]) == (101, 50, 0, 0)
        async with both.away.stomp("john") as there:
            assert await receive(there, "orders", 51) == [str(number).encode() for number in range(51)]


async def test_a_bridge_that_is_paused_waits_for_the_answers_to_what_it_has_sent(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, proxy(both.away.node.stomp_port or 0) as network:
        await both.change(port=network.port)
        async with both.home.stomp("john") as john:
            await both.send(john, "orders", b"0")
            await until(lambda: both.flow("orders")["accepted"] == 1)
            network.back.hold()
            await both.send(john, "orders", *(str(number) for number in range(1, 11)))
            await until(lambda: both.flow("orders")["in_flight"] == 10)
            for scan_s in (0.2, 0.3):
                await both.change(port=network.port, desired="paused", scan_s=scan_s)
            assert both.flow("orders")["in_flight"] == 10
            network.back.release()
            await until(lambda: both.report()["state"] == "suspended")
        flow = both.flow("orders")
        assert (flow["accepted"], flow["unanswered"], flow["depth"]) == (11, 0, 0)


async def test_a_broker_with_an_old_copy_of_its_journal_does_not_take_new_messages_for_repeats(
    tmp_path: Path,
) -> None:
    policy = policy_of(users=USERS)
    async with small_node(tmp_path / "away", policy, name="away") as away:
        async with small_node(tmp_path / "home", policy, name="home"):
            pass
        shutil.copytree(tmp_path / "home", tmp_path / "copy")
        async with small_node(tmp_path / "home", policy, name="home") as home, home.stomp("john") as john:
            both = Pair(home, away)
            await both.bridges(remote_of(away))
            await both.send(john, "orders", *(str(number) for number in range(10)))
            await until(lambda: away.depth("orders") == 10)
        async with small_node(tmp_path / "copy", policy, name="home") as home, home.stomp("john") as john:
            old = Pair(home, away)
            await old.bridges(remote_of(away))
            await old.send(john, "orders", b"new")
            await until(lambda: old.flow("orders")["error"])
            assert old.flow("orders")["error"]["code"] == "OFFSET_AHEAD"
            assert old.flow("orders")["depth"] == 1
        assert away.depth("orders") == 10
        async with small_node(tmp_path / "copy", policy, name="other") as home:
            await Pair(home, away).bridges(remote_of(away))
            await until(lambda: away.depth("orders") == 11)


async def test_an_old_copy_with_positions_beyond_the_offset_loses_nothing_either(tmp_path: Path) -> None:
    policy = policy_of(users=USERS)
    async with small_node(tmp_path / "away", policy, name="away") as away:
        async with small_node(tmp_path / "home", policy, name="home"):
            pass
        shutil.copytree(tmp_path / "home", tmp_path / "copy")
        async with small_node(tmp_path / "home", policy, name="home") as home, home.stomp("john") as john:
            both = Pair(home, away)
            await both.bridges(remote_of(away))
            await both.send(john, "orders", *(str(number) for number in range(10)))
            await until(lambda: both.flow("orders")["accepted"] == 10)
        for _ in range(2):  # a restart knows of it too
            async with small_node(tmp_path / "copy", policy, name="home") as home, home.stomp("john") as john:
                copy = Pair(home, away)
                await copy.send(john, "orders", *(str(number) for number in range(30)))
                await copy.bridges(remote_of(away))
                await _is_refused(copy)
                assert copy.flow("orders")["error"]["code"] == "OFFSET_AHEAD"
        async with small_node(tmp_path / "copy", policy, name="other") as home:
            both = Pair(home, away)
            await both.bridges(remote_of(away))
            await until(lambda: away.depth("orders") == 70)


async def test_a_broker_that_ends_settles_what_is_answered_and_sends_nothing_twice(tmp_path: Path) -> None:
    policy = policy_of(users=USERS)
    async with small_node(tmp_path / "away", policy, name="away") as away, away.stomp("john") as there:
        for start in (0, 1000):
            async with small_node(tmp_path / "home", policy, name="home") as home, home.stomp("john") as john:
                both = Pair(home, away)
                await both.bridges(remote_of(away))
                numbers = (str(number) for number in range(start, start + 1000))
                await both.send(john, "orders", *numbers)
        async with small_node(tmp_path / "home", policy, name="home") as home:
            await Pair(home, away).bridges(remote_of(away))
            assert await receive(there, "orders", 2000) == [str(number).encode() for number in range(2000)]
            await until(lambda: home.depth("storeAndForward:oslo/queue/orders") == 0)
        assert away.depth("orders") == 0


async def _is_refused(both: Pair) -> None:
    await until(lambda: both.flow("orders")["error"])
