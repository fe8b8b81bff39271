"""The one-line form of a filter: `reason:schema header.tenant:"acme ltd" age_gt_s:3600 any words`.

Words of the form `name:value` are fields of the filter, all others are looked for as text. Quotes
hold blanks together; a word that is quoted from its first character on is text, colon or not.
"""

from __future__ import annotations

import re
from typing import Any

_HEADER = "header."
_NUMBERS = ("age_gt_s", "age_lt_s")
_TEXTS = ("selector", "reason", "origin", "q", "state")
NAMES = (*_NUMBERS, *_TEXTS, "id", "header.<name>")

#: quantifiers that give nothing back: a client chooses the text
_WORD = re.compile(r'(?:(?P<name>[A-Za-z_][\w.-]*+):)?(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<plain>\S++))')


def parse(text: str) -> dict[str, Any]:
    """The members of a filter. Raises ValueError with a sentence that names what is wrong."""
    found: dict[str, Any] = {}
    words: list[str] = []
    for match in _WORD.finditer(text):
        value = match["plain"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
        if match["name"] is None:
            words.append(value)
        else:
            _add(found, match["name"], value)
    if words:
        _once(found, "q", " ".join(words))
    return found


def _add(found: dict[str, Any], name: str, value: str) -> None:
    if name == "id":
        found.setdefault("ids", []).append(value)
    elif name.startswith(_HEADER) and len(name) > len(_HEADER):
        _once(found.setdefault("headers", {}), name.removeprefix(_HEADER), value)
    elif name in _NUMBERS:
        try:
            _once(found, name, float(value))
        except ValueError:
            raise ValueError(f"{name}:{value}: a number of seconds is needed") from None
    elif name in _TEXTS:
        _once(found, name, value)
    else:
        raise ValueError(f"there is no field {name!r}; known are {', '.join(NAMES)}")


def _once(found: dict[str, Any], name: str, value: object) -> None:
    if name in found:
        raise ValueError(f"{name} is given twice")
    found[name] = value
