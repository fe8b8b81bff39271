"""The table of states of docs/design/README.md, as the pages show them."""

import re
from typing import NamedTuple

from tests.docs.design.folder import FOLDER

_ROW = re.compile(r"\| ([\w ]+) \| `([\w -]+)` \| ([^|]+) \| `([\w-]+)` \| `([\w-]+)` \| ([^|]+) \|")


class State(NamedTuple):
    """A row of the table: `of` is the kind of thing that has the state, `key` its name in the API."""

    of: str
    key: str
    label: str
    icon: str
    tone: str
    meaning: str


def states() -> dict[tuple[str, str], State]:
    """Every state by what has it and by its key."""
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = [State(*row) for row in _ROW.findall(readme)]
    return {(row.of, row.key): row for row in rows}
