"""Resource alarms: the broker as a whole accepts no messages, while consumers continue."""

from __future__ import annotations

from typing import NamedTuple

from broker_app.base.refused import Refused

#: memory levels: green is normal, yellow is a warning, at orange messages are blocked, at red refused
GREEN, YELLOW, ORANGE, RED = MEMORY_LEVELS = ("green", "yellow", "orange", "red")
#: where each level begins, in percent
_BEGINS = ((RED, 98), (ORANGE, 90), (YELLOW, 80))

#: exempt addresses: system topics, and replies, because their receivers may be what makes room
EXEMPT = ("/topic/$", "/temp-queue/", "/temp-topic/")


class ResourceAlarm(NamedTuple):
    """The reason why no messages are accepted. With `waits` they are blocked before they are refused;
    addresses that begin with one of `exempt` are not affected."""

    code: str
    detail: str
    waits: bool
    exempt: tuple[str, ...] = EXEMPT

    @property
    def refusal(self) -> Refused:
        """A new exception each time: one that is raised again would keep its former traceback."""
        return Refused(self.code, self.detail)


STORE_FULL = ResourceAlarm(
    "store-full",
    "the broker has no disk space left to store messages; it accepts messages again when there is space",
    waits=True,
)
BROKER_FULL = ResourceAlarm(
    "queue-full",
    "the broker has reached its limit of messages or bytes in all queues together; consume or purge some",
    waits=True,
)
MEMORY_ORANGE = ResourceAlarm(
    "busy",
    "transient messages have nearly reached the memory limit; send them again later",
    waits=True,
    exempt=("/topic/$",),
)
MEMORY_RED = ResourceAlarm(
    "busy",
    "transient messages have reached the memory limit; send them again later",
    waits=False,
    exempt=("/topic/$",),
)


def memory_level(used: int, most: int) -> str:
    """The level of `used` bytes (less than none is none) of `most`."""
    if used <= 0:  # nearly always
        return GREEN
    percent = 100 * used // most
    return next((level for level, begins in _BEGINS if percent >= begins), GREEN)
