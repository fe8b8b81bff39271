"""The promises for a deep backlog, judged from figures."""

from dataclasses import replace

from benchmarks.backlog import Outcome, promises

RAW = {
    "lost": 0,
    "duplicated": 0,
    "out_of_order": 0,
    "foreign": 0,
    "refused": 0,
    "errors": 0,
    "receipts": False,
    "send_via": "tcp",
    "recv_rate": 30_000.0,
    "confirm_rate": 40_000.0,
    "server": {"rss_peak_kib": 400 * 1024, "rss_end_kib": 300 * 1024, "cpu_s_per_100k": 3.0},
}
GOOD = Outcome(
    count=5_000_000,
    idle_mib=100,
    empty_queue_rate=50_000,
    fill=RAW,
    disk_mib=6000,
    stop_seconds=1,
    ready_seconds=10,
    restarted_mib=200,
    drain=RAW,
    drained_disk_mib=64,
)


def kept(outcome: Outcome) -> list[bool]:
    return [promise.kept for promise in promises(outcome)]


def test_a_good_run_keeps_every_promise() -> None:
    assert kept(GOOD) == [True] * 5
    assert promises(GOOD)[4].measured == "42 bytes"


def test_memory_counts_from_idle_at_its_highest_moment() -> None:
    assert kept(replace(GOOD, restarted_mib=700))[0] is False


def test_a_slow_drain_a_slow_start_and_a_lost_message_are_misses() -> None:
    assert kept(replace(GOOD, empty_queue_rate=70_000))[1] is False
    assert kept(replace(GOOD, ready_seconds=16))[2] is False
    assert kept(replace(GOOD, drain=RAW | {"lost": 1}))[3] is False


def test_memory_for_each_message_is_not_judged_from_a_shallow_backlog() -> None:
    assert len(promises(replace(GOOD, count=10_000))) == 4
