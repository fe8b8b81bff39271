"""Spare connections (`backup`)."""

import asyncio
import contextlib

from .held import HeldLink
from .link import Link
from .pace import Pace
from .search import ATTEMPT_ERRORS, BrokerSearch

__all__ = ["BackupPool"]


class BackupPool:
    """Holds `size` open, logged-in connections to other brokers of the list while there is a connection.

    A broker that cannot be reached is tried again with the delays of `pace`.
    """

    def __init__(self, search: BrokerSearch, size: int, pace: Pace) -> None:
        self._search = search
        self._size = size
        self._pace = pace
        self._current = ""  # the address of the connection in use
        self._spares: dict[str, HeldLink] = {}  # by address
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def addresses(self) -> list[str]:
        """The brokers to which there is a spare connection."""
        return list(self._spares)

    def connected(self, address: str) -> None:
        """A connection to `address` is in use: hold others."""
        self._current = address
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._fill(), name="mom_client backup")

    def list_changed(self) -> None:
        """The list of brokers is another."""
        self._changed.set()

    async def take(self, wanted: str) -> Link | None:
        """A spare connection, to the address that is `wanted` if one is; None if there is none."""
        await self._stop_filling()
        for address in list(self._spares):
            if not wanted or address == wanted:
                link = await self._spares.pop(address).release()
                if link is not None:
                    return link
        return None

    async def close(self) -> None:
        """End them all."""
        await self._stop_filling()
        spares, self._spares = self._spares, {}
        for spare in spares.values():
            await spare.close()

    async def _stop_filling(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _fill(self) -> None:
        delays = self._pace.delays()
        while True:
            self._changed.clear()
            await self._drop_others()
            missing = await self._open_missing()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(next(delays) if missing else None):
                    await self._changed.wait()
                    delays = self._pace.delays()

    async def _drop_others(self) -> None:
        """A spare connection to the broker in use is none, nor one to a broker that is no longer listed."""
        listed = set(self._search.failover.addresses) - {self._current}
        for address in self._spares.keys() - listed:
            spare = self._spares.pop(address, None)
            if spare is not None:
                await spare.close()

    async def _open_missing(self) -> bool:
        """Open what the pool lacks. Returns true if a broker could not be reached that is needed."""
        others = [address for address in self._search.failover.addresses if address != self._current]
        for address in others:
            if len(self._spares) >= self._size:
                return False
            if address not in self._spares:
                with contextlib.suppress(*ATTEMPT_ERRORS):
                    self._hold(await self._search.open(address))
        return len(self._spares) < min(self._size, len(others))

    def _hold(self, link: Link) -> None:
        def ended() -> None:
            if self._spares.get(link.address) is held:
                del self._spares[link.address]
                self._changed.set()

        held = self._spares[link.address] = HeldLink(link, ended)
