"""Changing to another broker while the present connection works."""

import asyncio
import logging

from .activity import Activity
from .errors import ConnectionLost
from .held import HeldLink
from .keeper import ConnectionKeeper
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
            while True:
                try:
                    await self._activity.quiet()
                except asyncio.CancelledError:
                    await held.close()
                    raise
                link = await held.release()
                if link is None:
                    return False
                if not self._activity.count:
                    break
                held = HeldLink(link)
            try:
                self._keeper.live(epoch)
            except ConnectionLost:
                await link.close()
                return False
            await self._keeper.hand_over(link, reason)
            return True
