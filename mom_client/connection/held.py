"""An open connection that is not used yet."""

import asyncio
import contextlib
from collections.abc import Callable

from ..errors import ClientError
from ..stomp import AckRun, Frame
from .link import Link

__all__ = ["HeldLink"]


class HeldLink:
    """Reads from a link, so that its heart-beats count; `ended` is called when it ends."""

    def __init__(self, link: Link, ended: Callable[[], None] = lambda: None) -> None:
        self._link = link
        self._ended = ended
        self._alive = True
        self._task = asyncio.create_task(self._read(), name="mom_client spare")

    @property
    def address(self) -> str:
        return self._link.address

    async def _read(self) -> None:
        def ignore(frames: list[Frame | AckRun]) -> None:
            """Nothing is asked of this broker yet."""

        with contextlib.suppress(ClientError):
            await self._link.run(ignore)
        self._alive = False
        await self._link.close()
        self._ended()

    async def release(self) -> Link | None:
        """The link, to be read by the caller from now on; None if it has ended."""
        if self._alive:  # otherwise it is closing the link
            self._task.cancel()
        await asyncio.wait([self._task])
        return self._link if self._alive else None

    async def close(self) -> None:
        """End the connection; being cancelled does not stop that."""
        self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        link = await self.release()
        if link is not None:
            await link.close()
