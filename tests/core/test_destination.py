import pytest

from broker_app.base.refused import Refused
from broker_app.core.destination import Destination, has_wildcard, is_forwarded, is_reserved, parse


@pytest.mark.parametrize("kind", ["queue", "topic", "temp-queue", "temp-topic"])
def test_an_address_is_a_prefix_and_a_name(kind: str) -> None:
    destination = parse(f"/{kind}/orders.new")
    assert destination == Destination(kind, "orders.new")
    assert destination.address == f"/{kind}/orders.new"
    assert destination.is_queue == kind.endswith("queue")


@pytest.mark.parametrize(
    "name", ["a", "A b", "/queue/a", "a/b", "ünïcode ✉", ".", "*", "a:b\\n", "x" * 255, "$SYS"]
)
def test_a_name_is_taken_literally(name: str) -> None:
    assert parse("/queue/" + name).name == name


def test_names_are_case_sensitive() -> None:
    assert parse("/queue/Orders") != parse("/queue/orders")


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("/queue/", "has no name"),
        ("/topic/", "has no name"),
        ("/queue/" + "x" * 256, "has 256 characters; at most 255"),
        ("/queue/ a", "begins or ends with white space"),
        ("/queue/a ", "begins or ends with white space"),
        ("/queue/a\u2003", "begins or ends with white space"),
        ("/queue/a\x00b", "control character"),
        ("/queue/a\nb", "control character"),
        ("/queue/a\x7fb", "control character"),
        ("/foo/x", "no known prefix"),
        ("queue", "no known prefix"),
        ("/queue", "no known prefix"),
        ("/Queue/a", "no known prefix"),
        ("", "no known prefix"),
    ],
)
def test_a_bad_name_is_refused_with_the_rule_it_breaks(address: str, rule: str) -> None:
    with pytest.raises(Refused, match=rule) as refused:
        parse(address)
    assert refused.value.code == "bad-destination"


FORWARDED = "storeAndForward:" + "b" * 20 + "/queue/" + "q" * 79


@pytest.mark.parametrize(
    "name", [FORWARDED, "storeAndForward:b/queue/a/queue/c:d", "storeAndForward:ü b/queue/✉"]
)
def test_a_store_and_forward_queue_is_a_queue_however_its_address_is_written(name: str) -> None:
    bridge = "/bridge/" + name.removeprefix("storeAndForward:").replace("/queue/", "/", 1)
    assert parse(f"/queue/{name}") == parse(name) == parse(bridge) == Destination("queue", name)
    assert is_forwarded(f"/queue/{name}")
    assert parse(f"/queue/{name}.dead").name == f"{name}.dead"
    assert not is_forwarded(f"/queue/{name}.dead")


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("storeAndForward:b", "names no queue"),
        ("storeAndForward:/queue/q", "broker name .* is empty; 1 to 20"),
        ("storeAndForward:b/queue/", "queue name .* is empty; 1 to 79"),
        ("storeAndForward:b/queue/.dead", "queue name .* is empty; 1 to 79"),
        ("storeAndForward:" + "b" * 21 + "/queue/q", "broker name .* has 21 characters; at most 20"),
        ("storeAndForward:b/queue/" + "q" * 80, "queue name .* has 80 characters; at most 79"),
        ("storeAndForward:a/b/queue/q", "broker name 'a/b' .* contains '/'"),
        ("storeAndForward:a:b/queue/q", "broker name 'a:b' .* contains ':'"),
        ("storeAndForward:b /queue/q", "use 'storeAndForward:b/queue/q'"),
        ("storeAndForward:b/queue/q.dead.dead", "dead letters are not forwarded"),
    ],
)
def test_a_wrong_store_and_forward_name_is_refused_with_the_element_and_its_limit(
    name: str, rule: str
) -> None:
    with pytest.raises(Refused, match=rule) as refused:
        parse(f"/queue/{name}")
    assert refused.value.code == "bad-destination"


def test_the_other_ways_to_write_it_are_refused_alike_and_forgive_white_space() -> None:
    assert (
        parse("/bridge/ b / q").name
        == parse("storeAndForward: b /queue/ q ").name
        == "storeAndForward:b/queue/q"
    )
    for address, rule in [
        ("/bridge/b", "names no queue"),
        ("/bridge//q", "1 to 20"),
        ("storeAndForward:b/queue/", "79"),
    ]:
        with pytest.raises(Refused, match=rule):
            parse(address)


def test_the_dead_letters_of_the_longest_name_can_be_named() -> None:
    assert parse("/queue/" + "x" * 255 + ".dead").name == "x" * 255 + ".dead"


def test_names_that_begin_with_a_dollar_are_reserved() -> None:
    assert is_reserved("$mom.stats")
    assert not is_reserved("a.$b")


@pytest.mark.parametrize("name", ["*", "a.*", "*.a", "a.>", "#", "a.#"])
def test_a_level_of_its_own_is_a_wildcard(name: str) -> None:
    assert has_wildcard(name)


@pytest.mark.parametrize("name", ["a", "a*", "a.b>", "#a.b", "a..b"])
def test_a_wildcard_character_inside_a_level_is_literal(name: str) -> None:
    assert not has_wildcard(name)
