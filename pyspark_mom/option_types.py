"""Types of options: each checks the text of an option and converts it, or raises ValueError with the
reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pyspark_mom.errors import InvalidOption

#: longest value, characters
MAX_TEXT: Final = 1_000_000
#: the scheme of addresses of directories
FILE: Final = "file"
#: schemes of addresses of brokers themselves
HTTP: Final = ("http", "https")
_FAILOVER: Final = "failover:"
_BOOLEANS: Final = {"true": True, "false": False}


class Option(NamedTuple):
    """An option: the field of the object that holds them all; what checks the text and converts it; default
    and meaning, as docs/pipeline.md has them."""

    field: str
    convert: Callable[[str], Any]
    default: str
    meaning: str


#: options by their names
OptionTable = Mapping[str, Option]


def values(given: Mapping[str, str], table: OptionTable) -> Iterator[tuple[str, Any]]:
    """The fields of the options that are given, and their values. Raises InvalidOption, which names the
    option."""
    known = {name.lower(): name for name in table}
    for lower, text in given.items():
        name = known.get(lower.lower())
        if name is None:
            raise InvalidOption(f"there is no option {lower!r}{_hint(lower, table)}")
        if len(text) > MAX_TEXT:
            raise InvalidOption(f"{name}: {len(text)} characters; at most {MAX_TEXT} are allowed")
        option = table[name]
        try:
            yield option.field, option.convert(text.strip())
        except ValueError as error:
            raise InvalidOption(f"{name}: {error}") from None


def _hint(unknown: str, table: OptionTable) -> str:
    similar = get_close_matches(unknown.lower(), [name.lower() for name in table], 1)
    if similar:
        return f"; did you mean {next(name for name in table if name.lower() == similar[0])}?"
    return f"; the options are {', '.join(table)}"


def choice(*choices: str) -> Callable[[str], str]:
    """One of these texts."""

    def convert(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return convert


def boolean(text: str) -> bool:
    """True or false."""
    if text.lower() not in _BOOLEANS:
        raise ValueError(f"{text!r} is neither true nor false")
    return _BOOLEANS[text.lower()]


def number(least: int, most: int) -> Callable[[str], int]:
    """A whole number within bounds."""

    def convert(text: str) -> int:
        if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or not least <= int(text) <= most:
            raise ValueError(f"{text[:40]!r} is not a whole number from {least} to {most}")
        return int(text)

    return convert


def label(text: str) -> str:
    """A name of up to 255 characters."""
    if not 1 <= len(text) <= 255 or not text.isprintable():
        raise ValueError("1 to 255 printable characters are needed")
    return text


def address(*schemes: str) -> Callable[[str], str]:
    """An address of one of these schemes, without a password."""

    def convert(text: str) -> str:
        try:
            parts = urlsplit(text)
            parts.port  # noqa: B018 -- it raises for a wrong one
        except ValueError as error:
            raise ValueError(f"not an address: {error}") from None
        if parts.scheme not in schemes:
            raise ValueError(f"{parts.scheme or text[:40]!r} is no scheme of an address here; use {usable}")
        if parts.password is not None or "password=" in parts.query.lower():
            raise ValueError(
                "the address contains a password, which is visible in the plan of the query; leave "
                "it out, and name with credential an environment variable or a file with USER:PASSWORD"
            )
        if parts.scheme == FILE:
            if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
                raise ValueError("a directory is written file:///absolute/path")
        elif not parts.hostname:
            raise ValueError("the address has no host")
        return text

    usable = " or ".join((", ".join(schemes[:-1]), schemes[-1]))
    return convert


def addresses(*schemes: str) -> Callable[[str], str]:
    """An address of one of these schemes; or those of a broker and its mirrors over HTTP, as a list with
    commas, or as `failover:(…)`. The value is the list."""
    one, of_broker = address(*schemes), address(*HTTP)

    def convert(text: str) -> str:
        if not text.startswith((_FAILOVER, *(f"{scheme}:" for scheme in HTTP))):
            return one(text)
        listed = text.removeprefix(_FAILOVER)
        if listed != text:
            listed = listed.removeprefix("//")
            if listed.startswith("("):
                listed, _, options = listed[1:].partition(")")
                if options:
                    raise ValueError(
                        f"the options {options[:40]!r} of failover are not for Spark; leave them out"
                    )
        return ",".join(of_broker(each.strip()) for each in listed.split(","))

    return convert


def credential(text: str) -> str:
    """The place of a secret."""
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*|.*/.*", text):
        raise ValueError(
            "the name of an environment variable, in capitals, or the path of a file, that contains a token "
            "or USER:PASSWORD is needed, and never the secret itself"
        )
    return text
