"""Throttling of wrong passwords: which clients, and for how long."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from broker_app.net.auth.login_throttle import (
    _REMEMBERED,
    LoginThrottle,
    Slowed,
    VerificationSlots,
    network_of,
)
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> LoginThrottle:
    return LoginThrottle(clock)


def wait_s(throttle: LoginThrottle, account: str, address: str) -> int:
    try:
        throttle.admit(account, address)
    except Slowed as slowed:
        return slowed.wait_s
    return 0


_GUESSED = itertools.count()


def guess(throttle: LoginThrottle, account: str, address: str, times: int = 1) -> int:
    """Guesses as long as it is let; how often it was."""
    for made in range(times):
        if wait_s(throttle, account, address):
            return made
        throttle.wrong(account, address, f"guess {next(_GUESSED)}")
    return times


def test_after_five_wrong_passwords_an_account_is_locked_at_that_address(
    throttle: LoginThrottle, clock: Clock
) -> None:
    assert guess(throttle, "john", "10.0.0.1", 100) == 5
    assert wait_s(throttle, "john", "10.0.0.1") == 60
    clock.now += 59.5
    assert wait_s(throttle, "john", "10.0.0.1") == 1
    clock.now += 1
    assert wait_s(throttle, "john", "10.0.0.1") == 0


def test_of_many_parallel_guesses_exactly_five_are_verified(throttle: LoginThrottle) -> None:
    meeting = threading.Barrier(2)

    def look(number: int) -> bool:
        throttle.admit("john", "10.0.0.1")
        with throttle.verifying("john", "10.0.0.1"):
            with suppress(threading.BrokenBarrierError):
                meeting.wait(0.2)  # two are verified at once, where they may be
            throttle.wrong("john", "10.0.0.1", f"guess {number}")
        return True

    def verified(number: int) -> bool:
        try:
            return look(number)
        except Slowed:
            return False

    with ThreadPoolExecutor(20) as threads:
        assert sum(threads.map(verified, range(20))) == 5


def test_the_lock_doubles_up_to_a_quarter_of_an_hour(throttle: LoginThrottle, clock: Clock) -> None:
    guess(throttle, "john", "10.0.0.1", 5)
    rests = []
    for _ in range(9):
        rest = wait_s(throttle, "john", "10.0.0.1")
        rests.append(rest)
        clock.now += rest
        guess(throttle, "john", "10.0.0.1")
    assert rests == sorted(rests)
    assert (rests[0], rests[-1]) == (60, 900)


def test_a_right_password_clears_the_account(throttle: LoginThrottle) -> None:
    guess(throttle, "john", "10.0.0.1", 4)
    throttle.right("john", "10.0.0.1")
    assert guess(throttle, "john", "10.0.0.1", 100) == 5


def test_an_account_is_never_locked_at_other_addresses(throttle: LoginThrottle, clock: Clock) -> None:
    for last in range(1, 200):
        guess(throttle, "john", f"10.0.1.{last}", 5)
        clock.now += 1
    assert 0 < wait_s(throttle, "john", "10.0.0.2") <= 5
    clock.now += 5
    assert wait_s(throttle, "john", "10.0.0.2") == 0


def test_an_account_under_attack_accepts_few_tries_from_all_addresses(
    throttle: LoginThrottle, clock: Clock
) -> None:
    for last in range(1, 9):
        guess(throttle, "john", f"10.0.1.{last}", 5)
    tried = 0
    for second in range(600):
        tried += guess(throttle, "john", f"10.1.{second % 250}.1", 5)
        clock.now += 1
    assert 100 <= tried <= 130


def test_an_address_with_an_earlier_login_is_not_throttled_by_others(
    throttle: LoginThrottle, clock: Clock
) -> None:
    throttle.right("john", "10.0.0.2")
    for last in range(1, 100):
        guess(throttle, "john", f"10.0.1.{last}", 5)
        clock.now += 5
    assert wait_s(throttle, "john", "10.0.0.2") == 0


def test_an_address_that_tries_many_accounts_is_locked(throttle: LoginThrottle, clock: Clock) -> None:
    tried = sum(guess(throttle, f"user{number}", "10.0.0.1") for number in range(200))
    assert tried == 50
    assert wait_s(throttle, "somebody", "10.0.0.1") == 60
    assert wait_s(throttle, "somebody", "10.0.0.2") == 0
    clock.now += 60
    assert wait_s(throttle, "somebody", "10.0.0.1") == 0


def test_old_failures_do_not_count(throttle: LoginThrottle, clock: Clock) -> None:
    for _ in range(20):
        assert guess(throttle, "john", "10.0.0.1", 2) == 2
        clock.now += 3600


def test_memory_is_bounded_whatever_is_tried(throttle: LoginThrottle) -> None:
    for number in range(_REMEMBERED + 100):
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        throttle.wrong(f"user{number}" + "x" * 10_000, address, "guess")
        throttle.right(f"user{number}", "10.0.0.1")
    sizes = [len(counts._known) for counts in (throttle._pairs, throttle._addresses, throttle._accounts)]
    assert sizes == [_REMEMBERED] * 3
    assert len(throttle._familiar) == _REMEMBERED
    assert max(len(name) for name in throttle._accounts._known) == 150


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("nonsense", "nonsense"),
    ],
)
def test_an_ipv6_network_is_one_address(address: str, place: str) -> None:
    assert network_of(address) == place


def test_a_wrong_password_that_is_repeated_locks_no_account(throttle: LoginThrottle, clock: Clock) -> None:
    for _ in range(40):
        assert wait_s(throttle, "bridge", "10.0.0.1") == 0
        throttle.wrong("bridge", "10.0.0.1", "the password of before")
        clock.now += 31
    assert guess(throttle, "bridge", "10.0.0.1", 100) == 5  # its one count has melted


def test_repeating_many_wrong_passwords_counts_each_of_them(throttle: LoginThrottle) -> None:
    made = 0
    for number in range(100):
        if wait_s(throttle, "john", "10.0.0.1"):
            break
        throttle.wrong("john", "10.0.0.1", f"one of three {number % 3}")
        throttle.wrong("john", "10.0.0.1", f"new {number}")
        made += 1
    assert made <= 5


def test_repeated_passwords_of_an_address_count_no_more_than_guesses(
    throttle: LoginThrottle,
) -> None:
    looks = 0
    while not wait_s(throttle, "bridge", "10.0.0.1") and looks < 1000:
        throttle.wrong("bridge", "10.0.0.1", "the password of before")
        looks += 1
    assert looks == 50


def test_one_address_takes_a_quarter_of_the_slots_and_others_log_in() -> None:
    places, theirs = VerificationSlots(8), ExitStack()
    with theirs:
        for port in range(2):
            theirs.enter_context(places.taken(f"2001:db8::{port}"))
        with pytest.raises(Slowed), places.taken("2001:db8::9"):
            pytest.fail("the third of one network is let in")
        with places.taken("192.0.2.1"), places.taken("192.0.2.1"):
            pass
    with places.taken("2001:db8::9"):
        pass


def test_no_more_than_all_slots_are_taken() -> None:
    places = VerificationSlots(4)
    with ExitStack() as theirs:
        for number in range(4):
            theirs.enter_context(places.taken(f"192.0.2.{number}"))
        with pytest.raises(Slowed), places.taken("192.0.2.9"):
            pytest.fail("the fifth is let in")
