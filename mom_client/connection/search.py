"""The search for a broker that accepts the client."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import ClientError, ConnectionLost, Refused
from ..stomp import Limits
from ..stomp.connection import Connection
from .failover import Failover
from .link import Link, Opener
from .updates import UpdateSource

__all__ = ["ATTEMPT_ERRORS", "BrokerSearch", "Timing"]

log = logging.getLogger("mom_client")

#: What an attempt to connect may raise: also TimeoutError, an OSError; a ValueError for no host name.
ATTEMPT_ERRORS = (OSError, ClientError, ValueError)
#: Refusals of a login that no other attempt will change.
_FINAL = frozenset(("not-authenticated", "not-allowed", "wrong-host", "unsupported-version"))


@dataclass(frozen=True)
class Timing:
    """Time limits of a client, in seconds, and whether it reconnects."""

    heart_beat_s: float
    connect_timeout_s: float
    resend_s: float | None  #: how long sends wait for a connection; None: for ever
    reconnect: bool
    wait_s: float | None = None  #: the same of all else


class BrokerSearch:
    """Opens links: to one address, or to the first of the list that accepts the login.

    `hello` returns the headers of CONNECT for an address. `failed` is called with the address and the reason
    of each attempt of a search that fails.
    """

    def __init__(
        self,
        failover: Failover,
        opener: Opener,
        hello: Callable[[str], Mapping[str, str]],
        timing: Timing,
        limits: Limits,
        *,
        updates: UpdateSource | None = None,
        warn_every: int = 0,
    ) -> None:
        self.failover = failover
        self.failed: Callable[[str, str], None] = lambda address, reason: None
        self._opener = opener
        self._hello = hello
        self._timing = timing
        self._limits = limits
        self._updates = updates
        self._warn_every = warn_every

    async def open(self, address: str) -> Link:
        """Connect to one address and log in. Raises one of `ATTEMPT_ERRORS`."""
        beats = (self._timing.heart_beat_s,) * 2
        connection = Connection(heart_beat_s=beats, limits=self._limits)
        async with asyncio.timeout(self._timing.connect_timeout_s):
            return await Link.open(address, self._opener, connection, self._hello(address))

    def has_client_id(self, address: str) -> bool:
        """True if the client has a `client-id`, which another one may have too."""
        return "client-id" in self._hello(address)

    async def find(self) -> Link:
        """A connection to the first broker that accepts it. Raises ConnectionLost or a final Refused."""
        reasons: dict[str, str] = {}
        attempts = 0
        while True:
            await self._extend()
            sweeps = self.failover.sweeps
            step = next(self.failover, None)
            if step is None:
                raise self._exhausted(reasons, attempts)
            address, delay_s = step
            if self.failover.sweeps > sweeps:
                self._warn(sweeps, attempts, reasons)
            await asyncio.sleep(delay_s)
            attempts += 1
            try:
                return await self.open(address)
            except Refused as refused:
                if refused.code in _FINAL:
                    raise
                reasons[address] = str(refused)
                self.follow(refused, address)
            except TimeoutError:
                reasons[address] = f"no answer within {self._timing.connect_timeout_s:g} s"
            except ATTEMPT_ERRORS as error:
                reasons[address] = str(error) or type(error).__name__
            log.info("%s: %s", address, reasons[address])
            self.failed(address, reasons[address])

    def follow(self, refused: Refused, address: str) -> str:
        """Go to the broker that serves, if that at `address` has named it in its refusal.

        Returns the address, of the same protocol if there is one; empty if there is none to go to.
        """
        named = [part.strip() for part in refused.active.split(",") if part.strip()]
        scheme = address.partition(":")[0]
        named.sort(key=lambda other: other.partition(":")[0] != scheme)
        if not named or not self.failover.redirect(named[0]):
            return ""
        log.info("going to %s, which serves", named[0])
        return named[0]

    async def _extend(self) -> None:
        """Append the addresses of the update source, once all others have failed."""
        if self._updates is not None and self.failover.exhausted:
            addresses, changed = await self._updates.read()
            self.failover.extend(addresses, afresh=changed)

    def _warn(self, failed: int, attempts: int, reasons: Mapping[str, str]) -> None:
        every = self._warn_every
        if every > 0 and failed > 0 and (failed == 1 or failed % every == 0):
            log.warning("no broker answers after %s (%s)", _counted(failed, attempts), _listed(reasons))

    def _exhausted(self, reasons: Mapping[str, str], attempts: int) -> ConnectionLost:
        if not attempts:
            known = ", ".join(self.failover.addresses)
            return ConnectionLost(
                f"the connection was lost, and no attempt to reconnect is allowed ({known})"
            )
        counted = _counted(self.failover.sweeps, attempts)
        return ConnectionLost(f"no broker answers after {counted} ({_listed(reasons)})")


def _counted(sweeps: int, attempts: int) -> str:
    return f"{sweeps} sweep{'s' * (sweeps > 1)} of the list, {attempts} attempt{'s' * (attempts > 1)}"


def _listed(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
