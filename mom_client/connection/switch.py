"""Changing to another broker while the present connection works."""

import asyncio
import logging

from ..activity import Activity
from ..errors import ConnectionLost
from .held import HeldLink
from .keeper import ConnectionKeeper
from .link import Link
from .search import ATTEMPT_ERRORS, BrokerSearch

__all__ = ["Switch"]

log = logging.getLogger("mom_client")


class Switch:
    """Opens the new connection first, and goes over when no transaction and no request is open."""

    def __init__(self, search: BrokerSearch, keeper: ConnectionKeeper, activity: Activity) -> None:
        self._search = search
        self._keeper = keeper
        self._activity = activity
        self._one_at_a_time = asyncio.Lock()

    @property
    def current(self) -> str:
        """The address of the connection in use."""
        return self._keeper.address

    async def to(self, address: str, reason: str, timeout_s: float | None = None) -> bool:
        """Go to `address`, which has to answer within `timeout_s`.

        Returns false if it cannot be reached, or the connection was lost meanwhile.
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
            link = await self._when_quiet(held)
            if link is None:
                return False
            try:
                self._keeper.live(epoch)
            except ConnectionLost:
                await link.close()
                return False
            await self._keeper.hand_over(link, reason)
            return True

    async def _when_quiet(self, held: HeldLink) -> Link | None:
        """The link, when nothing is open that a change would break; None if it has ended meanwhile."""
        try:
            while True:
                await self._activity.quiet()
                link = await held.release()
                if link is None or not self._activity.count:
                    return link
                held = HeldLink(link)
        except asyncio.CancelledError:
            await held.close()
            raise
