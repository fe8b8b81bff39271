"""Large families of tests are drawn from: other members in each run, and all of them in `make soak`."""

import pytest

from tests.support import samples

FAMILY = list(range(12))


def test_a_sample_keeps_the_order_and_has_no_member_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOAK", raising=False)
    drawn = samples.sample(FAMILY, 4)
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 4


def test_each_member_has_its_turn_and_a_seed_draws_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOAK", raising=False)
    seen = set[int]()
    for seed in range(30):
        monkeypatch.setattr(samples, "FIRST_SEED", seed)
        seen.update(samples.sample(FAMILY, 3))
        assert samples.sample(FAMILY, 3) == samples.sample(FAMILY, 3)
    assert seen == set(FAMILY)


def test_the_soak_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOAK", "1")
    assert samples.sample(FAMILY, 3) == FAMILY


def test_less_than_a_quarter_is_refused() -> None:
    with pytest.raises(ValueError, match="2 of 12 are less than a quarter"):
        samples.sample(FAMILY, 2)
