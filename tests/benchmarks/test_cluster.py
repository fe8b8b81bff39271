"""The promises for clusters, judged from figures."""

from dataclasses import replace
from pathlib import Path

from benchmarks.cluster import Broker, Case, Promise, Route, reached, table
from benchmarks.measurement import Measurement

BROKER = Broker(Path("unused"), 1, "a password", [2])
RATE = Case(
    "link",
    "W1",
    tuple(Route(name, BROKER, (BROKER,)) for name in ("across", "local")),
    (),
    Promise(least_ratio=0.6),
)
LATENCY = Case("slow", "200/s", RATE.routes, (), Promise(most_added_ms=2))
PEERS = Case(
    "peers",
    "W1",
    tuple(Route(name, BROKER, (BROKER,)) for name in ("MOM", "classic", "quorum")),
    (),
    Promise(least_ratio=3),
)


def run(case: Case, route: str, number: int, faults: tuple[str, ...] = (), **figures: float) -> Measurement:
    return Measurement(case.name, route, number, figures, list(faults), {})  # type: ignore[arg-type]


def test_a_ratio_is_taken_within_each_round_and_has_to_reach_the_promise() -> None:
    rates = [(1, 60, 100), (2, 900, 1_000), (3, 7, 10)]
    done = [
        run(RATE, name, at, rate=rate)
        for at, across, local in rates
        for name, rate in (("across", across), ("local", local))
    ]
    assert reached(RATE, done) == (0.7, "0.70 (0.60-0.90)", True)
    assert not reached(
        RATE, [*done, run(RATE, "across", 4, ("1 lost",), rate=1), run(RATE, "local", 4, rate=1)]
    )[2]


def test_a_round_that_one_route_lacks_is_left_out() -> None:
    done = [run(RATE, "across", 1, rate=50), run(RATE, "across", 2, rate=50), run(RATE, "local", 2, rate=100)]
    assert reached(RATE, done)[0] == 0.5
    assert reached(RATE, done[:1]) == (0.0, "—", False)


def test_the_latency_added_is_the_difference_of_medians() -> None:
    done = [run(LATENCY, "across", 1, latency_p50=2.5), run(LATENCY, "local", 1, latency_p50=1.0)]
    assert reached(LATENCY, done) == (1.5, "+1.50 ms", True)


def test_a_route_that_explains_is_shown_and_not_compared() -> None:
    alone = Route("one consumer", BROKER, (BROKER,), further=("-c", "1"))
    case = replace(RATE, explaining=(alone,))
    rates = [("across", 60), ("local", 100), ("one consumer", 1_000)]
    done = [run(case, name, 1, rate=rate) for name, rate in rates]
    assert reached(case, done)[0] == 0.6
    assert "| W1 | one consumer | 1,000 |" in table([case], done)


def test_the_first_route_is_compared_with_the_better_of_the_others() -> None:
    done = [run(PEERS, name, 1, rate=rate) for name, rate in (("MOM", 60), ("classic", 15), ("quorum", 20))]
    assert reached(PEERS, done)[0] == 3
    text = table([PEERS], done)
    assert "| W1 | MOM | 60 | — | — | — | — | 3.00 (3.00-3.00) | ≥ 3x: kept | clean |" in text
    assert "| W1 | quorum | 20 |" in text
