"""The probe of the storm finds what it is for: two members that have one journal."""

from __future__ import annotations

from tests.enhanced_cluster.owners import Sighting, late_owners, shared_epochs


def seen(member: str, epoch: int, asked_at: float, answered_at: float, journal: str = "shop.b1") -> Sighting:
    return Sighting(journal, epoch, member, asked_at, answered_at)


def test_a_member_that_has_a_journal_after_another_has_taken_it_is_found() -> None:
    before = [seen("b1", 1, 0.0, 1.0), seen("b2", 2, 1.5, 3.0), seen("b1", 1, 0.5, 9.0)]
    assert list(late_owners([*before, seen("b1", 1, 2.9, 4.0), seen("b1", 1, 5.0, 6.0, "shop.b2")])) == []
    assert list(late_owners([*before, seen("b1", 1, 3.25, 4.0), seen("b3", 3, 3.0, 4.0)])) == [
        "b1 had shop.b1 in epoch 1, 0.250 s after b2 had it in epoch 2"
    ]


def test_two_members_that_have_a_journal_in_one_epoch_are_found() -> None:
    served, noted = [seen("b1", 1, 0.0, 1.0)], [seen("b1", 1, 2.0, 3.0), seen("b2", 2, 2.0, 3.0)]
    assert list(shared_epochs(served, noted, {("shop.b1", 2): {"b2"}})) == []
    assert list(shared_epochs(served, noted, {("shop.b1", 2): {"b3"}})) == [
        "b2 and b3 had shop.b1 in epoch 2"
    ]
