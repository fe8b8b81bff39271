from array import array
from random import Random

import pytest

from broker_app.core.storage.rows import Rows


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows, "CHUNK", 3)


def everything(rows: Rows) -> list[tuple[int, ...]]:
    return [row for chunk in rows.chunks() for row in zip(*chunk, strict=True)]


@pytest.mark.parametrize("seed", range(20))
def test_rows_stay_in_order_whatever_is_added_and_taken(seed: int) -> None:
    random, rows = Random(seed), Rows(2)
    twin: list[tuple[int, ...]] = []
    for number in range(400):
        action = random.random()
        if action < 0.6:
            row = (random.randrange(40), number)
            rows.add(*row)
            twin = sorted([*twin, row], key=lambda row: row[0])
        elif action < 0.8:
            up_to, count = random.randrange(20), random.randrange(4)
            wanted = [row for row in twin if row[0] <= up_to][:count]
            assert rows.take(up_to, count) == wanted
            twin = [row for row in twin if row not in wanted]
        elif twin:
            victim = random.choice(twin)
            assert rows.remove(victim[0], victim[1])
            assert not rows.remove(victim[0], victim[1])
            twin.remove(victim)
        key = random.randrange(40)
        assert list(rows.find(key)) == [row for row in twin if row[0] == key]
        assert list(rows.after(key, 200)) == [row for row in twin if row > (key, 200)]
        assert len(rows) == len(twin) and everything(rows) == twin
        assert not twin or rows.first == twin[0][0]


def test_rows_that_are_sorted_already_are_added_at_once() -> None:
    rows = Rows(2)
    rows.extend(array("Q", range(10)), array("Q", range(100, 110)))
    rows.add(4, 99)
    assert [second for _, second in rows.find(4)] == [104, 99]
    assert len(rows) == 11
