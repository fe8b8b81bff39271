"""The name that was probably meant, for the ends of refusals."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Final

#: names that are compared, which takes about 10 µs each
MOST: Final = 1_000


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a sentence with the most similar known name; empty if none is similar."""
    # Without the dashes of options, which all of them have in common.
    names = {name.lstrip("-"): name for name in islice(known, MOST)}
    near = difflib.get_close_matches(word[:100].lstrip("-"), names, n=1)
    return f"; did you mean {names[near[0]]}?" if near else ""
