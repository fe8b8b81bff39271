"""States in which the broker as a whole takes no more messages, while consumers go on."""

from __future__ import annotations

from typing import NamedTuple

from broker_app.core.errors import Refused

#: how full memory is, as in the field: nothing to do, soon full, messages wait, messages are refused
GREEN, YELLOW, ORANGE, RED = MEMORY_LEVELS = ("green", "yellow", "orange", "red")
#: where each level begins, per cent
_BEGINS = ((RED, 98), (ORANGE, 90), (YELLOW, 80))

#: what never waits: the broker's own topics, and answers, for which somebody waits who may make room
EXEMPT = ("/topic/$", "/temp-queue/", "/temp-topic/")


class ResourceAlarm(NamedTuple):
    """Why nothing comes in: `waits` is whether messages wait for better times before they are refused,
    `spares` are beginnings of addresses that are not concerned."""

    code: str
    detail: str
    waits: bool
    exempt: tuple[str, ...] = EXEMPT

    @property
    def refusal(self) -> Refused:
        """A new one each time: an exception that is raised again keeps all that it ever passed through."""
        return Refused(self.code, self.detail)


STORE_FULL = ResourceAlarm(
    "store-full",
    "the broker has no space left to store messages; it takes some again when there is",
    waits=True,
)
BROKER_FULL = ResourceAlarm(
    "queue-full", "the broker holds as many messages or bytes as it may, in all queues together", waits=True
)
MEMORY_ORANGE = ResourceAlarm(
    "busy", "messages that live in memory have nearly filled it", waits=True, exempt=("/topic/$",)
)
MEMORY_RED = ResourceAlarm(
    "busy", "messages that live in memory have filled it", waits=False, exempt=("/topic/$",)
)


def memory_level(used: int, most: int) -> str:
    """The level of `used` bytes (less than none is none) of `most`."""
    if used <= 0:  # nearly always
        return GREEN
    percent = 100 * used // most
    return next((level for level, begins in _BEGINS if percent >= begins), GREEN)
