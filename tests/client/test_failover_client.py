"""Clients with a failover URI, in virtual time, and brokers that do what the test says."""

import asyncio
import itertools
import logging
from pathlib import Path
from typing import Any

import pytest

import mom_client
from mom_client.stomp import frame as wire
from mom_client.subscription import AckMode
from tests.client.stage import FakeBroker, FakeSession
from tests.support.patience import patient

ONE, TWO, THREE = "stomp://one:1", "stomp://two:2", "stomp://three:3"


def uri(*addresses: str, **options: object) -> str:
    """A failover URI whose order is certain."""
    given = {"randomize": "false", **options}
    return f"failover:({','.join(addresses)})?{'&'.join(f'{name}={value}' for name, value in given.items())}"


def times_of_sweeps(stage: FakeBroker, addresses: int) -> list[float]:
    return [when for when, _ in stage.attempts[::addresses]]


def waits(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(times)]


async def lose(stage: FakeBroker, session: FakeSession, *down: str) -> float:
    """Let the connection break, and nobody answer at `down`. Returns the time when the client has noticed."""
    stage.down = set(down)
    stage.attempts.clear()
    session.end()
    await session.closed.wait()
    return asyncio.get_running_loop().time()


# -- delays and attempts -----------------------------------------------------------------------


async def test_waits_between_sweeps(stage: FakeBroker) -> None:
    """AF-T06"""
    url = uri(ONE, TWO, initialReconnectDelay=100, maxReconnectDelay=1000, maxReconnectAttempts=6)
    client, session = await stage.client(url)
    lost = await lose(stage, session, ONE, TWO)
    with pytest.raises(mom_client.ConnectionLost):
        await client.send("/queue/a")
    times = times_of_sweeps(stage, 2)
    assert waits([lost, *times]) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1])
    await client.close()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.01, 0.02, 0.04, 0.08]),
        ({"useExponentialBackOff": "false", "initialReconnectDelay": 50}, [0.05] * 4),
        ({"reconnectDelayExponent": 3}, [0.01, 0.03, 0.09, 0.27]),
        ({"initialReconnectDelay": 0}, [0, 0.01, 0.02, 0.04]),
        ({"initialReconnectDelay": 500, "maxReconnectDelay": 200}, [0.2] * 4),
    ],
)
async def test_delays(stage: FakeBroker, options: dict[str, Any], expected: list[float]) -> None:
    client, session = await stage.client(uri(ONE, maxReconnectAttempts=4, **options))
    lost = await lose(stage, session, ONE)
    with pytest.raises(mom_client.ConnectionLost):
        await client.send("/queue/a")
    assert waits([lost, *times_of_sweeps(stage, 1)]) == pytest.approx(expected)
    await client.close()


async def test_the_first_connection_does_not_wait(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE, initialReconnectDelay=5000))
    assert stage.attempts == [(0.0, ONE)]
    await stage.leave(client, session)


async def test_the_client_gives_up_after_so_many_sweeps(stage: FakeBroker) -> None:
    """AF-T07"""
    stage.down = {ONE, TWO}
    client = stage.connect(uri(ONE, TWO, maxReconnectAttempts=3))
    with pytest.raises(mom_client.ConnectionLost, match=r"3 sweeps of the list, 6 attempts \(") as error:
        await client.open()
    assert len(stage.attempts) == 6
    assert f"{ONE}: nobody" in str(error.value) and f"{TWO}: nobody" in str(error.value)
    before = asyncio.get_running_loop().time()
    for act in (client.send("/queue/a"), client.send("/queue/a", confirm=False), client.open()):
        with pytest.raises(mom_client.ConnectionLost, match="6 attempts"):
            await act
    assert asyncio.get_running_loop().time() == before
    assert len(stage.attempts) == 6
    await client.close()


async def test_a_client_that_has_lost_its_broker_gives_up_after_so_many_sweeps(stage: FakeBroker) -> None:
    """AF-T07, after a connection"""
    client, session = await stage.client(uri(ONE, TWO, maxReconnectAttempts=3))
    await lose(stage, session, ONE, TWO)
    with pytest.raises(mom_client.ConnectionLost, match=r"3 sweeps of the list, 6 attempts \(") as error:
        await client.send("/queue/a")
    assert [address for _, address in stage.attempts] == [TWO, ONE] * 3
    assert f"{ONE}: nobody" in str(error.value) and f"{TWO}: nobody" in str(error.value)
    before = asyncio.get_running_loop().time()
    for confirm in (True, False):
        with pytest.raises(mom_client.ConnectionLost, match="6 attempts"):
            await client.send("/queue/a", confirm=confirm)
    assert (asyncio.get_running_loop().time(), len(stage.attempts)) == (before, 6)
    await client.close()


async def test_the_start_has_a_limit_of_its_own(stage: FakeBroker) -> None:
    stage.down = {ONE}
    with pytest.raises(mom_client.ConnectionLost, match="2 sweeps"):
        await stage.connect(uri(ONE, startupMaxReconnectAttempts=2)).open()
    assert len(stage.attempts) == 2


async def test_no_attempt_to_reconnect(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE, TWO, maxReconnectAttempts=0))
    sending = asyncio.ensure_future(client.send("/queue/a"))
    await session.expect(wire.SEND)
    await lose(stage, session)
    with pytest.raises(mom_client.ConnectionLost, match=rf"no attempt to reconnect.*\({TWO}, {ONE}\)"):
        await sending
    assert not stage.attempts
    await client.close()


async def test_the_list_is_shuffled_and_what_failed_comes_last(stage: FakeBroker) -> None:
    addresses = [f"stomp://{n}:1" for n in range(20)]
    client, session = await stage.client(f"failover:({','.join(addresses)})?maxReconnectAttempts=2")
    failed = client.address
    await lose(stage, session, *addresses)
    with pytest.raises(mom_client.ConnectionLost):
        await client.send("/queue/a")
    sweeps = [address for _, address in stage.attempts]
    first, second = sweeps[:20], sweeps[20:]
    assert sorted(first) == sorted(second) == sorted(addresses)
    assert first != second and first != addresses
    assert first[-1] == second[-1] == failed
    await client.close()


async def test_warnings(stage: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mom_client")
    stage.down = {ONE}
    with pytest.raises(mom_client.ConnectionLost):
        await stage.connect(uri(ONE, maxReconnectAttempts=8, warnAfterReconnectAttempts=3)).open()
    counts = [record.args[0] for record in caplog.records if record.args]  # type: ignore[index]
    assert counts == [f"{n} sweep{'s' * (n > 1)} of the list, {n} attempt{'s' * (n > 1)}" for n in (1, 3, 6)]
    caplog.clear()
    with pytest.raises(mom_client.ConnectionLost):
        await stage.connect(uri(ONE, maxReconnectAttempts=8, warnAfterReconnectAttempts=0)).open()
    assert not caplog.records


# -- sends without a connection ----------------------------------------------------------------


@pytest.mark.parametrize("confirm", [True, False])
async def test_the_timeout_of_a_send(stage: FakeBroker, confirm: bool) -> None:
    """AF-T08"""
    client, session = await stage.client(uri(ONE, timeout=3000))
    began = await lose(stage, session, ONE)
    with pytest.raises(mom_client.ConnectionLost, match="no connection for 3 s"):
        await client.send("/queue/a", b"too late", confirm=confirm)
    assert 3.0 <= asyncio.get_running_loop().time() - began <= 3.5
    stage.down = set()
    again = await stage.come_back(client)
    sending = asyncio.ensure_future(client.send("/queue/a", b"in time"))
    send = await again.expect(wire.SEND)
    assert send.body == b"in time"
    again.confirm(send)
    await sending
    await stage.leave(client, again)


async def test_a_start_without_a_broker(stage: FakeBroker) -> None:
    """AF-T08, from the first moment"""
    stage.down = {ONE}
    async with stage.connect(uri(ONE, timeout=3000, maxReconnectDelay=500), wait_connected=False) as client:
        for confirm in (True, False):
            began = asyncio.get_running_loop().time()
            with pytest.raises(mom_client.ConnectionLost, match="no connection for 3 s"):
                await client.send("/queue/a", b"too late", confirm=confirm)
            assert 3.0 <= asyncio.get_running_loop().time() - began <= 3.5
        waiting = asyncio.ensure_future(client.send("/queue/a", b"in time"))
        entering = asyncio.ensure_future(client.subscribe("/queue/a").__aenter__())
        await asyncio.sleep(1)
        stage.down = set()
        session = await stage.come_back(client)
        frames = [await session.expect(wire.SEND), await session.expect(wire.SUBSCRIBE)]
        assert frames[0].body == b"in time"
        session.confirm(*frames)
        await asyncio.gather(waiting, entering)
        await stage.leave(client, session)


async def test_a_start_in_the_background_that_fails(stage: FakeBroker) -> None:
    stage.down = {ONE, TWO}
    events: list[mom_client.ConnectionEvent] = []
    url = uri(ONE, TWO, maxReconnectAttempts=3)
    async with stage.connect(url, wait_connected=False, listener=events.append) as client:
        with pytest.raises(mom_client.ConnectionLost, match="3 sweeps of the list, 6 attempts"):
            await client.send("/queue/a")
    assert not events


async def test_an_opening_that_is_given_up_leaves_nothing_behind(stage: FakeBroker) -> None:
    stage.down = {ONE}
    client = stage.connect(uri(ONE))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(patient(60)):
            await client.open()
    before = len(stage.attempts)
    await asyncio.sleep(3600)
    assert len(stage.attempts) == before
    with pytest.raises(mom_client.ConnectionLost, match="the client was closed"):
        await client.send("/queue/a")


async def test_the_timeout_begins_with_the_loss(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE, timeout=3000, initialReconnectDelay=2000))
    sending = asyncio.ensure_future(client.send("/queue/a", b"slow"))
    await session.expect(wire.SEND)
    await asyncio.sleep(5)
    session.end()
    again = await stage.come_back(client)
    again.confirm(await again.expect(wire.SEND))
    await sending
    await stage.leave(client, again)


async def test_the_timeout_of_sends_for_which_there_is_no_room(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE, timeout=3000), max_unconfirmed=2)
    began = await lose(stage, session, ONE)
    sending = [asyncio.ensure_future(client.send("/queue/a")) for _ in range(6)]
    errors = await asyncio.gather(*sending, return_exceptions=True)
    assert all(isinstance(error, mom_client.ConnectionLost) for error in errors)
    assert asyncio.get_running_loop().time() - began == pytest.approx(3)
    await client.close()


async def test_sends_wait_for_ever_by_default(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE))
    await lose(stage, session, ONE)
    sending = asyncio.ensure_future(client.send("/queue/a", b"patient"))
    await asyncio.sleep(3600)
    assert not sending.done()
    stage.down = set()
    again = await stage.come_back(client)
    again.confirm(await again.expect(wire.SEND))
    await sending
    await stage.leave(client, again)


# -- state after a reconnect -------------------------------------------------------------------


async def test_a_repeated_send_has_the_same_dedup_id(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE, TWO))
    sending = asyncio.gather(
        client.send("/queue/a", b"1"),
        client.send("/queue/a", b"2"),
        client.send("/queue/a", b"3", dedup_id="mine"),
    )
    first = [await session.expect(wire.SEND) for _ in range(3)]
    await lose(stage, session)
    again = await stage.come_back(client)
    second = [await again.expect(wire.SEND) for _ in range(3)]
    assert [send.headers for send in second] == [{**send.headers, "resent": "true"} for send in first]
    ids = [send.headers["dedup-id"] for send in first]
    assert len(set(ids)) == 3 and ids[2] == "mine" and all(len(id) < 40 for id in ids)
    again.confirm(*second)
    await sending
    await stage.leave(client, again)


async def test_what_no_broker_can_have_is_not_sent_again_as_such(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE, TWO))
    await lose(stage, session)
    sending = asyncio.ensure_future(client.send("/queue/a", b"1"))
    again = await stage.come_back(client)
    send = await again.expect(wire.SEND)
    assert "resent" not in send.headers
    again.confirm(send)
    await sending
    await stage.leave(client, again)


async def test_two_clients_have_different_dedup_ids(stage: FakeBroker) -> None:
    ids = set()
    for _ in range(2):
        client, session = await stage.client(uri(ONE))
        sending = asyncio.ensure_future(client.send("/queue/a"))
        send = await session.expect(wire.SEND)
        ids.add(send.headers["dedup-id"])
        session.confirm(send)
        await sending
        await stage.leave(client, session)
    assert len(ids) == 2


async def test_tracked_messages_are_sent_again(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE, trackMessages="true"))
    for body in (b"1", b"2", b"3"):
        await client.send("/queue/a", body, confirm=False)
    first = [await session.expect(wire.SEND) for _ in range(3)]
    session.confirm(first[0])
    await asyncio.sleep(1)
    await lose(stage, session)
    again = await stage.come_back(client)
    second = [await again.expect(wire.SEND) for _ in range(2)]
    assert [send.headers for send in second] == [{**send.headers, "resent": "true"} for send in first[1:]]
    again.confirm(*second)
    await stage.leave(client, again)


async def test_untracked_messages_are_not(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE))
    await client.send("/queue/a", b"1", confirm=False)
    assert (await session.expect(wire.SEND)).receipt is None
    await lose(stage, session)
    await stage.leave(client, await stage.come_back(client))


async def test_the_cache_of_tracked_messages_keeps_the_newest(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE, trackMessages="true", maxCacheSize=2500))
    for number in range(4):
        await client.send("/queue/a", b"%d" % number * 1000, confirm=False)
    for _ in range(4):
        await session.expect(wire.SEND)
    await lose(stage, session)
    again = await stage.come_back(client)
    bodies = [(await again.expect(wire.SEND)).body[:1] for _ in range(2)]
    assert bodies == [b"2", b"3"]
    assert again.quiet
    await client.close()


async def test_a_transaction_in_doubt_is_reported(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE))

    async def work() -> None:
        async with client.transaction() as tx:
            await tx.send("/queue/b", b"1")

    working = asyncio.ensure_future(work())
    session.confirm(await session.expect(wire.BEGIN))
    await session.expect(wire.SEND)
    await session.expect(wire.COMMIT)
    await lose(stage, session)
    with pytest.raises(
        mom_client.TransactionInDoubt, match="whether the transaction was committed is unknown"
    ):
        await working
    again = await stage.come_back(client)
    await asyncio.sleep(1)
    await stage.leave(client, again)  # nothing of it was sent again


async def test_a_transaction_that_was_not_committed_is_aborted(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(ONE))
    proceed = asyncio.Event()

    async def work() -> None:
        async with client.transaction() as tx:
            await tx.send("/queue/b", b"1")
            await proceed.wait()

    working = asyncio.ensure_future(work())
    session.confirm(await session.expect(wire.BEGIN))
    await session.expect(wire.SEND)
    await lose(stage, session)
    again = await stage.come_back(client)
    proceed.set()
    with pytest.raises(mom_client.ConnectionLost, match="the broker has aborted the transaction") as lost:
        await working
    assert not isinstance(lost.value, mom_client.TransactionInDoubt)
    await stage.leave(client, again)


# -- where to go -------------------------------------------------------------------------------


async def test_a_list_at_login(stage: FakeBroker) -> None:
    """AF-T01: the client knows both brokers then, and is at the other one as soon as its delay allows."""
    opening = asyncio.ensure_future(stage.connect(uri(ONE)).open())
    session = await stage.accept()
    await session.welcome(mom_failover=f"{THREE},{ONE}")
    client = await opening
    await session.expect(wire.SUBSCRIBE, destination="/topic/$mom.failover")
    sending = asyncio.ensure_future(client.send("/queue/a", b"not lost"))
    await session.expect(wire.SEND)
    lost = await lose(stage, session, ONE)
    again = await stage.accept()
    assert (stage.attempts, again.address) == ([(lost + 0.01, THREE)], THREE)
    await again.welcome()
    send = await again.expect(wire.SEND)
    assert send.body == b"not lost"
    again.confirm(send)
    await sending
    assert client.address == THREE
    await stage.leave(client, again)


async def welcomed(stage: FakeBroker, url: str, **options: Any) -> tuple[mom_client.Client, FakeSession]:
    """A client of a broker that sends lists."""
    opening = asyncio.ensure_future(stage.connect(url, **options).open())
    session = await stage.accept()
    await session.welcome(server="MOM/1")
    client = await opening
    await session.expect(wire.SUBSCRIBE, destination="/topic/$mom.failover", id="$mom.failover", ack="auto")
    return client, session


async def test_a_pushed_list(stage: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    client, session = await welcomed(stage, uri(ONE))
    session.deliver(
        "$mom.failover", 1, b'["stomp://three:3", "http://x", "stomp://0.0.0.0:1", 7, "stomp://two:2"]'
    )
    await asyncio.sleep(1)
    assert "http://x" in caplog.text and "0.0.0.0 is where a broker listens" in caplog.text
    for rubbish in (b"{", b"7", b"[]", b'{"uris": "x"}', b'{"uris": 7}'):
        session.deliver("$mom.failover", 2, rubbish)
    await asyncio.sleep(1)
    await lose(stage, session, THREE, TWO)
    again = await stage.come_back(client)
    assert [address for _, address in stage.attempts] == [THREE, TWO, ONE]
    await stage.leave(client, again)


@pytest.mark.parametrize("order", [b'["stomp://two:2"]', b'{"uris": ["stomp://two:2"]}'])
async def test_a_list_without_the_broker_that_the_client_is_at_leaves_it_there(
    stage: FakeBroker, order: bytes
) -> None:
    """AF-A11"""
    client, session = await welcomed(stage, uri(ONE))
    session.deliver("$mom.failover", 1, order)
    await asyncio.sleep(3600)
    assert (client.connected, client.address, len(stage.attempts)) == (True, ONE, 1)
    await stage.leave(client, session)


@pytest.mark.parametrize(
    "url",
    [uri(ONE, updateURIsSupported="false"), f"static:({ONE})?randomize=false"],
    ids=["option", "static"],
)
async def test_lists_that_are_ignored(stage: FakeBroker, url: str) -> None:
    """AF-T09"""
    opening = asyncio.ensure_future(stage.connect(url).open())
    session = await stage.accept()
    await session.welcome(mom_failover=f"{TWO},{THREE}", server="MOM/1")
    client = await opening
    session.deliver("$mom.failover", 1, b'["stomp://three:3"]')
    await asyncio.sleep(1)
    assert session.quiet
    session.say(wire.ERROR, {"active": TWO}, b'{"type": "/docs/problems/MAIN_ACTIVE"}')
    again = await stage.come_back(client)
    assert {address for _, address in stage.attempts} == {ONE}
    await stage.leave(client, again)


async def test_a_mirror_names_the_broker_that_serves(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect(uri(ONE, TWO)).open())
    mirror = await stage.accept()
    await mirror.expect(wire.CONNECT)
    mirror.say(wire.ERROR, {"active": THREE}, b'{"type": "/docs/problems/MAIN_ACTIVE", "detail": "a mirror"}')
    session = await stage.accept()
    await session.welcome()
    client = await opening
    assert [address for _, address in stage.attempts] == [ONE, THREE]
    assert asyncio.get_running_loop().time() == 0
    await stage.leave(client, session)


@pytest.mark.parametrize("where", ["header", "body"])
async def test_an_old_main_names_the_broker_that_serves(stage: FakeBroker, where: str) -> None:
    client, session = await stage.client(uri(ONE, TWO))
    stage.attempts.clear()
    body = b'{"type": "/docs/problems/MAIN_ACTIVE", "detail": "taken over", "active": "stomp://three:3"}'
    if where == "header":
        session.say(wire.ERROR, {"active": THREE, "code": "MAIN_ACTIVE"}, b"taken over")
    else:
        session.say(wire.ERROR, {}, body)
    again = await stage.come_back(client)
    assert [address for _, address in stage.attempts] == [THREE]
    await lose(stage, again)
    last = await stage.come_back(client)
    assert last.address == ONE  # THREE stays in the list, last since it failed
    await stage.leave(client, last)


async def test_the_address_of_the_same_protocol_is_taken(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect(uri("ws://one/ws")).open())
    mirror = await stage.accept()
    await mirror.expect(wire.CONNECT)
    mirror.say(wire.ERROR, {"active": f"{TWO}, ws://two/ws"}, b"")
    session = await stage.accept()
    assert session.address == "ws://two/ws"
    await session.welcome()
    await stage.leave(await opening, session)


async def test_brokers_that_name_each_other_do_not_trap_the_client(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect(uri(ONE, TWO, THREE, maxReconnectAttempts=1)).open())
    for address, other in ((ONE, TWO), (TWO, ONE), (THREE, TWO)):
        session = await stage.accept()
        assert session.address == address
        await session.expect(wire.CONNECT)
        session.say(wire.ERROR, {"active": other}, b'{"type": "/docs/problems/MAIN_ACTIVE", "detail": "no"}')
    with pytest.raises(mom_client.ConnectionLost, match="3 attempts"):
        await opening


async def test_an_encrypted_client_stays_encrypted(
    stage: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    opening = asyncio.ensure_future(stage.connect(uri("wss://one/ws")).open())
    session = await stage.accept()
    await session.welcome(mom_failover=f"{TWO},stomp+tls://three:3")
    client = await opening
    await session.expect(wire.SUBSCRIBE)
    assert "stomp://two:2: not encrypted" in caplog.text
    await lose(stage, session)
    again = await stage.come_back(client)
    assert again.address == "stomp+tls://three:3"
    await stage.leave(client, again)


def test_nested_options_that_no_address_has_a_use_for_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    mom_client.connect(uri(ONE, **{"nested.wireFormat.maxInactivityDuration": 0}))
    assert "nested.wireFormat.maxInactivityDuration: no address" in caplog.text


async def test_nested_options_go_to_each_address(stage: FakeBroker) -> None:
    client, session = await stage.client(uri(f"{ONE}?a=1", **{"nested.a": 2}))
    assert session.address == f"{ONE}?a=2"
    assert client.address == f"{ONE}?a=1"
    await stage.leave(client, session)


# -- going to another broker while the connection works ----------------------------------------


async def test_an_order_to_reconnect(stage: FakeBroker) -> None:
    client, session = await welcomed(stage, uri(ONE, TWO))
    session.deliver("$mom.failover", 1, b'{"reconnect": "stomp://three:3"}')
    other = await stage.accept()
    assert other.address == THREE
    await other.welcome()
    session.confirm(await session.expect(wire.DISCONNECT))
    await asyncio.sleep(1)
    assert client.connected and client.address == THREE
    await lose(stage, other, ONE, TWO)
    again = await stage.come_back(client)
    assert [address for _, address in stage.attempts] == [THREE]  # the configured addresses are forgotten
    await stage.leave(client, again)


async def test_an_order_to_reconnect_that_is_not_obeyed(stage: FakeBroker) -> None:
    client, session = await welcomed(stage, uri(ONE, reconnectSupported="false"))
    session.deliver("$mom.failover", 1, b'{"reconnect": "stomp://three:3"}')
    await asyncio.sleep(10)
    assert len(stage.attempts) == 1
    await stage.leave(client, session)


async def test_rebalancing(stage: FakeBroker) -> None:
    """Only a list that has changed as a set, and only to its first address."""
    client, session = await welcomed(stage, uri(ONE))
    for body in (
        b'["stomp://two:2", "stomp://one:1"]',
        b'{"uris": ["stomp://one:1", "stomp://two:2"], "rebalance": true}',  # the same set
        b'{"uris": ["stomp://one:1", "stomp://three:3"], "rebalance": true}',  # we are there
    ):
        session.deliver("$mom.failover", 1, body)
        await asyncio.sleep(1)
        assert len(stage.attempts) == 1
    session.deliver("$mom.failover", 1, b'{"uris": ["stomp://two:2", "stomp://one:1"], "rebalance": true}')
    other = await stage.accept()
    assert other.address == TWO
    await other.welcome()
    session.confirm(await session.expect(wire.DISCONNECT))
    await asyncio.sleep(1)
    assert client.address == TWO
    await stage.leave(client, other)


TO_TWO = b'{"uris": ["stomp://two:2", "stomp://one:1"], "rebalance": true, "to": "stomp://two:2"}'


async def consumer(
    client: mom_client.Client, session: FakeSession, *, ack: AckMode = "client-individual"
) -> mom_client.Subscription:
    """A subscription of a client, with the id 1."""
    messages = client.subscribe("/queue/a", ack=ack)
    entering = asyncio.ensure_future(messages.__aenter__())
    session.confirm(await session.expect(wire.SUBSCRIBE, id="1"))
    return await entering


@pytest.mark.parametrize("ack", ["client-individual", "client"])
async def test_what_comes_while_the_new_connection_opens_is_settled_before_the_client_goes(
    stage: FakeBroker, ack: AckMode
) -> None:
    client, session = await welcomed(stage, uri(ONE))
    messages = await consumer(client, session, ack=ack)
    session.deliver("$mom.failover", 1, TO_TWO)
    other = await stage.accept()
    session.deliver("1", 1)
    session.deliver("1", 2)
    first, second = await messages.get(), await messages.get()
    await other.welcome(server="MOM/1")
    unsubscribe = await session.expect(wire.UNSUBSCRIBE, id="1", keep_unsettled="true")
    session.deliver("1", 3)  # was on its way
    session.confirm(unsubscribe)
    third = await messages.get()
    await asyncio.sleep(1)
    for message in (second, first) if ack == "client-individual" else (second,):
        await message.ack()
        await session.expect(wire.ACK, id=message.headers["ack"])
    await asyncio.sleep(1)
    assert session.quiet, "the third one is not settled"
    await third.nack()
    await session.expect(wire.NACK, id="3")
    session.confirm(await session.expect(wire.DISCONNECT))
    await other.expect(wire.SUBSCRIBE, id="1")
    assert client.address == TWO
    await other.expect(wire.SUBSCRIBE, id="$mom.failover")
    await stage.leave(client, other)


async def test_a_client_stays_that_does_not_settle_in_time_and_receives_again(stage: FakeBroker) -> None:
    client, session = await welcomed(stage, uri(ONE))
    messages = await consumer(client, session)
    session.deliver("$mom.failover", 1, TO_TWO)
    other = await stage.accept()
    session.deliver("1", 1)
    message = await messages.get()
    await other.welcome(server="MOM/1")
    session.confirm(await session.expect(wire.UNSUBSCRIBE, id="1", keep_unsettled="true"))
    held = asyncio.get_running_loop().time()
    session.confirm(await session.expect(wire.SUBSCRIBE, id="1"))
    assert asyncio.get_running_loop().time() - held == pytest.approx(5, abs=0.1)
    await other.closed.wait()
    assert client.address == ONE
    await message.ack()
    await session.expect(wire.ACK, id="1")
    session.deliver("1", 2)
    assert (await messages.get()).headers["ack"] == "2"
    await stage.leave(client, session)


async def test_an_order_to_reconnect_is_obeyed_though_a_delivery_is_not_settled(stage: FakeBroker) -> None:
    client, session = await welcomed(stage, uri(ONE))
    messages = await consumer(client, session)
    session.deliver("1", 1)
    await messages.get()
    session.deliver("$mom.failover", 1, b'{"reconnect": "stomp://three:3"}')
    other = await stage.accept()
    await other.welcome()
    session.confirm(await session.expect(wire.UNSUBSCRIBE, id="1", keep_unsettled="true"))
    session.confirm(await session.expect(wire.DISCONNECT))
    await other.expect(wire.SUBSCRIBE, id="1")
    assert client.address == THREE
    await stage.leave(client, other)


async def test_the_return_to_the_preferred_broker(stage: FakeBroker) -> None:
    """AF-T12, with sends and a transaction on the way: none fails, none is sent twice."""
    events: list[mom_client.ConnectionEvent] = []
    stage.down = {ONE}
    client, second = await stage.client(uri(ONE, TWO, priorityBackup="true"), listener=events.append)
    assert client.address == TWO
    await asyncio.sleep(60)
    working = asyncio.Event()

    async def transact() -> None:
        async with client.transaction():
            await working.wait()

    transacting = asyncio.ensure_future(transact())
    second.confirm(await second.expect(wire.BEGIN))
    stage.down = set()
    returned = asyncio.get_running_loop().time()
    first = await stage.accept()
    await first.welcome()
    assert asyncio.get_running_loop().time() - returned < 5
    await asyncio.sleep(5)
    assert client.connected and client.address == TWO  # the transaction is open
    before = asyncio.ensure_future(client.send("/queue/a", b"before"))
    send = await second.expect(wire.SEND)
    working.set()
    second.confirm(await second.expect(wire.COMMIT))
    await transacting
    disconnect = await second.expect(wire.DISCONNECT)
    during = asyncio.ensure_future(client.send("/queue/a", b"during"))
    await asyncio.sleep(1)
    second.confirm(send, disconnect)
    await before
    sent = await first.expect(wire.SEND)
    assert sent.body == b"during"
    first.confirm(sent)
    await during
    assert client.address == ONE
    assert [(event.kind, event.address) for event in events] == [
        ("closing", TWO),
        ("closed", TWO),
        ("reconnected", ONE),
    ]
    assert {event.reason for event in events} == {f"returning to {ONE}, which is preferred"}
    stage.attempts.clear()
    await asyncio.sleep(60)
    assert not stage.attempts and second.quiet  # once
    await stage.leave(client, first)


@pytest.mark.parametrize("hangs", [False, True], ids=["refuses", "hangs"])
async def test_the_preferred_broker_has_its_client_back_within_five_seconds_whenever_it_returns(
    stage: FakeBroker, hangs: bool
) -> None:
    """AF-T12: it returns at any moment between two attempts, or while one that gets no answer lasts."""
    loop = asyncio.get_running_loop()
    for tenths in range(0, 40 if hangs else 80, 2):
        stage.down = {ONE}
        client, second = await stage.client(uri(ONE, TWO, priorityBackup="true"))
        if hangs:
            stage.down = set()
            await stage.accept()  # and nobody answers
        await asyncio.sleep(tenths / 10 + (0 if hangs else 60))
        stage.down = set()
        stage.attempts.clear()
        returned = loop.time()
        first = await stage.accept()
        sending = asyncio.ensure_future(client.send("/queue/a", b"%d" % tenths))
        second.confirm(await second.expect(wire.SEND))
        await sending
        await first.welcome()
        second.confirm(await second.expect(wire.DISCONNECT))
        await second.closed.wait()
        assert (client.address, loop.time() - returned < 5) == (ONE, True)
        await asyncio.sleep(60)
        # The one that is answered may have begun before.
        assert [address for _, address in stage.attempts] in (([ONE],) if not hangs else ([ONE], [])), "once"
        await stage.leave(client, first)


async def test_preferred_addresses_can_be_named(stage: FakeBroker) -> None:
    url = uri(ONE, TWO, THREE, priorityBackup="true", priorityURIs=f"{TWO},{THREE}")
    stage.down = {TWO}
    client, session = await stage.client(url)
    assert session.address == THREE
    await asyncio.sleep(60)
    assert [address for _, address in stage.attempts] == [TWO, THREE]  # it is on a preferred one
    await stage.leave(client, session)


# -- spare connections -------------------------------------------------------------------------


async def test_a_spare_connection_is_used_at_once(stage: FakeBroker) -> None:
    client, first = await stage.client(uri(ONE, TWO, THREE, backup="true", initialReconnectDelay=5000))
    spare = await stage.accept()
    await spare.welcome()
    await asyncio.sleep(1)
    assert client.spares == [TWO]
    sending = asyncio.ensure_future(client.send("/queue/a", b"x"))
    await first.expect(wire.SEND)
    lost = await lose(stage, first, ONE)
    send = await spare.expect(wire.SEND)
    assert asyncio.get_running_loop().time() == lost
    spare.confirm(send)
    await sending
    assert client.address == TWO
    another = await stage.accept()
    assert another.address == THREE
    await another.welcome()
    await asyncio.sleep(1)
    assert client.spares == [THREE]
    await stage.leave(client, spare)
    assert another.closed.is_set()


async def test_a_pool_of_spare_connections_fills_itself(stage: FakeBroker) -> None:
    stage.down = {TWO}
    client, first = await stage.client(uri(ONE, TWO, THREE, backup="true", backupPoolSize=2))
    third = await stage.accept()
    await third.welcome()
    await asyncio.sleep(100)
    assert client.spares == [THREE]
    stage.down = set()
    second = await stage.accept()
    await second.welcome()
    await asyncio.sleep(1)
    assert sorted(client.spares) == [THREE, TWO]
    third.end()
    again = await stage.accept()
    assert again.address == THREE
    await again.welcome()
    await asyncio.sleep(1)
    assert sorted(client.spares) == [THREE, TWO]
    await stage.leave(client, first)
    assert again.closed.is_set() and second.closed.is_set()


async def test_spare_connections_follow_the_list(stage: FakeBroker) -> None:
    client, session = await welcomed(stage, uri(ONE, backup="true"))
    await asyncio.sleep(100)
    assert not client.spares
    session.deliver("$mom.failover", 1, b'["stomp://two:2"]')
    spare = await stage.accept()
    await spare.welcome()
    await asyncio.sleep(1)
    assert client.spares == [TWO]
    session.deliver("$mom.failover", 2, b'["stomp://three:3"]')
    other = await stage.accept()
    assert other.address == THREE
    await other.welcome()
    await asyncio.sleep(1)
    assert client.spares == [THREE] and spare.closed.is_set()
    await stage.leave(client, session)


async def test_a_host_name_that_is_none_is_an_address_that_fails() -> None:
    client = mom_client.connect("failover:(stomp://a..b:1)?maxReconnectAttempts=1")
    with pytest.raises(mom_client.ConnectionLost, match=r"a\.\.b:1: "):
        await client.open()


async def test_a_spare_connection_lives_by_its_heart_beats(stage: FakeBroker) -> None:
    client, first = await stage.client(uri(ONE, TWO, backup="true"))
    spare = await stage.accept()
    await spare.welcome(heart_beat="0,1000")
    await asyncio.sleep(60)
    assert spare.beats > 10
    await stage.leave(client, first)


# -- events ------------------------------------------------------------------------------------


async def test_events(stage: FakeBroker) -> None:
    events: list[mom_client.ConnectionEvent] = []
    client, session = await stage.client(uri(ONE, TWO), listener=events.append)
    stage.down = {TWO}
    session.end(ConnectionResetError("the cable"))
    again = await stage.come_back(client)
    await stage.leave(client, again)
    assert [(event.kind, event.address) for event in events] == [
        ("closed", ONE),
        ("reconnect failed", TWO),
        ("reconnected", ONE),
        ("closing", ONE),
        ("closed", ONE),
    ]
    assert [event.reason for event in events[:3]] == ["the cable", "nobody at stomp://two:2", "the cable"]


async def test_the_last_event_is_final(stage: FakeBroker) -> None:
    events: list[mom_client.ConnectionEvent] = []
    client, session = await stage.client(uri(ONE, TWO, maxReconnectAttempts=1), listener=events.append)
    await lose(stage, session, ONE, TWO)
    with pytest.raises(mom_client.ConnectionLost):
        await client.send("/queue/a")
    assert [(event.kind, event.final) for event in events] == [
        ("closed", False),
        ("reconnect failed", False),
        ("reconnect failed", False),
        ("reconnect failed", True),
    ]
    assert ONE in events[-1].address and TWO in events[-1].address
    await client.close()


async def test_a_listener_that_fails_harms_nothing(
    stage: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(event: mom_client.ConnectionEvent) -> None:
        raise ZeroDivisionError

    client, session = await stage.client(uri(ONE), listener=listen)
    await lose(stage, session)
    again = await stage.come_back(client)
    await stage.leave(client, again)
    assert "the listener for connection events failed on closed" in caplog.text


# -- where else to look ------------------------------------------------------------------------
# Reading is in a thread, which virtual time does not wait for: see test_failover_sockets.py.


async def test_a_text_that_is_not_needed_is_not_read(stage: FakeBroker, tmp_path: Path) -> None:
    client, session = await stage.client(uri(ONE, TWO, updateURIsURL=tmp_path / "missing"))
    await lose(stage, session, ONE)
    again = await stage.come_back(client)
    assert again.address == TWO
    await stage.leave(client, again)
