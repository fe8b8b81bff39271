"""Two checkouts measured by turns: how their figures are compared."""

from pathlib import Path

import pytest

from benchmarks.before_after import older, ratios, table
from benchmarks.child import ServerFailed
from benchmarks.measurement import Measurement
from benchmarks.workloads import WORKLOADS

W1 = WORKLOADS[0]


def run(server: str, number: int, rate: float, faults: tuple[str, ...] = ()) -> Measurement:
    return Measurement(W1.name, server, number, {"rate": rate}, list(faults), {})


def test_a_ratio_is_taken_within_a_round() -> None:
    done = [run("before", 1, 100), run("MOM", 1, 110), run("MOM", 2, 55), run("before", 2, 50)]
    assert ratios(done, W1.name, "rate", "before") == [1.1, 1.1]


def test_a_round_that_one_of_both_lacks_is_left_out() -> None:
    done = [run("before", 1, 100), run("before", 2, 100), run("MOM", 2, 90)]
    assert ratios(done, W1.name, "rate", "before") == [0.9]


def test_the_table_has_both_medians_their_ratio_and_the_faults() -> None:
    done = [run("before", 1, 100), run("MOM", 1, 97, ("2 lost",))]
    text = table([W1], done, "before", "MOM")
    assert "| messages/s | 100 | 97 | 0.970 (0.97-0.97) |" in text
    assert "faults, MOM | | | run 1: 2 lost |" in text


def test_a_folder_without_a_checkout_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match=r"manage\.py does not exist; run `make build`"):
        older(tmp_path)
