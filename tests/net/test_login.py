"""Authentication, from caches wherever possible."""

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Iterator

import pytest

from broker_app.net.auth.login import ANONYMOUS, Identity, Logins
from broker_app.net.auth.login_throttle import LoginThrottle, Slowed
from broker_app.net.policy.policy import Policy, TokenFacts, UserFacts
from tests.support.clock import Clock


class Verifier:
    """Passwords are their own hashes; counts how often it is asked, and can be made to wait."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, password: str, password_hash: str) -> bool:
        self.calls += 1
        assert self.gate.wait(10)
        return password == password_hash


@pytest.fixture
def verify() -> Iterator[Verifier]:
    verifier = Verifier()
    yield verifier
    verifier.gate.set()


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


def policy(
    version: int = 1, password: str = "right", anonymous: bool = False, expires: float | None = None
) -> Policy:
    return Policy(
        version=version,
        users={"john": UserFacts("john", password)},
        tokens={hashlib.sha256(b"mom_t").digest(): TokenFacts("john", "laptop", expires)},
        anonymous=anonymous,
    )


@pytest.fixture
def logins(verify: Verifier, clock: Clock) -> Logins:
    return Logins(policy(), verify, failure_delay_s=0, clock=clock, dummy_hash="nobody's")


async def test_a_password_is_verified_once_and_then_cached(logins: Logins, verify: Verifier) -> None:
    assert logins.cached("john", "right") is None
    assert await logins.authenticate("john", "right") == Identity("john")
    assert await logins.authenticate("john", "right") == Identity("john")
    assert logins.cached("john", "right") == Identity("john")
    assert verify.calls == 1


async def test_a_cached_password_expires(logins: Logins, verify: Verifier, clock: Clock) -> None:
    await logins.authenticate("john", "right")
    clock.now += 601
    assert logins.cached("john", "right") is None
    assert await logins.authenticate("john", "right") == Identity("john")
    assert verify.calls == 2


async def test_a_new_policy_clears_the_caches(logins: Logins) -> None:
    await logins.authenticate("john", "right")
    logins.reload(policy(2, password="new"))
    assert await logins.authenticate("john", "right") is None
    assert await logins.authenticate("john", "new") == Identity("john")


async def test_a_new_policy_with_the_same_password_costs_no_verification(
    logins: Logins, verify: Verifier
) -> None:
    await logins.authenticate("john", "right")
    logins.reload(policy(2))
    assert logins.cached("john", "right") == Identity("john")
    assert verify.calls == 1
    logins.reload(Policy(3))
    assert logins.cached("john", "right") is None


async def test_a_password_changed_during_the_verification_is_not_accepted(
    logins: Logins, verify: Verifier
) -> None:
    verify.gate.clear()
    asking = asyncio.create_task(logins.authenticate("john", "right"))
    while not verify.calls:
        await asyncio.sleep(0)
    logins.reload(policy(2, password="new"))
    verify.gate.set()
    assert await asking is None
    assert logins.cached("john", "right") is None


async def test_a_wrong_password_is_refused_from_memory_for_a_while(
    logins: Logins, verify: Verifier, clock: Clock
) -> None:
    assert await logins.authenticate("john", "wrong") is None
    assert await logins.authenticate("john", "wrong") is None
    assert verify.calls == 1
    clock.now += 301
    assert await logins.authenticate("john", "wrong") is None
    assert verify.calls == 2


async def test_a_program_that_repeats_a_wrong_password_for_hours_locks_no_account(
    verify: Verifier, clock: Clock
) -> None:
    logins = Logins(policy(), verify, failure_delay_s=0.0, throttle=LoginThrottle(clock), clock=clock)
    for _ in range(3 * 3600 // 31):
        assert await logins.authenticate("john", "of before", "10.0.0.1") is None
        clock.now += 31
    assert await logins.authenticate("john", "right", "10.0.0.1") == Identity("john")


async def test_a_refusal_is_delayed(verify: Verifier) -> None:
    logins = Logins(policy(), verify, failure_delay_s=3600)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(logins.authenticate("john", "wrong"), 0.05)


async def test_an_unknown_user_costs_a_verification_like_a_known_one(
    logins: Logins, verify: Verifier
) -> None:
    assert await logins.authenticate("nobody", "nobody's") is None
    assert verify.calls == 1


async def test_equal_concurrent_logins_share_one_verification(logins: Logins, verify: Verifier) -> None:
    answers = await asyncio.gather(*(logins.authenticate("john", "right") for _ in range(50)))
    assert answers == [Identity("john")] * 50
    assert verify.calls == 1


async def test_a_client_that_disconnects_does_not_cancel_a_shared_verification(
    logins: Logins, verify: Verifier
) -> None:
    verify.gate.clear()
    leaver, stayer = (asyncio.create_task(logins.authenticate("john", "right")) for _ in range(2))
    while not verify.calls:
        await asyncio.sleep(0)
    leaver.cancel()
    verify.gate.set()
    assert await stayer == Identity("john")


async def test_a_flood_of_guesses_is_refused_without_verifying_all(logins: Logins, verify: Verifier) -> None:
    verify.gate.clear()
    flood = [
        asyncio.create_task(logins.authenticate("jane", f"guess {n}", "198.51.100.1")) for n in range(300)
    ]
    refused, _ = await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
    assert len(refused) == 300 - 256 // 4
    assert all(isinstance(task.exception(), Slowed) for task in refused)
    elsewhere = asyncio.create_task(logins.authenticate("john", "right", "192.0.2.1"))
    verify.gate.set()
    assert await elsewhere == Identity("john")
    answers = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(answer is None for answer in answers) == 256 // 4


async def test_login_and_passcode_do_not_run_together(logins: Logins) -> None:
    await logins.authenticate("john", "right")
    assert logins.cached("joh", "nright") is None


@pytest.mark.parametrize("login", ["\0", "\ud800", "jöhn", "token"])
async def test_unusual_names_are_refused(logins: Logins, login: str) -> None:
    assert await logins.authenticate(login, "\ud800x") is None


async def test_a_token_is_a_passcode_or_a_bearer(logins: Logins, verify: Verifier) -> None:
    assert logins.bearer("mom_t") == Identity("john", "laptop")
    assert logins.cached("token", "mom_t") == Identity("john", "laptop")
    assert await logins.authenticate("token", "mom_t") == Identity("john", "laptop")
    assert await logins.authenticate("token", "mom_other") is None
    assert await logins.authenticate("john", "mom_t") is None
    assert logins.bearer("mom_other") is None


async def test_a_token_expires(verify: Verifier, clock: Clock) -> None:
    logins = Logins(policy(expires=clock.now + 1), verify, clock=clock)
    assert logins.bearer("mom_t") is not None
    clock.now += 1
    assert logins.bearer("mom_t") is None


async def test_a_client_without_credentials_is_anonymous_only_if_allowed(logins: Logins) -> None:
    assert await logins.authenticate("", "") is None
    logins.reload(policy(2, anonymous=True))
    assert await logins.authenticate("", "") == ANONYMOUS
    assert await logins.authenticate("john", "wrong") is None


async def test_a_session_cookie_is_resolved_once_in_a_few_seconds(verify: Verifier, clock: Clock) -> None:
    asked: list[str] = []

    def session_user(key: str) -> str | None:
        asked.append(key)
        return {"k1": "john", "k2": "gone"}.get(key)

    logins = Logins(policy(), verify, session_user, session_cookie="mom_session", clock=clock)
    assert await logins.authenticate_cookie("a=b; mom_session=k1; c=d") == Identity("john")
    assert await logins.authenticate_cookie('mom_session="k1"') == Identity("john")
    assert asked == ["k1"]
    clock.now += 6
    await logins.authenticate_cookie("mom_session=k1")
    assert asked == ["k1", "k1"]
    assert await logins.authenticate_cookie("mom_session=k2") is None
    assert await logins.authenticate_cookie("mom_session=k3") is None
    assert await logins.authenticate_cookie("xmom_session=k1; mom_session=") is None


async def test_after_too_many_wrong_passwords_none_is_verified(logins: Logins, verify: Verifier) -> None:
    for number in range(5):
        assert await logins.authenticate("john", f"wrong {number}", "10.0.0.1") is None
    with pytest.raises(Slowed, match="try again in 60 s"):
        await logins.authenticate("john", "right", "10.0.0.1")
    assert verify.calls == 5
    assert await logins.authenticate("john", "right", "10.0.0.2") == Identity("john")


async def test_a_cached_login_is_not_throttled(logins: Logins) -> None:
    await logins.authenticate("john", "right", "10.0.0.1")
    for number in range(6):
        with contextlib.suppress(Slowed):
            await logins.authenticate("john", f"wrong {number}", "10.0.0.1")
    assert await logins.authenticate("john", "right", "10.0.0.1") == Identity("john")
    assert await logins.authenticate("token", "mom_t", "10.0.0.1") == Identity("john", "laptop")


async def test_guesses_never_lock_out_a_program_whose_password_is_in_use(
    logins: Logins, verify: Verifier, clock: Clock
) -> None:
    await logins.authenticate("john", "right", "10.0.0.1")
    for number in range(6):
        with contextlib.suppress(Slowed):
            await logins.authenticate("john", f"wrong {number}", "10.0.0.1")
    verified = verify.calls
    for _ in range(3):
        clock.now += 400
        assert await logins.authenticate("john", "right", "10.0.0.1") == Identity("john")
    assert verify.calls == verified


async def test_the_same_wrong_password_counts_once(logins: Logins, verify: Verifier) -> None:
    for _ in range(50):
        assert await logins.authenticate("john", "former", "10.0.0.1") is None
    assert verify.calls == 1
    assert await logins.authenticate("john", "right", "10.0.0.1") == Identity("john")


async def test_concurrent_guesses_are_limited_like_sequential_ones(logins: Logins, verify: Verifier) -> None:
    throttle = (logins.authenticate("john", f"guess {n}", "10.0.0.1") for n in range(100))
    answers = await asyncio.gather(*throttle, return_exceptions=True)
    assert all(answer is None or isinstance(answer, Slowed) for answer in answers)
    assert verify.calls <= 6


async def test_a_certificate_names_an_existing_user(logins: Logins) -> None:
    assert logins.certified(("jane", "john")) == Identity("john")
    assert logins.certified(("jane",)) is None
    assert logins.certified(()) is None


async def test_the_last_use_of_a_token_is_recorded(logins: Logins, clock: Clock) -> None:
    digest = hashlib.sha256(b"mom_t").digest()
    assert logins.take_used() == {}
    logins.bearer("mom_t")
    logins.bearer("mom_other")
    used_at = clock.now
    clock.now += 30
    assert logins.take_used() == {digest: used_at}
    assert logins.take_used() == {}


async def test_the_token_of_an_open_connection_is_in_use(logins: Logins, clock: Clock) -> None:
    logins.present = lambda: [Identity("john"), Identity("john", "laptop"), Identity("jane", "gone")]
    clock.now += 3600
    assert logins.take_used() == {hashlib.sha256(b"mom_t").digest(): clock.now}
