"""Patterns of destinations: `*` stands for any characters of one level, `>` as the last level for all that
follow.

A pattern that begins with "/" is compared with addresses ("/queue/orders.eu"), another one with names
("orders.eu").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from broker_app.base import wildcards

#: longest pattern, characters
MAX_PATTERN: Final = 1024
_REST: Final = ">"
#: regular expressions of any kind of destination, and of any text of one level
_ANY_OF_KIND: Final = "[^/]*"
_ANY_OF_LEVEL: Final = "[^.]*"

Fits = Callable[[str], bool]


def matcher(patterns: Sequence[str]) -> Fits:
    """Return True for the addresses that one of the patterns matches; for all without patterns."""
    if not patterns:
        return lambda address: True
    compiled = [_compiled(pattern) for pattern in patterns]
    return lambda address: any(fits(address) for fits in compiled)


def _compiled(pattern: str) -> Fits:
    wanted_kind = wildcards.ANY
    if pattern.startswith("/"):
        wanted_kind, _, pattern = pattern[1:].partition("/")
    fits_kind, fits_name = wildcards.matcher(wanted_kind), _levels(pattern)

    def fits(address: str) -> bool:
        kind, _, name = address.removeprefix("/").partition("/")
        return fits_kind(kind) and fits_name(name)

    return fits


def _levels(pattern: str) -> Fits:
    levels = pattern.split(".")
    rest = levels[-1] == _REST
    wanted = [wildcards.matcher(level) for level in (levels[:-1] if rest else levels)]

    def fits(name: str) -> bool:
        found = name.split(".")
        if len(found) <= len(wanted) if rest else len(found) != len(wanted):
            return False
        return all(each(level) for each, level in zip(wanted, found, strict=False))

    return fits


def regex(pattern: str) -> str:
    """The regular expression, for Java and Python, of the addresses that a pattern matches."""
    kind = _ANY_OF_KIND
    if pattern.startswith("/"):
        wanted, _, pattern = pattern[1:].partition("/")
        kind = _piece(wanted, _ANY_OF_KIND)
    levels = pattern.split(".")
    rest = levels[-1] == _REST
    name = [_piece(level, _ANY_OF_LEVEL) for level in (levels[:-1] if rest else levels)]
    # The end of a text has another sign in each language.
    return rf"(?s)\A/?{kind}/{'[.]'.join([*name, '.*'] if rest else name)}(?!.)"


def _piece(pattern: str, any_of: str) -> str:
    return any_of.join(re.escape(part) for part in pattern.split(wildcards.ANY))
