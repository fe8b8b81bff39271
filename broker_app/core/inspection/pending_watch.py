"""Watches of what waits in a queue: numbers and ids of messages that began to wait, until they are taken."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

from broker_app.core.inspection.tap import Taps
from broker_app.core.message import Message, MessageIds


class Arrivals(NamedTuple):
    """Messages that began to wait, new ones and those that came back, in that order.

    `seqs` are their positions, `ids` their ids. `more` is True when there were others, which are not
    listed."""

    seqs: list[int]
    ids: list[str]
    more: bool


class PendingWatch:
    """A tap of the queue `address`, from `open` to `close`: notes up to `most` messages, 16 bytes each, and
    whether there were more. `notify` is called for the first one since `take`.

    Once there were more it is no tap until `take`: a reader that is slow, or has stopped to read, costs
    publishers nothing."""

    __slots__ = (
        "_address",
        "_explicit_ids",
        "_ids",
        "_is_open",
        "_more",
        "_most",
        "_notify",
        "_seqs",
        "_taps",
        "_times",
    )

    def __init__(
        self, taps: Taps, address: str, ids: MessageIds, most: int, notify: Callable[[], None]
    ) -> None:
        self._taps = taps
        self._address = address
        self._ids = ids
        self._most = most
        self._notify = notify
        self._is_open = False
        self._begin()

    def _begin(self) -> None:
        self._seqs: array[int] = array("Q")
        self._times: array[int] = array("Q")
        #: ids that do not follow from time and position, by position
        self._explicit_ids: dict[int, bytes] = {}
        self._more = False

    def open(self) -> None:
        """Begin to note messages."""
        self._is_open = True
        self._taps.add(self._address, self)

    def close(self) -> None:
        """Note no more messages."""
        self._is_open = False
        self._taps.remove(self._address, self)
        self._notify = _nothing

    def note(self, message: Message) -> bool:
        """Note a message that began to wait; True if nothing more is noted until `take`."""
        if len(self._seqs) >= self._most:
            self._more = True
            return True
        self._seqs.append(message.position)
        self._times.append(message.time_ms)
        if message.explicit_id:
            self._explicit_ids[message.position] = message.explicit_id
        if len(self._seqs) == 1:
            self._notify()
        return False

    #: a message that waits again was returned by its consumer, or its lease ended
    note_returned = note

    def take(self) -> Arrivals:
        """The messages since the last call."""
        seqs, times, explicit = self._seqs, self._times, self._explicit_ids
        prefix = self._ids.prefix
        ids = [
            (explicit.get(seq) or b"%b%012x" % (prefix(time_ms), seq)).decode()
            for seq, time_ms in zip(seqs, times, strict=True)
        ]
        arrivals = Arrivals(list(seqs), ids, self._more)
        self._begin()
        if arrivals.more and self._is_open:  # its reader may have left since it asked
            self.open()
        return arrivals


def _nothing() -> None:
    """Do nothing: the watch has ended, and does not refer to its reader any more."""
