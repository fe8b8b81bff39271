"""Guessing: how wrong passwords slow down whoever tries them, and nobody else for long.

Wrong passwords are counted three times:

| of                        | free | then                                                               |
|---------------------------|------|--------------------------------------------------------------------|
| an account at an address  | 5    | a pause of a minute, doubled with each other one, up to 15 minutes |
| an address, all accounts  | 50   | the same                                                           |
| an account, all addresses | 20   | one try in 1 s, doubled with each other wrong one, up to 5 s       |

The same wrong password again teaches nobody anything: it counts for the address, which keeps it from costing
much, and not for the account, so that a program with a former password locks nobody out.

The last one alone is felt at other addresses. It is never a lock: a try that is refused costs nothing, so
there is always a next one; and it does not hold at addresses from which the account has logged in before.
Counts melt with time. An IPv6 address is its network of 64 bits: whoever has one has all of them.
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

from broker_app.core.errors import Refused

_Key = TypeVar("_Key")

#: of each kind that are remembered; the one that was quiet for longest goes first
_REMEMBERED = 20_000
_LONGEST_NAME = 150
#: wrong passwords that are known again when they are repeated
_REPEATED = 8
#: passwords that are looked at together: each takes a core and megabytes, and each may be one guess too many
LOOKS = 2


class Slowed(Refused):
    """Refused("rate-limited"): so many wrong passwords came that this one is not looked at."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = math.ceil(wait_s)
        detail = f"there were too many wrong passwords: try again in {self.wait_s} s"
        super().__init__("rate-limited", detail, retry_after=self.wait_s)


class _Counts(Generic[_Key]):
    """Wrong passwords by key: `free` ones cost nothing, one melts in `melt_s`, and the first pause beyond is
    `pause_s` long."""

    def __init__(
        self, clock: Callable[[], float], *, free: int, melt_s: float, pause_s: float, longest_s: float
    ) -> None:
        self._clock = clock
        self._free = free
        self._melt_s = melt_s
        self._pause_s = pause_s
        self._longest_s = longest_s
        #: how many, as of when, and until when is pause
        self._known: dict[_Key, tuple[float, float, float]] = {}

    def wait_s(self, key: _Key) -> float:
        known = self._known.get(key)
        return max(0.0, known[2] - self._clock()) if known is not None else 0.0

    def add(self, key: _Key, wrong: int = 1) -> None:
        """Count one more, or none, and begin the pause that is due."""
        now = self._clock()
        level, since, _ = self._known.pop(key, (0.0, now, 0.0))
        level = max(0.0, level - (now - since) / self._melt_s) + wrong
        over = round(level) - self._free
        pause = min(self._pause_s * 2.0 ** min(over, 10), self._longest_s) if over >= 0 else 0.0
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = level, now, now + pause

    def forget(self, key: _Key) -> None:
        self._known.pop(key, None)


class Places:
    """Passwords that wait for their turn or are looked at: at most `most`, and a quarter of them of one
    address, so that none keeps the others out. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_of_one = most // 4
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, address: str) -> Iterator[None]:
        """Takes a place for a password from this address. Raises Slowed when there is none."""
        place = place_of(address)
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


class Guesses:
    """The counts of one process, for every way in. A try that is admitted ends in `right` or `wrong`.

    Threads may share it: between two of them a count may be off by one, which harms nobody. Each looks at a
    password, and says what came out, within `looking`: so no more are looked at than are free.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        locked = {"pause_s": 60.0, "longest_s": 900.0}
        self._pairs: _Counts[tuple[str, str]] = _Counts(clock, free=5, melt_s=900, **locked)
        self._places: _Counts[str] = _Counts(clock, free=50, melt_s=12, **locked)
        self._accounts: _Counts[str] = _Counts(clock, free=20, melt_s=60, pause_s=1.0, longest_s=5.0)
        #: called with the account of each password that was right
        self.heard_right: Callable[[str], object] = lambda account: None
        #: digests of the last wrong passwords, by account and address
        self._tried: dict[tuple[str, str], tuple[bytes, ...]] = {}
        self._key = secrets.token_bytes(32)
        #: where accounts have logged in before
        self._familiar: dict[tuple[str, str], None] = {}
        self._looks = threading.BoundedSemaphore(LOOKS)

    def admit(self, account: str, address: str) -> None:
        """Lets a password be looked at. Raises Slowed."""
        pair = _pair(account, address)
        wait_s = self.locked_s(account, address)
        if not wait_s and pair not in self._familiar:
            wait_s = self._accounts.wait_s(pair[0])
            if not wait_s:
                self._accounts.add(pair[0], 0)
        if wait_s:
            raise Slowed(wait_s)

    @contextmanager
    def looking(self, account: str, address: str) -> Iterator[None]:
        """Around a look at a password that was admitted; it may wait for its turn. Raises Slowed where others
        were wrong meanwhile."""
        with self._looks:
            wait_s = self.locked_s(account, address)
            if wait_s:
                raise Slowed(wait_s)
            yield

    def locked_s(self, account: str, address: str) -> float:
        """How long nothing is looked at for this account at this address."""
        pair = _pair(account, address)
        return max(self._pairs.wait_s(pair), self._places.wait_s(pair[1]))

    def wrong(self, account: str, address: str, password: str) -> None:
        pair = _pair(account, address)
        self._places.add(pair[1])
        if self._is_repeated(pair, password):
            return
        self._pairs.add(pair)
        self._accounts.add(pair[0])

    def _is_repeated(self, pair: tuple[str, str], password: str) -> bool:
        """Whether this was among the last wrong passwords; from now on it is."""
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
        self.heard_right(account)


def _pair(account: str, address: str) -> tuple[str, str]:
    return account[:_LONGEST_NAME], place_of(address)


def place_of(address: str) -> str:
    """What counts as one address."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:_LONGEST_NAME]
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(IPv6Address(int(ip) >> 64 << 64)) + "/64"
    return str(ip)
