"""The row of idle connections."""

from benchmarks.idle import row

SERVER = {"rss_kib_per_conn": 11.0, "rss_start_kib": 102400, "rss_end_kib": 157400}
RAW = {
    "lost": 0,
    "duplicated": 0,
    "out_of_order": 0,
    "foreign": 0,
    "refused": 0,
    "errors": 0,
    "receipts": False,
    "send_via": "-",
    "consumers": 5000,
    "connect_s": 2.0,
    "server": SERVER,
}


def test_the_limit_depends_on_the_transport() -> None:
    assert row("tcp", RAW) == "| TCP | 5,000 | 11.0 | < 12 | pass | 100 → 154 | 2.0 | clean |"
    assert "**miss**" in row("tcp", RAW | {"server": SERVER | {"rss_kib_per_conn": 13.0}})


def test_a_connection_that_broke_is_a_miss() -> None:
    assert "**miss**" in row("ws", RAW | {"errors": 1})
