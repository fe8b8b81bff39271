"""The change record simulated without sockets: a comparison costs what has changed, not what there is."""

from benchmarks.record_scale import simulate


def test_a_change_is_a_frame_for_each_other_broker_and_only_the_difference_is_sent_after_a_cut() -> None:
    few, many = simulate(3, 300), simulate(3, 3_000)
    for row in (few, many):
        assert (row.change.frames, row.equal.frames) == (2, 4)
    assert few.equal.size == many.equal.size, "of equal records only the digests cross"
    # A hundred changes are a hundred of 1,024 buckets at most, with what else is in these.
    assert many.missed.size < 3 * few.missed.size, "ten times as many queues"
