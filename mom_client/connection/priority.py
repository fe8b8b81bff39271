"""The return to a preferred broker (`priorityBackup`)."""

import asyncio
from collections.abc import Sequence

from .pace import Pace
from .switch import Switch

__all__ = ["PriorityMonitor"]

#: most that passes between two attempts, most that one may take, and for how long what was delivered may be
#: settled: it is back within five seconds
MAX_DELAY_S = 2.0
ATTEMPT_S = 2.0
SETTLE_S = 0.5


class PriorityMonitor:
    """Tries the `preferred` addresses while the client is connected to another, and returns to the first that
    answers."""

    def __init__(self, switch: Switch, preferred: Sequence[str], pace: Pace) -> None:
        self.preferred = preferred
        self._switch = switch
        self._pace = pace
        self._task: asyncio.Task[None] | None = None

    def connected(self, address: str) -> None:
        """A connection to `address` is in use."""
        if self._task is None and address not in self.preferred:
            self._task = asyncio.create_task(self._watch(), name="mom_client priority")

    def close(self) -> None:
        """Stop trying."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        for delay_s in self._pace.delays():
            await asyncio.sleep(min(delay_s, MAX_DELAY_S))
            for address in self.preferred:
                if self._switch.current in self.preferred:
                    self._task = None
                    return
                reason = f"returning to {address}, which is preferred"
                await self._switch.to(address, reason, timeout_s=ATTEMPT_S, settle_s=SETTLE_S)
