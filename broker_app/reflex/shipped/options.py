"""Options of shipped reflexes: which there are, and the errors of those that are given."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Options = Mapping[str, Any]


class Option(NamedTuple):
    """One option: `check` returns the error of a value, or nothing."""

    name: str
    about: str
    check: Callable[[Any], str]
    required: bool = False


def faults(table: tuple[Option, ...], options: Options) -> list[str]:
    """The errors of options, one sentence each."""
    known = {option.name: option for option in table}
    found = [_unknown(name, known) for name in options if name not in known]
    for option in table:
        if option.name in options:
            error = option.check(options[option.name])
            if error:
                found.append(f"option {option.name} {error}")
        elif option.required:
            found.append(f"option {option.name} is missing: {option.about}")
    return found


def _unknown(name: str, known: Mapping[str, Option]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none'}"
    return f"there is no option {name[:80]!r}; {hint}"


def text(value: Any) -> str:
    """The error of a value that must be a text."""
    return "" if isinstance(value, str) and value else "must be a text"


def texts(value: Any) -> str:
    """The error of a value that must be a list of texts."""
    right = isinstance(value, list) and all(isinstance(one, str) and one for one in value)
    return "" if right else "must be a list of texts"


def text_map(value: Any) -> str:
    """The error of a value that must be an object of texts."""
    right = isinstance(value, Mapping) and all(
        isinstance(name, str) and name and isinstance(one, str) for name, one in value.items()
    )
    return "" if right else "must be an object whose members are texts"


def positive(value: Any) -> str:
    """The error of a value that must be a number above 0."""
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9
    return "" if right else "must be a number above 0"


def one_of(*choices: str) -> Callable[[Any], str]:
    """A check for one of some texts."""
    return lambda value: "" if value in choices else f"must be one of {', '.join(choices)}"
