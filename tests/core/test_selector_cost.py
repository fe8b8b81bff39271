"""The cost of compiling a selector: linear in its text, whatever the text is."""

from __future__ import annotations

import sys
import time

import pytest

from broker_app.base.refused import Refused
from broker_app.core.message import Envelope, Message, MessageIds
from broker_app.core.selectors import compiler
from broker_app.core.selectors.compiler import MAX_LENGTH

#: µs of CPU that a character may cost: several times what the worst text costs on a slow machine
MOST_US = 8.0
#: a short text may cost this much more, for what does not depend on its length
FIXED_US = 300.0

#: name → (the beginning of a text, what is repeated, the end)
WORST = {
    "terms": ("a = 1", " OR name = 'q1'", ""),
    "shortest terms": ("a=1", " OR a=1", ""),
    "ands": ("a", " AND a", ""),
    "negations": ("", "NOT ", "a"),
    "signs": ("a = ", "-", "1"),
    "sums": ("a = 1", "+a", ""),
    "products of sums": ("a = 1", "+a*a", ""),
    "comparisons of conditions": ("a", " = (a = a)", ""),
    "closed parentheses": ("", "(a)=(a) OR ", "a"),
    "open parentheses": ("", "(", ""),
    "closing parentheses": ("a", ")", ""),
    "open sums": ("a = ", "(a+", ""),
    "nested negations": ("", "NOT(", ""),
    "list of numbers": ("a IN (1", ",1", ")"),
    "list of strings": ("a IN (''", ",''", ")"),
    "open list": ("a IN (1", ", 1", ""),
    "patterns": ("a LIKE '%'", " OR a LIKE '%_a%'", ""),
    "long pattern": ("a LIKE '", "%_", "'"),
    "escaped pattern": ("a LIKE '", "!%", "' ESCAPE '!'"),
    "ranges": ("a BETWEEN 1 AND 2", " AND a BETWEEN 1 AND 2", ""),
    "open ranges": ("a", " BETWEEN 1", ""),
    "null tests": ("a IS NULL", " OR a IS NOT NULL", ""),
    "open string": ("a = '", "x", ""),
    "open string with quotes": ("a = '", "x''", ""),
    "quotes": ("a = ", "'", ""),
    "open name": ('"', "x", ""),
    "open name with quotes": ('"', 'x""', ""),
    "long string": ("a = '", "x", "'"),
    "long name": ("", "x", ""),
    "long number": ("a = ", "1", ""),
    "long number with a letter": ("a = ", "1", "x"),
    "long fraction": ("a = 1.", "1", ""),
    "long fraction with a letter": ("a = 1.", "1", "e1x"),
    "long exponent": ("a = 1e", "1", "x"),
    "long hexadecimal": ("a = 0x", "F", "x"),
    "dots": ("a = ", "1.", ""),
    "blanks": ("a", " ", "= 1"),
    "blanks at the end": ("a = 1", " ", ""),
    "lines": ("a", "\n", "= ="),
    "blanks and a wrong character": ("a", " ", ";"),
    "prefix": ("", " ", "convert_string_expressions:"),
    "prefixes": ("", "convert_string_expressions:", ""),
}  # fmt: skip


def text_of(name: str, length: int) -> str:
    begin, repeated, end = WORST[name]
    return begin + repeated * ((length - len(begin) - len(end)) // len(repeated)) + end


def cpu_us(text: str) -> float:
    """The CPU time of compiling a text, the least of a few attempts."""
    found = []
    for _ in range(5):
        compiler.compile_stored.cache_clear()
        began = time.process_time()
        try:
            compiler.compile(text)
        except Refused as refusal:
            assert refusal.code == "invalid-selector"  # noqa: PT017 - some of them are refused
        found.append((time.process_time() - began) * 1e6)
    return min(found)


@pytest.mark.parametrize("name", WORST)
def test_no_text_costs_more_than_its_characters(name: str) -> None:
    text = text_of(name, MAX_LENGTH)
    assert MAX_LENGTH - 32 <= len(text) <= MAX_LENGTH
    assert cpu_us(text) <= FIXED_US + MOST_US * len(text)


def test_longer_texts_are_refused_unread() -> None:
    text = text_of("terms", 4_000_000)
    with pytest.raises(Refused) as refused:
        compiler.compile(text)
    assert refused.value.code == "invalid-selector"
    assert refused.value.detail == f"the selector has {len(text):,} characters; at most 1,024 are allowed"
    assert cpu_us(text) <= FIXED_US


@pytest.mark.parametrize("name", WORST)
def test_texts_stay_within_the_recursion_of_python(name: str) -> None:
    text, limit = text_of(name, MAX_LENGTH), sys.getrecursionlimit()
    compiler.compile_stored.cache_clear()
    sys.setrecursionlimit(_depth() + 300)
    try:
        compiler.compile(text).matches(Message(Envelope("/queue/a", b""), b"", 1, 1, True), MessageIds(1))
    except Refused as refusal:
        assert refusal.code == "invalid-selector"  # noqa: PT017 - some of them are refused
    finally:
        sys.setrecursionlimit(limit)


def _depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    return depth
