"""Parts that are written together, and parts that are written alone."""

from __future__ import annotations

from mom_client.stomp.writes import ALONE, in_writes


def test_short_parts_are_joined_and_large_ones_are_not_copied() -> None:
    large = bytes(ALONE + 1)
    found = list(in_writes([b"a", b"b", large, large, b"", b"c", b"d"]))
    assert found == [b"ab", large, large, b"cd"]
    assert found[1] is large and found[2] is large


def test_one_part_is_not_copied_and_none_is_nothing() -> None:
    frame = b"x" * 100
    (found,) = in_writes([frame])
    assert found is frame
    assert list(in_writes([])) == []
