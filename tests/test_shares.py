"""Shares of users in a number of the node."""

from __future__ import annotations

import pytest

from broker_app.base.refused import Refused
from broker_app.base.shares import Shares


def twenty() -> Shares:
    return Shares(lambda: 20, "letters", "read some")


def take(shares: Shares, user: str, count: int, *, admin: bool = False) -> None:
    for _ in range(count):
        shares.take(user, admin=admin)


def test_one_user_has_at_most_half_and_is_told_whose_share_is_full() -> None:
    shares = twenty()
    take(shares, "alice", 10)
    with pytest.raises(Refused) as refused:
        take(shares, "alice", 1)
    assert refused.value.code == "busy"
    assert refused.value.detail == (
        "alice has 10 letters already; the share of one user is 10 of 20 on this node: read some"
    )
    take(shares, "bob", 1)


def test_the_last_tenth_is_reserved_for_administrators_who_have_no_share() -> None:
    shares = twenty()
    take(shares, "alice", 10)
    take(shares, "bob", 8)
    with pytest.raises(Refused, match="the last 2 are reserved for administrators: read some"):
        take(shares, "carol", 1)
    take(shares, "root", 2, admin=True)
    with pytest.raises(Refused, match="there are 20 letters already, of 20 on this node"):
        take(shares, "root", 1, admin=True)


def test_what_is_given_back_can_be_taken_again() -> None:
    shares = twenty()
    with shares.taken("alice", admin=False):
        take(shares, "alice", 9)
    shares.add("alice", -9)
    assert shares.total == 0
    take(shares, "alice", 10)


def test_a_number_of_one_can_be_taken_by_anybody() -> None:
    shares = Shares(lambda: 1, "letters", "wait")
    shares.take("alice", admin=False)
