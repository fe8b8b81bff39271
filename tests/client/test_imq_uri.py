"""Address lists of GlassFish MQ: how they are read, and how their clients reconnect, in virtual time."""

import asyncio
import dataclasses
import itertools

import pytest

import mom_client
from mom_client.connection.failover_uri import ConnectionRules
from mom_client.connection.imq_uri import ImqOptions, is_imq, parse
from mom_client.events import MOST_WAITING, EventStream
from tests.client.stage import FakeBroker, FakeSession

ONE, TWO, THREE = "stomp://one:1", "stomp://two:2", "stomp://three:3"


def imq(*addresses: str, **options: object) -> str:
    given = {"imqReconnectInterval": 1000, **{f"imq{name}": value for name, value in options.items()}}
    return "&".join([f"imqAddressList={','.join(addresses)}", *(f"{k}={v}" for k, v in given.items())])


def rules(text: str) -> ConnectionRules:
    found = parse(text).rules
    assert found is not None
    return found


# -- how they are read -------------------------------------------------------------------------


def test_addresses_as_glassfish_writes_them() -> None:
    listed = "mq://a,mq://b/jms,mq://c/ssljms,mqtcp://d:7000/jms,mqssl://[::1]:7001/ssljms,ws://e/ws"
    assert parse(f"imqAddressList={listed}").addresses == (
        "stomp://a:61613",
        "stomp://b:61613",
        "stomp+tls://c:61614",
        "stomp://d:7000",
        "stomp+tls://[::1]:7001",
        "ws://e/ws",
    )
    assert is_imq(f"imqReconnectEnabled=true&imqAddressList={listed}")
    assert not is_imq(f"failover:({ONE})")


OPTIONS = [
    ("imqAddressListBehavior", "PRIORITY", "RANDOM", "RANDOM"),
    ("imqAddressListIterations", 1, "-1", -1),
    ("imqReconnectEnabled", False, "true", True),
    ("imqReconnectAttempts", 0, "3", 3),
    ("imqReconnectInterval", 3000, "100", 100),
    ("imqPingInterval", 30, "0", 0),
    ("imqSocketConnectTimeout", 0, "500", 500),
]


def test_the_options_and_their_defaults() -> None:
    fields = [(field.metadata["name"], field.default) for field in dataclasses.fields(ImqOptions)]
    assert fields == [(name, default) for name, default, _, _ in OPTIONS]


def test_what_is_not_said_is_as_in_glassfish() -> None:
    pace = rules(f"imqAddressList={ONE}").pace
    assert (pace.startup_sweeps, pace.sweeps, pace.attempts, pace.pause_s) == (1, 1, 1, 3.0)
    assert (pace.shuffle, pace.failed_last) == (False, False)
    assert rules(f"imqAddressList={ONE}").heart_beat_s == 30
    said = rules(
        f"imqAddressList={ONE}&imqPingInterval=-1&imqSocketConnectTimeout=500&imqReconnectEnabled=true"
    )
    assert (said.heart_beat_s, said.connect_timeout_s, said.reconnect) == (0, 0.5, True)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("imqAddressList=", "names no address"),
        (f"imqAddressList={ONE}&imqReconectEnabled=true", "unknown imq option: imqReconectEnabled, did you"),
        (f"imqAddressList={ONE}&imqAddressListBehavior=FIRST", "is PRIORITY or RANDOM, not 'FIRST'"),
        (f"imqAddressList={ONE}&imqReconnectAttempts=-2", "is a whole number from -1, not '-2'"),
        (f"imqAddressList={ONE}&imqReconnectEnabled=1", "is true or false, not '1'"),
        ("imqAddressList=mq://a:7676/jms", "is that of a port mapper, which MOM has not: write mq://a, or"),
        ("imqAddressList=mq://a/connection", "there is no service 'connection'"),
        ("imqAddressList=mqtcp://0.0.0.0:1/jms", "0.0.0.0 is where a broker listens"),
        ("imqAddressList=http://a/tunnel", "must begin with one of"),
        ("imqAddressList=mqtcp://a:x", "cannot be read"),
    ],
)
def test_what_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        mom_client.connect(url)


# -- how their clients reconnect ---------------------------------------------------------------


async def lose(stage: FakeBroker, session: FakeSession, *down: str) -> None:
    stage.down = set(down)
    stage.attempts.clear()
    session.end()
    await session.closed.wait()


def tried(stage: FakeBroker) -> list[str]:
    return [address for _, address in stage.attempts]


async def gives_up(client: mom_client.Client) -> None:
    with pytest.raises(mom_client.ConnectionLost):
        await client.send("/queue/a")
    await client.close()


async def test_without_reconnecting_the_client_ends_with_its_connection(stage: FakeBroker) -> None:
    client, session = await stage.client(imq(ONE, TWO))
    await lose(stage, session)
    await gives_up(client)
    assert tried(stage) == []


async def test_each_address_is_tried_so_often_in_each_pass(stage: FakeBroker) -> None:
    options = {"ReconnectEnabled": "true", "ReconnectAttempts": 2, "AddressListIterations": 2}
    client, session = await stage.client(imq(ONE, TWO, **options))
    await lose(stage, session, ONE, TWO)
    await gives_up(client)
    assert tried(stage) == [ONE, ONE, TWO, TWO] * 2
    times = [when for when, _ in stage.attempts]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == pytest.approx([1.0] * 7)


async def test_attempts_without_end_are_made_at_the_first_address(stage: FakeBroker) -> None:
    client, session = await stage.client(imq(ONE, TWO, ReconnectEnabled="true", ReconnectAttempts=-1))
    await lose(stage, session, ONE)
    await asyncio.sleep(100)
    assert (set(tried(stage)), 99 <= len(stage.attempts) <= 101) == ({ONE}, True)
    stage.down = set()
    again = await stage.come_back(client)
    assert again.address == ONE
    await stage.leave(client, again)


async def test_passes_without_end_are_made_through_the_list(stage: FakeBroker) -> None:
    options = {"ReconnectEnabled": "true", "AddressListIterations": -1}
    client, session = await stage.client(imq(ONE, TWO, **options))
    await lose(stage, session, ONE, TWO)
    await asyncio.sleep(100)
    assert tried(stage) == [ONE, TWO] * (len(stage.attempts) // 2) and len(stage.attempts) >= 99
    stage.down = {ONE}
    again = await stage.come_back(client)
    assert again.address == TWO
    await stage.leave(client, again)


@pytest.mark.parametrize(("seconds", "beats"), [("7", "7000,7000"), ("0", "0,0"), ("-1", "0,0")])
async def test_the_ping_interval_is_that_of_the_heart_beats(
    stage: FakeBroker, seconds: str, beats: str
) -> None:
    opening = asyncio.ensure_future(stage.connect(imq(ONE, PingInterval=seconds)).open())
    session = await stage.accept()
    connect = await session.welcome()
    assert connect.headers["heart-beat"] == beats
    await stage.leave(await opening, session)


async def test_an_attempt_that_gets_no_answer_ends_with_the_connect_timeout(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(
        stage.connect(imq(ONE, TWO, SocketConnectTimeout=500, ReconnectInterval=0)).open()
    )
    silent = await stage.accept()
    await silent.expect(b"CONNECT")
    session = await stage.accept()
    assert stage.attempts == [(0.0, ONE), (0.5, TWO)]
    await session.welcome()
    await stage.leave(await opening, session)


async def test_a_random_list_is_shuffled(stage: FakeBroker) -> None:
    addresses = [f"stomp://{number}:1" for number in range(20)]
    stage.down = set(addresses)
    with pytest.raises(mom_client.ConnectionLost):
        await stage.connect(imq(*addresses, AddressListBehavior="RANDOM")).open()
    assert sorted(tried(stage)) == sorted(addresses)
    assert tried(stage) != addresses


async def test_an_enhanced_cluster_has_its_clients_always_reconnect(stage: FakeBroker) -> None:
    opening = asyncio.ensure_future(stage.connect(imq(ONE, ReconnectAttempts=-1)).open())
    session = await stage.accept()
    await session.welcome(mom_cluster="shop", mom_failover=f"{TWO},{ONE}")
    client = await opening
    await lose(stage, session, ONE, TWO)
    await asyncio.sleep(100)
    assert set(tried(stage)) == {ONE, TWO}
    stage.down = {ONE}
    again = await stage.come_back(client)
    assert again.address == TWO
    await stage.leave(client, again)


# -- events ------------------------------------------------------------------------------------


async def test_events_can_be_iterated_and_end_with_the_client(stage: FakeBroker) -> None:
    failed: list[mom_client.ClientError] = []
    client = stage.connect(imq(ONE, TWO, ReconnectEnabled="true"), exception_listener=failed.append)
    events = client.events()
    opening = asyncio.ensure_future(client.open())
    session = await stage.accept()
    await session.welcome()
    await opening
    await lose(stage, session, ONE)
    again = await stage.come_back(client)
    assert failed == []
    await lose(stage, again, ONE, TWO)
    await gives_up(client)
    found = [(event.kind, event.address, event.code) async for event in events]
    assert found == [
        ("closed", ONE, "connection-lost"),
        ("reconnect failed", ONE, ""),
        ("reconnected", TWO, ""),
        ("closed", TWO, "connection-lost"),
        ("reconnect failed", ONE, ""),
        ("reconnect failed", TWO, ""),
        ("reconnect failed", f"{ONE}, {TWO}", ""),
    ]
    (error,) = failed
    reasons = f"{ONE}: nobody at {ONE}; {TWO}: nobody at {TWO}"
    assert str(error) == f"no broker answers after 1 sweep of the list, 2 attempts ({reasons})"
    assert [event async for event in client.events()] == []


@pytest.mark.parametrize(
    ("options", "failures"),
    [({}, 0), ({"ReconnectEnabled": "true"}, 1), ({"ReconnectEnabled": "true", "ReconnectAttempts": 3}, 3)],
)
async def test_the_exception_listener_is_called_after_the_last_event(
    stage: FakeBroker, options: dict[str, object], failures: int
) -> None:
    """CL-P24: each failed attempt is an event, the end of them all is another, and then it is called."""
    order: list[str] = []
    client, session = await stage.client(
        imq(ONE, **options),
        listener=lambda event: order.append(f"{event.kind}{' for good' * event.final}"),
        exception_listener=lambda _: order.append("error"),
    )
    await lose(stage, session, ONE)
    await gives_up(client)
    for_good = ["reconnect failed for good"] * (failures > 0)
    assert order == ["closed", *["reconnect failed"] * failures, *for_good, "error"]


async def test_the_code_of_a_refusal_is_that_of_the_event(stage: FakeBroker) -> None:
    client, session = await stage.client(imq(ONE, TWO, ReconnectEnabled="true"))
    events = client.events()
    body = b'{"type": "/docs/problems/shutting-down", "detail": "the broker stops"}'
    session.say(b"ERROR", {"message": "shutting-down"}, body)
    again = await stage.come_back(client)
    await stage.leave(client, again)
    codes = [(event.kind, event.code) async for event in events]
    assert codes == [
        ("closed", "shutting-down"),
        ("reconnected", ""),
        ("closing", ""),
        ("closed", "client-closed"),
    ]


async def test_events_that_are_not_taken_are_bounded() -> None:
    stream = EventStream()
    for number in range(MOST_WAITING + 10):
        stream.put(mom_client.ConnectionEvent("reconnect failed", ONE, str(number)))
    stream.end()
    reasons = [event.reason async for event in stream]
    assert (len(reasons), reasons[0], stream.missed) == (MOST_WAITING, "10", 10)
