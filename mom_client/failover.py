"""The next address to try: an iterator of (address, delay in seconds).

The list is tried in sweeps. The broker's own list (`learn`) comes first, then the configured addresses,
which are never forgotten; the address that failed last comes last. Between sweeps the delay grows.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .transport import check_address

__all__ = ["Failover", "Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """The delays between attempts to reconnect."""

    first_delay_s: float = 0.1  #: before the first attempt after a working connection was lost
    max_delay_s: float = 10.0
    factor: float = 2.0  #: each sweep waits this much longer
    jitter: float = 0.2  #: delays vary by this share, so that clients do not come back in step
    startup_sweeps: int | None = 1  #: attempts with the whole list until the first success; None: forever
    sweeps: int | None = None  #: the same after a lost connection
    shuffle: bool = False  #: try the list in random order


class Failover(Iterator[tuple[str, float]]):
    """Ends (StopIteration) when the sweeps that `pace` allows are used up."""

    def __init__(
        self, addresses: Sequence[str], pace: Pace = Pace(), chance: random.Random | None = None
    ) -> None:
        if not addresses:
            raise ValueError("at least one address is needed")
        self._configured = [check_address(address) for address in addresses]
        self._learned: list[str] = []
        self._pace = pace
        self._chance = chance or random.Random()
        self._failed = ""
        self._delay_s = 0.0
        self._sweeps_left = pace.startup_sweeps
        self._sweep: list[str] = []

    @property
    def addresses(self) -> list[str]:
        """All known addresses, in the order of the next sweep but for chance."""
        known = list(dict.fromkeys(self._learned + self._configured))
        if self._failed in known:
            known.remove(self._failed)
            known.append(self._failed)
        return known

    def __next__(self) -> tuple[str, float]:
        if self._sweep:
            return self._sweep.pop(0), 0.0
        if self._sweeps_left == 0:
            raise StopIteration
        if self._sweeps_left is not None:
            self._sweeps_left -= 1
        self._sweep = self.addresses
        if self._pace.shuffle:
            self._chance.shuffle(self._sweep)
            self._sweep.sort(key=lambda address: address == self._failed)
        delay = self._delay_s * (1 + self._chance.uniform(-self._pace.jitter, self._pace.jitter))
        grown = self._delay_s * self._pace.factor or self._pace.first_delay_s
        self._delay_s = min(grown, self._pace.max_delay_s)
        return self._sweep.pop(0), delay

    def connected(self) -> None:
        """The address given last works."""
        self._failed = ""
        self._sweep = []
        self._delay_s = self._pace.first_delay_s
        self._sweeps_left = self._pace.sweeps

    def lost(self, address: str) -> None:
        """A connection to `address` worked and broke: it is tried again, but last."""
        self._failed = address
        self._sweep = []

    def learn(self, addresses: Sequence[str]) -> None:
        """The broker's list replaces the one it gave before; an empty list changes nothing.

        Addresses that are none are left out.
        """
        usable = []
        for address in addresses:
            try:
                usable.append(check_address(address.strip()))
            except ValueError:
                continue
        if usable:
            self._learned = usable
            if self._failed in usable:
                self._failed = ""
