"""The pace at which a client looks for a broker."""

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Pace"]

_LEAST_GROWTH_S = 0.01


@dataclass(frozen=True, slots=True)
class Pace:
    """The order of attempts to reconnect, and the delays between them."""

    first_delay_s: float = 0.1  #: before the first attempt after a working connection was lost
    max_delay_s: float = 10.0
    factor: float = 2.0  #: each sweep waits this much longer
    jitter: float = 0.2  #: delays vary by this share, so that clients do not come back in step
    startup_sweeps: int | None = 1  #: attempts with the whole list until the first success; None: forever
    sweeps: int | None = None  #: the same after a lost connection
    shuffle: bool = False  #: try the list in random order
    failed_last: bool = True  #: try the address of the connection that was lost last
    attempts: int | None = 1  #: attempts at an address before the next one; None: forever at the first
    pause_s: float = 0.0  #: between two attempts, at least

    def delays(self) -> Iterator[float]:
        """The delays between sweeps, without end."""
        delay = min(self.first_delay_s, self.max_delay_s)
        while True:
            yield delay
            delay = self.longer(delay)

    def longer(self, delay_s: float) -> float:
        """The delay after one of `delay_s`."""
        grown = delay_s * self.factor or max(self.first_delay_s, _LEAST_GROWTH_S)
        return min(grown, self.max_delay_s)
