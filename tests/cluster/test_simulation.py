"""What clients do at brokers of a cluster whose links are late and break, without processes, by the thousand:
nothing is lost, nothing is held by two consumers, each repeat is marked, and nothing is left at the end."""

import os

import pytest

from broker_app.features.cluster.links.read_ahead import ReadAhead
from tests.cluster.simulation import simulate
from tests.support.chance import FIRST_SEED
from tests.support.patience import patient

SIMULATIONS = 10_000 if "SOAK" in os.environ else 20
PARTS = 4
#: those that have found something: overtaken messages without a mark, groups that waited for each other
FOUND = (65, 25)


@pytest.mark.timeout(patient(0 if "SOAK" in os.environ else 60))
@pytest.mark.parametrize("part", range(PARTS))
def test_every_law_holds_however_links_are_late_and_break(part: int) -> None:
    for seed in (*FOUND[part : part + 1], *range(FIRST_SEED + part, FIRST_SEED + SIMULATIONS, PARTS)):
        try:
            simulate(seed)
        except Exception as failure:
            failure.add_note(f"simulation {seed}; see it with: python -m tests.cluster.simulation {seed} -v")
            raise


@pytest.mark.timeout(patient(0 if "SOAK" in os.environ else 60))
@pytest.mark.parametrize("part", range(PARTS))
def test_they_hold_where_more_is_sent_than_consumers_have_credit_for(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadAhead, "look", _always)  # though they are slow: so much comes back
    for seed in range(FIRST_SEED + part, FIRST_SEED + SIMULATIONS, PARTS):
        try:
            simulate(seed, alone=True)
        except Exception as failure:
            failure.add_note(f"simulation {seed}, with one consumer of each queue")
            raise


def _always(ahead: ReadAhead, *_: object) -> bool:
    ahead.is_on = True
    return True
