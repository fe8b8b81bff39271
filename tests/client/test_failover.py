"""The next address to try, and the delay before it."""

import itertools
import random

import pytest

from mom_client.connection.failover import Failover
from mom_client.connection.pace import Pace

A, B, C = "stomp://a:1", "ws://b:2/ws", "wss://c/ws"
STEADY = Pace(jitter=0, startup_sweeps=None, first_delay_s=1, max_delay_s=5)


def test_the_first_sweep_does_not_wait() -> None:
    assert list(Failover([A, B])) == [(A, 0.0), (B, 0.0)]


def test_later_sweeps_wait_longer_and_longer() -> None:
    failover = Failover([A, B], STEADY)
    tries = list(itertools.islice(failover, 10))
    assert [address for address, _ in tries] == [A, B] * 5
    assert [delay for _, delay in tries] == [0, 0, 1, 0, 2, 0, 4, 0, 5, 0]


def test_success_starts_afresh() -> None:
    failover = Failover([A, B], STEADY)
    list(itertools.islice(failover, 6))
    failover.connected()
    assert list(itertools.islice(failover, 3)) == [(A, 1), (B, 0), (A, 2)]


def test_the_broken_address_is_tried_last() -> None:
    failover = Failover([A, B, C], STEADY)
    assert next(failover) == (A, 0)
    failover.connected()
    failover.lost(A)
    assert [next(failover)[0] for _ in range(3)] == [B, C, A]


def test_sweeps_are_counted_apart_from_startup() -> None:
    failover = Failover([A], Pace(startup_sweeps=2, sweeps=3))
    assert len(list(failover)) == 2
    failover.connected()
    assert len(list(failover)) == 3


def test_delays_vary_and_stay_near() -> None:
    pace = Pace(first_delay_s=1, max_delay_s=1, jitter=0.2, startup_sweeps=None)
    failover = Failover([A], pace, random.Random(1))
    next(failover)
    delays = [next(failover)[1] for _ in range(100)]
    assert 0.8 <= min(delays) < 0.85 < 1.15 < max(delays) <= 1.2


def test_shuffled_sweeps_keep_what_broke_last() -> None:
    addresses = [f"stomp://{n}:1" for n in range(20)]
    failover = Failover(addresses, Pace(shuffle=True, startup_sweeps=None), random.Random(1))
    failover.lost(addresses[0])
    sweep = [next(failover)[0] for _ in range(20)]
    assert sorted(sweep) == sorted(addresses)
    assert sweep[-1] == addresses[0]
    assert sweep[:-1] != addresses[1:]


def test_learned_addresses_come_first_and_configured_ones_stay() -> None:
    failover = Failover([A, B], STEADY)
    failover.learn([C, A])
    assert failover.addresses == [C, A, B]
    failover.learn([])
    assert failover.addresses == [C, A, B]
    failover.learn(["rubbish", " ", B])
    assert failover.addresses == [B, A]


def test_a_client_keeps_its_protocol_where_a_broker_has_several() -> None:
    failover = Failover([A], STEADY)
    failover.learn([A, "ws://a:8000/ws", "ws://b:8000/ws", "stomp://b:1", "wss://c/ws", "ws://d:8000/ws"])
    assert failover.addresses == [A, "stomp://b:1", "wss://c/ws", "ws://d:8000/ws"]
    browser = Failover(["ws://a:8000/ws"], STEADY)
    browser.learn([A, "ws://a:8000/ws", "stomp://c:1"])
    assert browser.addresses == ["ws://a:8000/ws", "stomp://c:1"]


def test_a_broker_that_is_named_again_is_no_longer_last() -> None:
    failover = Failover([A, B], STEADY)
    failover.lost(A)
    assert failover.addresses == [B, A]
    failover.learn([A, B])
    assert failover.addresses == [A, B]


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("http://a/", "must begin with one of stomp://"),
        ("a:61613", "must begin with"),
        ("stomp://", "names no host"),
        ("stomp://user:secret@a:1", "must not hold credentials"),
    ],
)
def test_addresses_that_are_none(address: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Failover([address])


def test_at_least_one_address() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Failover([])
