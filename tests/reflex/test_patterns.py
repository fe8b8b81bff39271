"""Patterns of services and events."""

import re

import pytest

from broker_app.reflex.patterns import Pattern, ServicePattern


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*", ["", "a", "a.b"], []),
        (">", ["a", "a.b"], []),
        ("orders", ["orders"], ["order", "orders.eu", ""]),
        ("orders.*", ["orders.eu"], ["orders", "orders.eu.x", "order.eu"]),
        ("orders.>", ["orders", "orders.eu", "orders.eu.x"], ["order", "ordersx"]),
        ("orders.#", ["orders", "orders.eu"], ["other"]),
        ("*.new", ["order.new"], ["new", "a.b.new"]),
        ("order*", ["order", "orders"], ["order.new", "my-order"]),
        ("a.*b*.>", ["a.xby", "a.b.c"], ["a.c", "a"]),
    ],
)
def test_levels_are_matched(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [text for text in [*matching, *others] if compiled.matches(text)] == matching


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*", ["/queue/a", "/topic/a.b", "/temp-queue/x"], []),
        ("stock", ["/queue/stock"], ["/topic/stock", "/queue/stock.eu"]),
        ("stock.>", ["/queue/stock", "/queue/stock.eu"], ["/topic/stock.eu"]),
        ("/topic/stock.*", ["/topic/stock.eu"], ["/queue/stock.eu"]),
        ("/topic/>", ["/topic/a", "/topic/a.b"], ["/queue/a"]),
    ],
)
def test_a_service_is_a_queue_unless_its_pattern_is_an_address(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    compiled = ServicePattern(pattern)
    assert [text for text in [*matching, *others] if compiled.matches(text)] == matching


@pytest.mark.parametrize(
    ("pattern", "filter", "overlaps"),
    [
        ("/topic/prices.eu", "/topic/prices.*", True),
        ("/topic/prices.eu", "/topic/>", True),
        ("/topic/prices.>", "/topic/*.eu", True),
        ("/topic/prices.>", "/topic/prices", True),
        ("/topic/prices.eu", "/topic/prices", False),
        ("/topic/prices.eu", "/topic/prices.us", False),
        ("/topic/prices.*.x", "/topic/prices.>", True),
        ("/topic/prices.*.x", "/topic/prices.*", False),
        ("/topic/prices.*.x", "/topic/other.>", False),
        ("prices", "/topic/prices", False),
        ("*", "/topic/prices.>", True),
    ],
)
def test_a_subscription_with_wildcards_may_receive_what_a_pattern_matches(
    pattern: str, filter: str, overlaps: bool
) -> None:
    assert ServicePattern(pattern).overlaps(filter) is overlaps


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("", "write * for everything"),
        ("a.>.b", "only as the last level"),
        (" a", "white space at its ends"),
        ("a\n", "a control character"),
        ("x" * 400, "has 400 characters"),
        ("/nowhere/a", "must begin with /queue/, /topic/"),
        ("/queue", "must begin with /queue/, /topic/"),
    ],
)
def test_an_invalid_pattern_is_an_error(pattern: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        ServicePattern(pattern)
