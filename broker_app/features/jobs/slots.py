"""Slots: a fair choice of the open jobs that run at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import NamedTuple

#: jobs that run at the same time; one slot is kept free for administrators
MAX_WORKING = 4
MAX_WORKING_OF_USERS = MAX_WORKING - 1


class _Waiting(NamedTuple):
    user: str
    admin: bool
    turn: asyncio.Future[None]


class Slots:
    """Administrators come first and may have all slots; any other user has at most one of those not reserved
    for administrators. Among equals, the first one comes first."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._working: Counter[str] = Counter()
        self._admins = 0

    @contextlib.asynccontextmanager
    async def turn(self, user: str, *, admin: bool) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the length of the `with` block."""
        one = _Waiting(user, admin, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        self._fill()
        try:
            await one.turn
            yield
        finally:
            if one in self._waiting:
                self._waiting.remove(one)
            else:
                self._count(one, -1)
                self._fill()

    def _fill(self) -> None:
        for one in sorted(self._waiting, key=lambda waiting: not waiting.admin):
            if self._has_slot(one):
                self._waiting.remove(one)
                self._count(one, 1)
                one.turn.set_result(None)

    def _has_slot(self, one: _Waiting) -> bool:
        users = self._working.total()
        if users + self._admins >= MAX_WORKING:
            return False
        return one.admin or (users < MAX_WORKING_OF_USERS and not self._working[one.user])

    def _count(self, one: _Waiting, change: int) -> None:
        if one.admin:
            self._admins += change
        else:
            self._working[one.user] += change
            self._working += Counter()  # drops what is zero
