"""The login throttle: limits how fast passwords can be guessed, with little effect on other clients.

Wrong passwords are counted three times:

| of                        | free | then                                                               |
|---------------------------|------|--------------------------------------------------------------------|
| an account at an address  | 5    | locked for a minute, doubled with each further one, up to 15 min   |
| an address, all accounts  | 50   | the same                                                           |
| an account, all addresses | 20   | one try in 1 s, doubled with each further one, up to 5 s           |

Repeating the same wrong password is not guessing. It counts for the address, which limits its cost, but not
for the account, so that a program with an old password does not lock out its user.

Only the third limit affects other addresses. It is never a lock: a refused try is not counted. It does not
apply to addresses from which the account has logged in before. Counts decay with time. All IPv6 addresses of
one /64 network count as one address.
"""

from __future__ import annotations

import hmac
import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

from broker_app.base.refused import Refused

_Key = TypeVar("_Key")

#: entries of each kind that are remembered; the one that was unused for longest is evicted first
_REMEMBERED = 20_000
_LONGEST_NAME = 150
#: last wrong passwords that are recognised when they are repeated
_REPEATED = 8
#: passwords that are verified at the same time: each takes a core and megabytes of memory
MAX_VERIFICATIONS = 2


class Slowed(Refused):
    """Refused("rate-limited"): after too many wrong passwords this one is not verified."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = math.ceil(wait_s)
        detail = f"there were too many wrong passwords: try again in {self.wait_s} s"
        super().__init__("rate-limited", detail, retry_after=self.wait_s)


class _Counts(Generic[_Key]):
    """Wrong passwords by key: the first `free` ones cost nothing, the count decays by one in `decay_s`, and
    the first pause is `pause_s` long."""

    def __init__(
        self, clock: Callable[[], float], *, free: int, decay_s: float, pause_s: float, longest_s: float
    ) -> None:
        self._clock = clock
        self._free = free
        self._decay_s = decay_s
        self._pause_s = pause_s
        self._longest_s = longest_s
        #: the count, when it was updated, and when the pause ends
        self._known: dict[_Key, tuple[float, float, float]] = {}

    def wait_s(self, key: _Key) -> float:
        known = self._known.get(key)
        return max(0.0, known[2] - self._clock()) if known is not None else 0.0

    def left(self, key: _Key) -> int:
        """The wrong passwords that are free still; at least one, which is then the only one."""
        level, since, _ = self._known.get(key, (0.0, 0.0, 0.0))
        level = max(0.0, level - (self._clock() - since) / self._decay_s)
        return max(1, self._free - round(level))

    def add(self, key: _Key, wrong: int = 1) -> None:
        """Add to the count, and begin the pause that is due."""
        now = self._clock()
        level, since, _ = self._known.pop(key, (0.0, now, 0.0))
        level = max(0.0, level - (now - since) / self._decay_s) + wrong
        over = round(level) - self._free
        pause = min(self._pause_s * 2.0 ** min(over, 10), self._longest_s) if over >= 0 else 0.0
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = level, now, now + pause

    def forget(self, key: _Key) -> None:
        self._known.pop(key, None)


class VerificationSlots:
    """Slots for passwords that are verified or wait for it: `most` in all, and at most a quarter of them for
    one address, so that no address takes all. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_of_one = most // 4
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, address: str) -> Iterator[None]:
        """Take a slot for a password from this address. Raises Slowed if there is none."""
        place = network_of(address)
        with self._lock:
            if self._taken[place] >= self._most_of_one or self._taken.total() >= self._most:
                raise Slowed(1.0)
            self._taken[place] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[place] -= 1
                if not self._taken[place]:
                    del self._taken[place]


class LoginThrottle:
    """The counts of one process, for all protocols. An admitted try ends in `right` or `wrong`.

    Thread-safe; a count may be off by one. A thread verifies a password and reports the result within
    `verifying`, so that concurrent tries cannot exceed the limits.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        locked = {"pause_s": 60.0, "longest_s": 900.0}
        self._pairs: _Counts[tuple[str, str]] = _Counts(clock, free=5, decay_s=900, **locked)
        self._addresses: _Counts[str] = _Counts(clock, free=50, decay_s=12, **locked)
        self._accounts: _Counts[str] = _Counts(clock, free=20, decay_s=60, pause_s=1.0, longest_s=5.0)
        #: called with the account of each password that was right
        self.on_success: Callable[[str], object] = lambda account: None
        #: digests of the last wrong passwords, by account and address
        self._tried: dict[tuple[str, str], tuple[bytes, ...]] = {}
        self._key = secrets.token_bytes(32)
        #: pairs of account and address that have logged in before
        self._familiar: dict[tuple[str, str], None] = {}
        self._looks = threading.BoundedSemaphore(MAX_VERIFICATIONS)
        #: verifications that go on or have a turn, by account and address and by address
        self._verified: Counter[tuple[str, str]] = Counter()
        self._verified_at: Counter[str] = Counter()
        self._turns = threading.Condition()

    def admit(self, account: str, address: str) -> None:
        """Allow one password to be verified. Raises Slowed."""
        pair = _pair(account, address)
        wait_s = self.locked_s(account, address)
        if not wait_s and pair not in self._familiar:
            wait_s = self._accounts.wait_s(pair[0])
            if not wait_s:
                self._accounts.add(pair[0], 0)
        if wait_s:
            raise Slowed(wait_s)

    @contextmanager
    def verifying(self, account: str, address: str) -> Iterator[None]:
        """Context of one verification; waits for its turn. Raises Slowed if others were wrong meanwhile."""
        with self._turn(_pair(account, address)), self._looks:
            wait_s = self.locked_s(account, address)
            if wait_s:
                raise Slowed(wait_s)
            yield

    @contextmanager
    def _turn(self, pair: tuple[str, str]) -> Iterator[None]:
        """Wait while those that are being verified would use up what is free, if all of them are wrong."""
        with self._turns:
            self._turns.wait_for(
                lambda: (
                    self._verified[pair] < self._pairs.left(pair)
                    and self._verified_at[pair[1]] < self._addresses.left(pair[1])
                )
            )
            self._count_verified(pair, 1)
        try:
            yield
        finally:
            with self._turns:
                self._count_verified(pair, -1)
                self._turns.notify_all()

    def _count_verified(self, pair: tuple[str, str], by: int) -> None:
        self._verified[pair] += by
        self._verified_at[pair[1]] += by
        if not self._verified[pair]:
            del self._verified[pair]
        if not self._verified_at[pair[1]]:
            del self._verified_at[pair[1]]

    def locked_s(self, account: str, address: str) -> float:
        """Seconds for which no password is verified for this account at this address."""
        pair = _pair(account, address)
        return max(self._pairs.wait_s(pair), self._addresses.wait_s(pair[1]))

    def wrong(self, account: str, address: str, password: str) -> None:
        pair = _pair(account, address)
        self._addresses.add(pair[1])
        if self._is_repeated(pair, password):
            return
        self._pairs.add(pair)
        self._accounts.add(pair[0])

    def _is_repeated(self, pair: tuple[str, str], password: str) -> bool:
        """Return True if this is one of the last wrong passwords; remembers it."""
        tried = hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), "sha256")
        former = self._tried.pop(pair, ())
        if len(self._tried) >= _REMEMBERED:
            del self._tried[next(iter(self._tried))]
        self._tried[pair] = (*(one for one in former if one != tried), tried)[-_REPEATED:]
        return tried in former

    def right(self, account: str, address: str) -> None:
        pair = _pair(account, address)
        self._pairs.forget(pair)
        self._tried.pop(pair, None)
        self._familiar.pop(pair, None)
        if len(self._familiar) >= _REMEMBERED:
            del self._familiar[next(iter(self._familiar))]
        self._familiar[pair] = None
        self.on_success(account)


def _pair(account: str, address: str) -> tuple[str, str]:
    return account[:_LONGEST_NAME], network_of(address)


def network_of(address: str) -> str:
    """The address, or the /64 network of an IPv6 address: what is counted as one address."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:_LONGEST_NAME]
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(IPv6Address(int(ip) >> 64 << 64)) + "/64"
    return str(ip)
