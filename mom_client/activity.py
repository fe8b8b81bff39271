"""The acts that a change of the connection would break: open transactions, and requests without a reply."""

import asyncio

__all__ = ["Activity"]


class Activity:
    """A count of such acts: ``with activity`` around each, or `begin` and `end`."""

    def __init__(self) -> None:
        self.count = 0
        self._none = asyncio.Event()
        self._none.set()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *exception: object) -> None:
        self.end()

    def begin(self) -> None:
        """Count one more."""
        self.count += 1
        self._none.clear()

    def end(self) -> None:
        """Count one less."""
        self.count -= 1
        if not self.count:
            self._none.set()

    async def quiet(self) -> None:
        """Wait until there is none."""
        while self.count:
            await self._none.wait()
