"""Finding the frames of a segment file, where they end, and whether that end is honest."""

from dataclasses import dataclass

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged


@dataclass(frozen=True, slots=True)
class Scan:
    """The content of a segment file: whole frames with their offsets, up to byte `end`.

    `torn`: something of a frame begins at `end`; `later` is the offset of the first whole
    frame behind `end`, which proves that `end` is damage and not the end of the log.
    """

    frames: list[tuple[int, codec.Frame]]
    end: int
    torn: bool
    later: tuple[int, codec.Frame] | None


def scan(content: bytes, segment_id: int, at: int = codec.SEGMENT_HEADER_BYTES) -> Scan:
    """Check every frame of this use of the file, from byte `at`. Raises JournalDamaged for a newer format."""
    frames = []
    while (frame := _whole_frame(content, at, segment_id)) is not None:
        frames.append((at, frame))
        at += frame.length
    return Scan(frames, at, codec.begins_frame(content, at, segment_id), _search(content, at + 1, segment_id))


def _whole_frame(content: bytes, at: int, segment_id: int) -> codec.Frame | None:
    frame = codec.decode_frame(content, at)
    if frame is None or frame.segment_id != segment_id or not codec.is_whole(content, at, frame):
        return None
    if frame.version != codec.FORMAT:
        raise JournalDamaged(f"format {frame.version} at offset {at} is not known to this version of MOM")
    return frame


def _search(content: bytes, at: int, segment_id: int) -> tuple[int, codec.Frame] | None:
    # Clients choose the bytes of records, but do not know the segment id.
    while (at := content.find(codec.MAGIC, at)) >= 0:
        frame = _whole_frame(content, at, segment_id)
        if frame is not None:
            return at, frame
        at += 1
    return None
