"""The byte layouts come back as they went in, and nonsense is recognized."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_app.journal import codec


def frame_of(parts: list[bytes], destinations: list[str], **changes: int) -> bytes:
    numbers = {"segment_id": 7, "epoch": 3, "first_position": 11, "time_us": 99} | changes
    table = codec.encode_table(destinations)
    fields: dict[str, Any] = {"table": table, "count": len(parts), "parts": parts, **numbers}
    return b"".join(codec.encode_frame(**fields))


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=200))))
def test_records_are_walked_as_they_were_joined(records: list[tuple[int, bytes]]) -> None:
    encoded = [codec.encode_record(kind, rest) for kind, rest in records]
    walked = list(codec.iterate_records(b"".join(encoded)))
    assert walked == [(kind, record) for (kind, _), record in zip(records, encoded, strict=True)]


@pytest.mark.parametrize("records", [b"\0", b"\4\0\0\0\1", b"\6\0\0\0\1", b"\0\0\0\0\1", bytes(3)])
def test_records_that_make_no_sense_are_refused(records: bytes) -> None:
    with pytest.raises(ValueError, match="record"):
        codec.record_starts(records, 0, len(records))


@given(st.lists(st.text(max_size=50), max_size=20))
def test_a_destination_table_comes_back(destinations: list[str]) -> None:
    assert codec.decode_table(codec.encode_table(destinations)) == destinations


def test_a_destination_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="65536 bytes"):
        codec.encode_table(["x" * 65_536])


@given(st.lists(st.binary(max_size=50)), st.lists(st.text(max_size=9)), st.integers(0, 2**64 - 1))
def test_a_frame_comes_back(parts: list[bytes], destinations: list[str], number: int) -> None:
    content = b"before" + frame_of(parts, destinations, segment_id=number, time_us=number)
    frame = codec.decode_frame(content, 6)
    assert frame is not None
    assert codec.is_whole(content, 6, frame)
    assert (frame.version, frame.flags, frame.segment_id, frame.time_us) == (1, 0, number, number)
    assert (frame.first_position, frame.count, frame.next_position) == (11, len(parts), 11 + len(parts))
    assert content[6 + frame.records_at :] == b"".join(parts)


def test_every_flipped_bit_of_a_frame_is_noticed() -> None:
    good = frame_of([b"abc", b"defg"], ["/queue/a"])
    for at in range(len(good) * 8):
        content = bytearray(good)
        content[at // 8] ^= 1 << at % 8
        frame = codec.decode_frame(bytes(content), 0)
        assert frame is None or not codec.is_whole(bytes(content), 0, frame)


def test_a_frame_has_its_layout_of_old() -> None:
    assert frame_of([b"abc"], ["/q"]).hex() == (
        "4d4f4d4247000000d72d2570010000000000000007000000000000000300000000000000"
        "0b00000000000000630000000000000001000000080000000100000002002f71616263"
    )  # fmt: skip


def test_a_segment_header_comes_back_and_a_damaged_one_does_not() -> None:
    header = codec.SegmentHeader(codec.CARRY, 1, 2, 3, 4)
    encoded = codec.encode_segment_header(header)
    assert len(encoded) == codec.SEGMENT_HEADER_BYTES
    assert codec.decode_segment_header(encoded) == header
    assert codec.decode_segment_header(encoded[:30]) is None
    for at in range(52):
        assert (
            codec.decode_segment_header(encoded[:at] + bytes([encoded[at] ^ 1]) + encoded[at + 1 :]) is None
        )


@given(st.lists(st.integers(0, 2**64 - 1), max_size=5), st.binary())
def test_a_sealed_file_is_valid_only_whole(numbers: list[int], content: bytes) -> None:
    sealed = codec.seal(b"8 bytes!", numbers, [content[:1], content[1:]]) + content
    assert codec.unseal(b"8 bytes!", len(numbers), sealed) == (numbers, content)
    assert codec.unseal(b"9 bytes!", len(numbers), sealed) is None
    assert codec.unseal(b"8 bytes!", len(numbers), sealed[:-1]) is None
    assert codec.unseal(b"8 bytes!", len(numbers), sealed + b"\0") is None
