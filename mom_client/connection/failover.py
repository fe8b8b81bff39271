"""The next address to try: an iterator of (address, delay in seconds).

The list is tried in sweeps. The broker's own list (`learn`) comes first, then the configured addresses,
which are never forgotten; the address that failed last comes last, and after it what `extend` adds to a
sweep. Between sweeps the delay grows.
"""

import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

from .failover_uri import check_listed
from .pace import Pace
from .transport import check_address, is_encrypted

__all__ = ["Failover"]

log = logging.getLogger("mom_client")

#: addresses that a broker's list or a file may have
MAX_LEARNED = 256


class Failover(Iterator[tuple[str, float]]):
    """Ends (StopIteration) when the sweeps that `pace` allows are used up.

    `preferred` addresses begin each sweep; `fixed` if the list is never extended by a broker; without
    `redirects` no broker may send the client elsewhere.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        pace: Pace = Pace(),  # noqa: B008 -- immutable
        chance: random.Random | None = None,
        *,
        preferred: Sequence[str] = (),
        fixed: bool = False,
        redirects: bool = True,
    ) -> None:
        if not addresses:
            raise ValueError("at least one address is needed")
        self._configured = [check_address(address) for address in dict.fromkeys(addresses)]
        self._encrypted = all(map(is_encrypted, self._configured))
        self._learned: list[str] = []
        self._pace = pace
        self._chance = chance or random.Random()
        self._preferred = preferred
        self._fixed = fixed
        self._redirects = redirects
        self._failed = ""
        self._delay_s = 0.0
        self._sweeps_left = pace.startup_sweeps
        self._sweep: list[str] = []
        self._tried: set[str] = set()  # in this sweep
        self._first: list[str] = []  # where a broker has sent us
        #: the usable addresses of the broker's list, those of other protocols too
        self.listed: list[str] = []
        self.sweeps = 0  #: sweeps that were begun since the last connection
        self.extensible = False  #: true when a sweep has come to its end and was not extended yet

    @property
    def addresses(self) -> list[str]:
        """All known addresses, in the order of the next sweep but for chance."""
        known = list(dict.fromkeys(self._learned + self._configured))
        if self._pace.failed_last and self._failed in known:
            known.remove(self._failed)
            known.append(self._failed)
        return known

    @property
    def exhausted(self) -> bool:
        """True if every address of this sweep was tried, and `extend` may name more."""
        return self.extensible and not self._sweep and not self._first

    def __next__(self) -> tuple[str, float]:
        if self._first:
            return self._given(self._first.pop(0)), 0.0
        if self._sweep:
            return self._next_of_sweep(), self._pace.pause_s
        if self._sweeps_left == 0:
            raise StopIteration
        if self._sweeps_left is not None:
            self._sweeps_left -= 1
        self._begin_sweep()
        delay = self._delay_s * (1 + self._chance.uniform(-self._pace.jitter, self._pace.jitter))
        self._delay_s = self._pace.longer(self._delay_s)
        return self._next_of_sweep(), max(delay, self._pace.pause_s if self.sweeps > 1 else 0.0)

    def _begin_sweep(self) -> None:
        self.sweeps += 1
        self._tried.clear()
        self.extensible = True
        order, attempts = self.shuffled, self._pace.attempts
        self._sweep = order[:1] if attempts is None else [one for one in order for _ in range(attempts)]

    def _next_of_sweep(self) -> str:
        """The next address of this sweep, which has no end if there is none to attempts at the first."""
        return self._given(self._sweep[0] if self._pace.attempts is None else self._sweep.pop(0))

    @property
    def shuffled(self) -> list[str]:
        """The order of a sweep: random if `pace` shuffles, but preferred ones first and what failed last."""
        order = self.addresses
        if self._pace.shuffle:
            self._chance.shuffle(order)
        last = self._failed if self._pace.failed_last else ""
        order.sort(key=lambda address: (address == last, address not in self._preferred))
        return order

    def _given(self, address: str) -> str:
        self._tried.add(address)
        return address

    def connected(self) -> None:
        """The address given last works."""
        self._failed = ""
        self._sweep = []
        self._first = []
        self._tried.clear()
        self.sweeps = 0
        self.extensible = False
        self._delay_s = min(self._pace.first_delay_s, self._pace.max_delay_s)
        self._sweeps_left = self._pace.sweeps

    def change_pace(self, pace: Pace) -> None:
        """Go on with another pace. Assumes a connection."""
        self._pace = pace
        self._sweeps_left = pace.sweeps

    def lost(self, address: str) -> None:
        """A connection to `address` worked and broke: it is tried again, but last."""
        self._failed = address
        self._sweep = []

    def learn(self, addresses: Iterable[str]) -> bool:
        """The broker's list replaces the one it gave before; an empty list changes nothing.

        Addresses that are none are left out with a warning, and further ones of a host that has some of the
        client's own protocols. Returns true if the set of addresses has changed.
        """
        if self._fixed:
            return False
        listed = self._usable(addresses)
        usable = self._of_same_protocols(listed)
        if not usable:
            return False
        self.listed = listed
        changed = set(usable) != set(self._learned)
        self._learned = usable
        if self._failed in usable:
            self._failed = ""
        return changed

    def redirect(self, address: str) -> bool:
        """A broker has named the one that serves: it is tried next. Returns false if it is ignored."""
        if not self._redirects or (self._fixed and address not in self._configured):
            return False
        if address in self._tried or not self._usable([address]):
            return False  # a broker that sends us in circles does so once
        self._first.append(address)
        if address not in self._learned:
            self._learned.append(address)
        self._sweep = [other for other in self._sweep if other != address]
        return True

    def accepts(self, address: str) -> bool:
        """True if a broker may send the client to `address`."""
        return not self._fixed and bool(self._usable([address]))

    def configure(self, *addresses: str) -> None:
        """Forget the configured addresses for these."""
        self._configured = list(addresses)

    def extend(self, addresses: Iterable[str], *, afresh: bool = False) -> None:
        """Append addresses to this sweep, which has failed; `afresh` lets the delay begin again."""
        self.extensible = False
        self._sweep += [address for address in self._usable(addresses) if address not in self._tried]
        if afresh:
            self._delay_s = min(self._pace.first_delay_s, self._pace.max_delay_s)

    def _of_same_protocols(self, addresses: list[str]) -> list[str]:
        """Those of the protocols that were configured; all of a host that has none of these. Otherwise a host
        that does not answer would be waited for once for each protocol."""
        own = {_protocol(address) for address in self._configured}
        hosts = {_host(address) for address in addresses if _protocol(address) in own}
        return [one for one in addresses if _protocol(one) in own or _host(one) not in hosts]

    def _usable(self, addresses: Iterable[str]) -> list[str]:
        """Those that a client can connect to; the others are logged."""
        usable: dict[str, None] = {}
        for address in filter(None, map(str.strip, addresses)):
            try:
                check_listed(address)
                if self._encrypted and not is_encrypted(address):
                    raise ValueError(f"{address}: not encrypted, as all configured addresses are")
            except ValueError as error:
                log.warning("an address of a broker's list is left out: %.200s", error)
                continue
            usable[address] = None
            if len(usable) == MAX_LEARNED:
                log.warning("a broker's list is longer than %d addresses; the rest is left out", MAX_LEARNED)
                break
        return list(usable)


def _protocol(address: str) -> str:
    return address.partition("://")[0]


def _host(address: str) -> str | None:
    return urlsplit(address).hostname
