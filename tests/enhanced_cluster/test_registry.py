"""The registry of journals: what a member writes that does not know yet that it was taken over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.features.enhanced_cluster.registry import JournalNote, JournalState, Registry, registry_name
from broker_app.storage.factory import store_at


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(store_at(f"file:{tmp_path}", registry_name("shop")))
    yield made
    made.close()


def note(holder: str, epoch: int, state: JournalState = "serving") -> JournalNote:
    return JournalNote(
        journal="shop.b1",
        member="b1",
        generation=0,
        holder=holder,
        address=f"{holder}:7676",
        state=state,
        epoch=epoch,
    )


def noted(registry: Registry) -> list[JournalNote]:
    return [seen.note for seen in registry.read().journals]


def test_a_note_of_a_former_holder_hides_no_note_of_the_one_that_has_taken_over(registry: Registry) -> None:
    registry.write(note("b1", 1))
    registry.write(note("b2", 2))
    registry.write(note("b1", 1))  # it was paused, and goes on
    assert noted(registry) == [note("b2", 2)]
    registry.write(note("b2", 2, "drained"))
    registry.write(note("b1", 1))
    assert noted(registry) == [note("b2", 2, "drained")], "nothing is left to take over"
    registry.write(note("b1", 3))
    assert noted(registry) == [note("b1", 3)]


def test_a_member_goes_back_to_no_earlier_journal_when_that_is_taken_over_once_more(
    registry: Registry,
) -> None:
    assert registry.generation("b1") == 0
    for generation in (1, 2, 1, 10, 9):
        registry.set_generation("b1", generation)
    registry.set_generation("b10", 20)
    assert registry.generation("b1") == 10
