"""The content of a message or of an answer: parts, one behind the other in the body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker_app.base.refused import Refused
from broker_app.features.channels.statuses import OK
from mom_client.channel_parts import MAX_PARTS, parts_of

#: characters of the longest list of their lengths
_MOST_CHARACTERS: Final = 12 * MAX_PARTS


class ChannelContent(NamedTuple):
    """A body, and the lengths of its parts as the header `parts` has them; None is one part."""

    body: bytes
    lengths: str | None = None

    @property
    def number(self) -> int:
        """The number of parts."""
        if self.lengths is None:
            return 1
        return self.lengths.count(",") + 1 if self.lengths else 0

    def parts(self) -> list[bytes]:
        """The parts, in order."""
        return parts_of(self.body, self.lengths)


class CallOutcome(NamedTuple):
    """The outcome of a request: a status, and either the answer or the reason why there is none."""

    status: str = OK
    content: ChannelContent = ChannelContent(b"")
    reason: str = ""


def checked(body: bytes, lengths: str | None) -> ChannelContent:
    """The content of a frame. Raises Refused if the lengths are not those of the body."""
    if lengths is None:
        return ChannelContent(body)
    if len(lengths) > _MOST_CHARACTERS or lengths.count(",") >= MAX_PARTS:
        raise Refused("invalid", f"header parts: a message has at most {MAX_PARTS:,} parts")
    try:
        total = sum(map(_length, lengths.split(","))) if lengths else 0
    except ValueError:
        raise Refused(
            "invalid",
            f"header parts is {lengths[:40]!r}; it must be the lengths of the parts, such as 3,0,5",
        ) from None
    if total != len(body):
        raise Refused("invalid", f"header parts: the parts have {total} bytes together, the body {len(body)}")
    return ChannelContent(body, lengths)


def joined(parts: Sequence[bytes]) -> ChannelContent:
    """The content that has these parts. Raises Refused if they are too many."""
    if len(parts) > MAX_PARTS:
        raise Refused("invalid", f"a message has at most {MAX_PARTS:,} parts, not {len(parts):,}")
    return ChannelContent(b"".join(parts), ",".join(str(len(part)) for part in parts))


def _length(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)
