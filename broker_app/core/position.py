"""Positions in the journal as clients name them: `<tag>-<seq>`, or the number alone."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker_app.core.topics.replay import FIRST, SEQ
from broker_app.core.turn import Turn

#: a position behind which only what comes from now on is
FROM_NOW: Final = 2**62
#: most digits of a position
_DIGITS: Final = 18


class Position(NamedTuple):
    """A position that a client names, with the tag of the journal that gave it where that is known."""

    seq: int
    journal: str = ""

    def __str__(self) -> str:
        return f"{self.journal}-{self.seq}"

    @classmethod
    def read(cls, text: str) -> Position | None:
        """The position of a text: `<tag>-<seq>`, or a number as earlier brokers gave it; None for others."""
        journal, dash, seq = text.rpartition("-")
        if not (seq.isascii() and seq.isdigit()) or len(seq) > _DIGITS or (dash and not journal):
            return None
        return cls(int(seq), journal)

    @classmethod
    def of(cls, given: int | str) -> Position | None:
        """The position that a client names as a number, or as a text; None for what is none."""
        return cls(given) if isinstance(given, int) else cls.read(given)

    def was_given(self, turn: Turn) -> bool:
        """Return whether the journal of a broker can have given the position. One without a tag is taken as
        its own unless it is too high."""
        return self.is_of(turn) and (self.seq < turn.next_position or self.seq == FROM_NOW)

    def is_of(self, turn: Turn) -> bool:
        """Return whether the position has the tag of the journal of a broker, or none."""
        return self.journal in ("", turn.ids.journal)


BEGINNING: Final = Position(0)
#: what no journal has given
UNKNOWN: Final = Position(10**_DIGITS - 1)


def known_start(text: str, turn: Turn) -> tuple[str, bool]:
    """Return the start of a replay without the tag of its position, and whether this journal never gave that:
    the replay begins with the oldest message then. A number alone is left as it is."""
    position = Position.read(text.removeprefix(f"{SEQ}:")) if text.startswith(f"{SEQ}:") else None
    if position is None or not position.journal:
        return text, False
    # Who has read the newest message continues at the next one.
    if not position.is_of(turn) or position.seq > turn.next_position:
        return FIRST, True
    return f"{SEQ}:{position.seq}", False
