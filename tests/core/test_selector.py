"""Selectors: matches, errors, and an independent evaluator that must agree."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_app.base.refused import Refused
from broker_app.core.message import DeliveryOptions, Envelope, Message, MessageIds
from broker_app.core.selectors import compiler
from broker_app.core.selectors.parser import parse
from mom_client.stomp.encode import encode_headers
from tests.support.chance import rounds

IDS = MessageIds(7)


def message(headers: dict[str, str] | None = None, **facts: Any) -> Message:
    block = encode_headers((headers or {}).items())
    return Message(Envelope("/queue/a", block, **facts), b"", 42, 1_000, True)


def matches(text: str, **headers: str) -> bool:
    return compiler.compile(text).matches(message(headers), IDS)


@pytest.mark.parametrize(
    "text",
    [
        "colour = 'red'",
        "colour <> 'blue' AND colour != 'green'",
        "weight = 10 and weight = 10.0 and weight = 1e1 and weight = 0xA and weight = 10L",
        "weight > 9 AND weight >= 10 AND weight < 11 AND weight <= 10",
        "weight BETWEEN 10 AND 12",
        "weight NOT BETWEEN 1 AND 9",
        "colour IN ('blue', 'red')",
        "weight IN (9, 10)",
        "weight NOT IN (9, -10)",
        "colour NOT IN ('blue')",
        "colour LIKE 'r%d' AND colour LIKE '_ed' AND colour LIKE '%' AND colour NOT LIKE 'r'",
        "code LIKE '50!%' ESCAPE '!'",
        "missing IS NULL AND colour IS NOT NULL",
        "2 * weight + 1 = 21 AND weight - 3 * 2 = 4 AND -weight = -10 AND +weight = 10",
        "weight / 3 = 3 AND -weight / 3 = -3 AND weight / 4.0 = 2.5",
        "(colour = 'blue' OR weight = 10) AND NOT (weight = 11)",
        "urgent AND urgent = TRUE AND urgent <> FALSE AND NOT urgent = FALSE",
        "TRUE",
        "(weight > 3) = TRUE",
        "\"content-type\" = 'text/plain'",
        "quote = 'it''s'",
        "weight = '10' AND '10' = weight",
        "weight < heavier",
        "convert_string_expressions:weight = 10",
        "colour='red'\n\tAND\r\n weight=10",
    ],
)
def test_it_is_true(text: str) -> None:
    assert matches(
        text, colour="red", weight="10", heavier="9e1", urgent="True", code="50%", quote="it's",
        **{"content-type": "text/plain"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "missing = 'x'",
        "missing <> 'x'",
        "missing IN ('x')",
        "missing NOT LIKE 'x'",
        "missing BETWEEN 1 AND 2",
        "missing",
        "missing = missing",
        "colour = 10",
        "colour < 'red' ",
        "colour + 1 = 2",
        "colour",
        "colour BETWEEN 1 AND 2",
        "colour IN (1)",
        "weight / 0 = 1",
        "JMSPriority LIKE '4'",
        "weight = TRUE",
    ],
)
def test_unknown_is_not_true_and_neither_is_its_negation(text: str) -> None:
    assert not matches(text, colour="red", weight="10")
    assert not matches(f"NOT ({text})", colour="red", weight="10")


def test_unknown_or_true_is_true_and_unknown_and_false_is_false() -> None:
    assert matches("missing = 1 OR TRUE")
    assert matches("NOT (missing = 1 AND FALSE)")
    assert matches("NOT (FALSE AND missing = 1)")
    assert matches("NOT (5 BETWEEN missing AND 4)")


def test_words_joined_by_dots_are_one_name() -> None:
    assert matches('order.total = 5 AND "order.total" = 5', **{"order.total": "5"})
    assert not matches("order.total = 5", order="5", total="5")


def test_properties_of_a_message_have_names() -> None:
    given_ = message(
        {"correlation-id": "c", "type": "t", "reply-to": "/queue/r"},
        priority=7, persistent=False, expires_ms=5_000, options=DeliveryOptions(group="g"),
    )  # fmt: skip
    for text in (
        "JMSPriority = 7 AND priority = 7",
        "JMSDeliveryMode = 'NON_PERSISTENT' AND NOT persistent",
        "JMSTimestamp = 1000 AND timestamp = 1000",
        "JMSExpiration = 5000 AND expires = 5000",
        "JMSCorrelationID = 'c' AND JMSType = 't' AND JMSReplyTo = '/queue/r'",
        "JMSXGroupID = 'g' AND \"group\" = 'g'",
        "JMSDestination = '/queue/a' AND destination = '/queue/a'",
        f"JMSMessageID = '{IDS.of(given_).decode()}' AND \"message-id\" = JMSMessageID",
    ):
        assert compiler.compile(text).matches(given_, IDS), text
    assert compiler.compile("expires IS NULL AND JMSExpiration = 0").matches(message(), IDS)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", "line 1 column 1", "the selector ends"),
        ("a = ", "line 1 column 5", "expected"),
        ("a = 'x", "line 1 column 5", "is not closed"),
        ('"a = 1', "line 1 column 1", "is not closed"),
        ("a = 1 AMD b = 2", "line 1 column 7", "found 'AMD', expected *, +, -, /, AND, OR, the end"),
        ("a = 1 AND\n  b = = 2", "line 2 column 7", "found '='"),
        ("a = 1; b", "line 1 column 6", "is not allowed in a selector"),
        ("a IN (1,)", "line 1 column 9", "a number"),
        ("a = 12x", "line 1 column 5", "is not allowed"),
        ("5", "line 1 column 1", "a condition is expected"),
        ("a AND 'x'", "line 1 column 7", "a condition is expected"),
        ("1 + (a = 1) = 2", "line 1 column 6", "a value is expected"),
        ("5 LIKE 'x'", "line 1 column 1", "LIKE needs the name of a header"),
        ("a LIKE 'x!y' ESCAPE '!'", "line 1 column 8", "what follows !"),
        ("a LIKE 'x' ESCAPE 'ab'", "line 1 column 19", "ESCAPE takes one character"),
        ("a LIKE '" + "x" * 300 + "'", "line 1 column 8", "256 are allowed"),
        ("a = 0xFFFFFFFFFFFFFFFFFF", "line 1 column 5", "64 bits"),
        ("JMSRedelivered = TRUE", "line 1 column 1", "changes while a message waits"),
        ("NOT " * 60 + "a", "line 1 column 205", "nested expressions"),
    ],
)
def test_errors_name_their_line_and_column(text: str, place: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        compiler.compile(text)
    assert refused.value.code == "invalid-selector"
    assert refused.value.detail.startswith(f"selector, {place}: ")
    assert says in refused.value.detail


#: what a refusal may list as expected → a text that is one
EXPECTED = {
    **{text: text for text in "AND OR NOT BETWEEN IN IS LIKE ESCAPE NULL TRUE FALSE".split()},
    **{text: text for text in "( ) , + - * / = <>".split()},
    "< <= > >=": "<=",
    "a header name": "b",
    'a header name in "…"': '"b"',
    "a number": "1",
    "a text in '…'": "'x'",
    "the end": "",
}


def may_follow(begin: str, text: str) -> bool:
    """Return whether a token, or the end for "", may follow a beginning of a selector."""
    try:
        parse(f"{begin} {text}")
    except Refused as refusal:
        return bool(text) and "the selector ends" in refusal.detail
    return True


@pytest.mark.parametrize(
    "begin",
    [
        "", "NOT", "(", "a", "(a", "(a)", "a =", "a = 1", "a = 1 +", "-", "- a", "a * b", "a = -1 * (b",
        "a NOT", "a IS", "a IS NOT", "a IS NULL", "(a IS NULL", "(a IS NULL)", "a IN", "a IN (", "a IN (-",
        "a IN (1", "a IN (1,", "a IN (1)", "a LIKE", "a LIKE 'x'", "(a LIKE 'x')", "a LIKE 'x' ESCAPE",
        "a LIKE 'x' ESCAPE '!'", "a BETWEEN", "a BETWEEN 1", "a BETWEEN 1 + b", "(a BETWEEN 1",
        "a BETWEEN 1 AND", "a BETWEEN 1 AND 2", "a BETWEEN (b AND c", "NOT a = b", "a = (NOT b",
        "a AND b", "a OR b AND NOT c",
    ],
)  # fmt: skip
def test_a_refusal_lists_what_may_follow_and_nothing_else(begin: str) -> None:
    wrong = f"{begin} ," if may_follow(begin, "") else begin  # a comma follows only where the end cannot
    with pytest.raises(Refused) as refused:
        parse(wrong)
    listed = refused.value.detail.partition(", expected ")[2]
    expected = [name for name, text in EXPECTED.items() if may_follow(begin, text)]
    assert listed == ", ".join(sorted(expected))


def test_a_selector_has_a_longest_length() -> None:
    longest = "a = '" + "x" * (compiler.MAX_LENGTH - 6) + "'"
    assert matches(longest, a="x" * (compiler.MAX_LENGTH - 6))
    with pytest.raises(Refused, match=r"1,025 characters; at most 1,024 are allowed"):
        compiler.compile(longest + " ")
    assert matches(" OR ".join(f"a={n}" for n in range(120)), a="119")


def test_nesting_has_a_limit_that_parentheses_do_not_count_for() -> None:
    assert matches("NOT " * 50 + "a", a="true")
    assert matches("(" * 500 + "a = 1" + ")" * 500, a="1")
    with pytest.raises(Refused, match="more than 50 nested expressions"):
        compiler.compile("(a + " * 51 + "a" + ")" * 51 + " = 1")


def test_selectors_that_are_stored_may_be_longer() -> None:
    text = " OR ".join(f"a={n}" for n in range(450))
    assert len(text) > compiler.MAX_LENGTH
    assert compiler.compile_stored(text).matches(message({"a": "449"}), IDS)


def test_no_pattern_takes_long() -> None:
    assert not matches("a LIKE '" + "%a" * 100 + "%b'", a="a" * 60_000)
    # At each place it looks promising for 251 characters.
    assert not matches("a LIKE '%_" + "a" * 250 + "b%'", a="a" * 1_000_000)


@given(st.text("ab%_", max_size=8), st.text("ab\n", max_size=12))
def test_patterns_mean_what_regular_expressions_say(pattern: str, text: str) -> None:
    expression = "".join({"%": ".*", "_": "."}.get(character, character) for character in pattern)
    assert matches(f"a LIKE '{pattern}'", a=text) == bool(re.fullmatch(expression, text, re.DOTALL))


def test_an_index_learns_which_values_a_header_must_have() -> None:
    def anchors(text: str) -> dict[str, frozenset[Any]]:
        return compiler.compile(text).anchors

    assert anchors("a = 'x'") == {"a": {"x"}}
    assert anchors("5 = a AND b > 3") == {"a": {5}}
    assert anchors("a IN ('x', 'y') AND b = 1 AND (c = 1 OR d = 1)") == {"a": {"x", "y"}, "b": {1}}
    assert anchors("a = 1 OR a = 2") == {"a": {1, 2}}
    assert anchors("a = 1 OR b = 2") == anchors("NOT a = 1") == anchors("a NOT IN (1)") == {}
    assert anchors("a <> 1") == anchors("a = TRUE") == anchors("JMSPriority = 4") == {}
    assert anchors("JMSType = 'x'") == {"type": {"x"}}


# A second evaluator: conditions as nested tuples, evaluated in the plainest way that can be thought of.

NAMES = ("a", "b", "c")
ITEMS = ("x", "xy", "7", "2.5", "true", 2, 7)
TEXTS = ("x", "xy", "7", "2.5", "true", "%")
TERMS = st.one_of(
    st.sampled_from(NAMES).map(lambda name: ("name", name)),
    st.sampled_from(TEXTS).map(lambda text: ("text", text)),
    st.sampled_from((0, 2, 7, 2.5)).map(lambda number: ("number", number)),
)
NUMERIC = st.recursive(TERMS, lambda inner: st.tuples(st.sampled_from("+-*/"), inner, inner), max_leaves=4)
CONDITIONS = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), NUMERIC, NUMERIC),
        st.tuples(st.just("between"), NUMERIC, NUMERIC, NUMERIC),
        st.tuples(st.just("in"), st.sampled_from(NAMES), st.lists(st.sampled_from(ITEMS), min_size=1)),
        st.tuples(st.just("like"), st.sampled_from(NAMES), st.sampled_from(("x%", "%y", "_", "%!%", "%"))),
        st.tuples(st.just("null"), st.sampled_from(NAMES)),
    ),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(("and", "or")), inner, inner),
    ),
    max_leaves=6,
)  # fmt: skip


def spell(it: Any) -> str:
    kind, *rest = it
    match kind:
        case "name":
            return str(rest[0])
        case "text":
            return f"'{rest[0]}'"
        case "number":
            return str(rest[0])
        case "between":
            return f"({spell(rest[0])}) BETWEEN ({spell(rest[1])}) AND ({spell(rest[2])})"
        case "in":
            items = ", ".join(f"'{item}'" if isinstance(item, str) else str(item) for item in rest[1])
            return f"{rest[0]} IN ({items})"
        case "like":
            return f"{rest[0]} LIKE '{rest[1]}' ESCAPE '!'"
        case "null":
            return f"{rest[0]} IS NULL"
        case "not":
            return f"NOT ({spell(rest[0])})"
        case _:
            return f"({spell(rest[0])}) {kind} ({spell(rest[1])})"


def number_of(value: Any) -> Any:
    try:
        return value if value is None or isinstance(value, int | float) else float(value)
    except ValueError:
        return None


def truth_of(it: Any, headers: dict[str, str]) -> Any:
    kind, *rest = it
    if kind == "not":
        value = truth_of(rest[0], headers)
        return None if value is None else not value
    if kind in ("and", "or"):
        values = [truth_of(part, headers) for part in rest]
        decisive = kind == "or"
        return decisive if decisive in values else None if None in values else not decisive
    if kind == "null":
        return rest[0] not in headers
    if kind == "between":
        low, high = ((">=", rest[0], rest[1]), ("<=", rest[0], rest[2]))
        return truth_of(("and", low, high), headers)
    if kind == "in":
        found = [truth_of(("=", ("name", rest[0]), ("number", item)), headers) for item in rest[1]]
        return (
            None if not headers.get(rest[0]) else True if True in found else None if None in found else False
        )
    if kind == "like":
        value = headers.get(rest[0])
        if value is None:
            return None
        fits = {"x%": value[0] == "x", "%y": value[-1] == "y", "_": len(value) == 1, "%!%": value[-1] == "%"}
        return fits.get(rest[1], True)
    left, right = (value_of(part, headers) for part in rest)
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str) and kind in ("=", "<>"):
        return (left == right) == (kind == "=")
    left, right = number_of(left), number_of(right)
    if left is None or right is None:
        return None
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[kind]


def value_of(it: Any, headers: dict[str, str]) -> Any:
    kind, *rest = it
    if kind == "name":
        return headers.get(rest[0])
    if kind in ("text", "number"):
        return rest[0]
    left, right = (number_of(value_of(part, headers)) for part in rest)
    if left is None or right is None or (kind == "/" and right == 0):
        return None
    if kind == "/":
        # Whole numbers stay whole; the evaluator above turned all texts into floats, so look at the spelling.
        return int(left / right) if whole(rest[0], headers) and whole(rest[1], headers) else left / right
    return {"+": left + right, "-": left - right, "*": left * right}[kind]


def whole(it: Any, headers: dict[str, str]) -> bool:
    kind, *rest = it
    if kind in "+-*/":
        return whole(rest[0], headers) and whole(rest[1], headers)
    return float(value_of(it, headers)).is_integer() and "." not in str(value_of(it, headers))


@pytest.mark.slow
@settings(max_examples=len(rounds(100, 4_000)))
@given(CONDITIONS, st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS)))
def test_a_second_evaluator_agrees(condition: Any, headers: dict[str, str]) -> None:
    text = spell(condition)
    truth = truth_of(condition, headers)
    assert matches(text, **headers) is (truth is True), text
    assert matches(f"NOT ({text})", **headers) is (truth is False), text


@settings(max_examples=len(rounds(80, 3_000)))
@given(st.text(alphabet="ab10.'\"()<>=+-*/,%_ \n!ANDORTLIKEINS", max_size=40))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        compiler.compile(text)
    except Refused as refusal:
        assert refusal.code == "invalid-selector"  # noqa: PT017 - most texts are refused, some are not
