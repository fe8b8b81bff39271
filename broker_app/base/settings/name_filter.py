"""Filters of names of brokers, as ActiveMQ's users write them: regular expressions, by comma."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: characters of a filter; each part is matched against names of at most 64 characters
MOST_CHARACTERS: Final = 500
#: what may be repeated at most once in a part: nested repetitions take for ever on names that do not match
_NESTED: Final = re.compile(r"\([^)]*[*+{][^)]*\)[*+{]")


class NameFilter(NamedTuple):
    """Matches a name that one of the `parts` matches completely; without parts, all. `globs` are those that
    are no regular expressions, and were taken for globs."""

    parts: tuple[re.Pattern[str], ...]
    globs: tuple[str, ...]

    def accepts(self, name: str) -> bool:
        """Return whether a broker with this name is offered to clients."""
        return not self.parts or any(part.fullmatch(name) for part in self.parts)


def parse(text: str) -> NameFilter:
    """The filter that a text describes. Raises ValueError with the position of what is wrong."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it has {len(text)} characters; at most {MOST_CHARACTERS} are allowed")
    parts, globs, at = [], [], 0
    for piece in text.split(","):
        part = piece.strip()
        if part:
            if _NESTED.search(part):
                raise ValueError(f"{part!r} repeats a repetition, which takes too long: write .* instead")
            try:
                parts.append(re.compile(part))
            except re.error as error:
                if not _is_glob(part):
                    position = at + piece.index(part) + (error.pos or 0) + 1
                    raise ValueError(
                        f"{part!r} is no regular expression: {error.msg} at position {position}; write .*A.* "
                        "for names that contain A, A.* for names that begin with it"
                    ) from None
                parts.append(re.compile(_of_glob(part)))
                globs.append(part)
        at += len(piece) + 1
    return NameFilter(tuple(parts), tuple(globs))


def _is_glob(part: str) -> bool:
    """Return whether a text has nothing but characters of names, and wildcards."""
    return re.fullmatch(r"[\w.*?-]+", part) is not None


def _of_glob(part: str) -> str:
    """The regular expression of a glob."""
    return "".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in part)
