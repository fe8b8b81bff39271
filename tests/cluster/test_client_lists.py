"""Lists of brokers that are sent to clients, and who moves when a broker joins."""

from __future__ import annotations

import re

import pytest

from broker_app.base.settings import name_filter
from broker_app.base.settings.transport_connectors import ListSettings, by_listener, faults
from broker_app.features.cluster.clients.client_lists import ClientLists
from broker_app.features.cluster.clients.rebalance_plan import plan

A, B, C = ("stomp://a:1",), ("stomp://b:1", "ws://b:2"), ("stomp://c:1",)


def lists(filter_text: str = "", *, on_remove: bool = False) -> tuple[ClientLists, list[tuple[str, ...]]]:
    published: list[tuple[str, ...]] = []
    settings = ListSettings(True, on_remove, False, filter_text)
    made = ClientLists(A, settings, published=lambda lists: published.append(lists.uris))
    return made, published


def test_a_list_has_the_others_in_the_order_in_which_they_joined_and_this_broker_last() -> None:
    made, published = lists()
    made.joined("b", B)
    made.joined("c", C)
    made.joined("b", B)
    assert made.uris == (*B, *C, *A)
    assert published == [(*B, *A), (*B, *C, *A)]


def test_a_broker_that_left_stays_on_the_list_unless_clients_get_lists_without_it() -> None:
    made, published = lists()
    made.joined("b", B)
    made.left("b")
    assert (made.uris, len(published)) == ((*B, *A), 1)
    made, published = lists(on_remove=True)
    made.joined("b", B)
    made.left("b")
    assert (made.uris, published[-1]) == (A, A)


def test_other_settings_offer_who_was_offered_and_who_is_linked_as_far_as_they_match() -> None:
    made, published = lists()
    made.joined("d", ("stomp://d:1",))
    made.joined("c", C)
    made.left("c")
    again = made.replaced(ListSettings(True, False, False, "[bc]"), {"b": B}, 9)
    assert (again.uris, again.version, len(published)) == ((*C, *B, *A), 9, 2)
    assert [one.cause for one in again.versions][:2] == ["the settings changed", "c joined"]
    assert made.uris == ("stomp://d:1", *C, *A)


def test_each_broker_is_on_the_list_or_not_for_a_reason() -> None:
    made, _ = lists("[bcde]")
    made.joined("b", B)
    made.joined("c", C)
    made.left("c")
    made.joined("e", ())
    made.joined("X", ("stomp://x:1",))
    places = made.places({"b", "d", "e", "X"}, {"b", "e", "X"})
    assert {one.broker: one.state for one in places} == {
        "b": "listed",
        "c": "left",
        "d": "away",
        "e": "no-address",
        "X": "filtered",
    }
    silent = ClientLists(A, ListSettings(False, False, False, ""), published=lambda lists: None)
    assert silent.places({"b"}, {"b"}) == [], "it is sent to no client"


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("A.*,B.*", {"A1", "B7"}),
        (".*A.*", {"A1", "NANCY"}),
        ("*A*, *B*", {"A1", "B7", "NANCY"}),
        ("", {"A1", "B7", "C3", "NANCY"}),
    ],
)
def test_a_filter_is_matched_against_names_of_brokers(text: str, offered: set[str]) -> None:
    accepted = name_filter.parse(text)
    assert {name for name in ("A1", "B7", "C3", "NANCY") if accepted.accepts(name)} == offered


def test_what_is_no_regular_expression_is_a_glob_or_refused_with_its_position() -> None:
    assert name_filter.parse("*A*,*B*").globs == ("*A*", "*B*")
    with pytest.raises(ValueError, match="position 4"):
        name_filter.parse("A, [B")
    with pytest.raises(ValueError, match="repeats a repetition"):
        name_filter.parse("(a+)+b")


def test_surplus_clients_of_all_brokers_fill_the_one_that_has_joined() -> None:
    assert plan(45, {"b": 45, "c": 0}) == {"c": 15}
    assert plan(90, {"b": 0, "c": 0}) == {"b": 30, "c": 30}
    assert plan(60, {"b": 30, "c": 0}) == {"c": 30}
    assert plan(0, {"b": 10}) == {}
    assert plan(31, {"b": 30, "c": 30}) == {}
    assert plan(5, {}) == {}


@pytest.mark.parametrize(
    "counts", [(90, 0, 0), (50, 40, 0), (10, 20, 300), (7, 8, 9), (1, 0, 0), (100, 1, 1)]
)
def test_after_all_have_moved_each_broker_has_its_share(counts: tuple[int, ...]) -> None:
    names = [f"b{at}" for at in range(len(counts))]
    have = dict(zip(names, counts, strict=True))
    after = dict(have)
    for name in names:
        others = {other: have[other] for other in names if other != name}
        for target, number in plan(have[name], others).items():
            after[name] -= number
            after[target] += number
    assert sum(after.values()) == sum(counts)
    assert max(after.values()) - min(after.values()) <= 2


GENERAL = ListSettings(True, False, False, "")


def test_a_listener_has_the_settings_of_its_connector_and_the_general_ones_otherwise() -> None:
    text = (
        "stomp+tls?updateClusterFilter=A.*,B%20x&rebalanceClusterClients=true ws?updateClusterClients=false"
    )
    assert by_listener(text, GENERAL) == {
        "stomp": GENERAL,
        "stomp+tls": ListSettings(True, False, True, "A.*,B x"),
        "ws": ListSettings(False, False, False, ""),
        "wss": GENERAL,
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("openwire?updateClusterClients=true", "'openwire' is no listener .* stomp, stomp.tls, ws, wss"),
        ("ws?updateClusterClient=true", "no attribute 'updateClusterClient'.*updateClusterClients"),
        ("ws?updateClusterClients=yes", "it must be true or false"),
        ("ws?updateClusterFilter=[A", "position 1"),
        ("ws?transactionReceipts=never", "it must be commit or frame"),
        ("ws?updateClusterClients=true ws", "ws is there twice"),
    ],
)
def test_a_connector_that_cannot_be_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        by_listener(text, GENERAL)
    ((setting, fault),) = faults({"transport_connector": text})
    assert setting == "transport_connector" and re.search(reason, fault)
