"""Changing to another broker while the present connection works."""

import asyncio
import logging
from typing import Protocol

from ..activity import Activity
from ..errors import ClientError, ConnectionLost
from .held import HeldLink
from .keeper import ConnectionKeeper
from .link import Link
from .search import ATTEMPT_ERRORS, BrokerSearch

__all__ = ["Switch"]

log = logging.getLogger("mom_client")

#: seconds for which nothing new is delivered, so that the application settles what it has
SETTLE_S = 5.0


class Deliveries(Protocol):
    """The deliveries to this client."""

    async def hold(self) -> None:
        """Have nothing new delivered. Raises Refused or ConnectionLost."""

    def resume(self) -> None:
        """Have messages delivered again over the same connection."""

    @property
    def are_settled(self) -> bool:
        """True if none has to be settled."""

    async def wait_settled(self) -> None:
        """Wait until all are settled."""


class Switch:
    """Opens the new connection first, and goes over when no transaction, no request and no delivery is
    open."""

    def __init__(
        self, search: BrokerSearch, keeper: ConnectionKeeper, activity: Activity, deliveries: Deliveries
    ) -> None:
        self._search = search
        self._keeper = keeper
        self._activity = activity
        self._deliveries = deliveries
        self._one_at_a_time = asyncio.Lock()

    @property
    def current(self) -> str:
        """The address of the connection in use."""
        return self._keeper.address

    async def to(
        self,
        address: str,
        reason: str,
        timeout_s: float | None = None,
        *,
        settle_s: float = SETTLE_S,
        must_settle: bool = False,
    ) -> bool:
        """Go to `address`, which has to answer within `timeout_s`. What was delivered may be settled for
        `settle_s` before: what is left then comes again, unless the client stays for it (`must_settle`).

        Returns false if it stays, `address` cannot be reached, or the connection was lost meanwhile.
        """
        async with self._one_at_a_time:
            if not self._keeper.connected:
                return False
            if self._keeper.address == address:
                return True
            epoch = self._keeper.epoch
            try:
                async with asyncio.timeout(timeout_s):
                    held = HeldLink(await self._search.open(address))
            except ATTEMPT_ERRORS as error:
                log.debug("%s: %s", address, error)
                return False
            link = await self._when_quiet(held, settle_s, must_settle=must_settle)
            if link is None:
                self._deliveries.resume()
                return False
            try:
                self._keeper.live(epoch)
            except ConnectionLost:
                await link.close()
                return False
            await self._keeper.hand_over(link, reason)
            return True

    async def _when_quiet(self, held: HeldLink, settle_s: float, *, must_settle: bool) -> Link | None:
        """The link, when nothing is open that a change would break; None if it has ended meanwhile, or the
        client is to stay."""
        try:
            while True:
                await self._activity.quiet()
                if not await self._settle(settle_s) and must_settle:
                    await held.close()
                    return None
                link = await held.release()
                if link is None or not self._activity.count:
                    return link
                held = HeldLink(link)
                self._deliveries.resume()
        except asyncio.CancelledError:
            await held.close()
            raise

    async def _settle(self, within_s: float) -> bool:
        """Have nothing new delivered, and return whether all that was is settled in time."""
        try:
            async with asyncio.timeout(within_s):
                await self._deliveries.hold()
                while not self._deliveries.are_settled or self._activity.count:
                    await self._deliveries.wait_settled()
                    await self._activity.quiet()
        except (TimeoutError, ClientError) as error:
            log.debug("deliveries are not settled: %s", error)
            return False
        return True
