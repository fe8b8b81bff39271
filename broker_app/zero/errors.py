"""Errors in files, with their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_app.zero.file_reader import Fingerprint
from broker_app.zero.positions import Position, SourceText

LookedFor = Mapping[str, Fingerprint | None]

#: errors of one load that are reported
MOST = 50


class ZeroError(ValueError):
    """One error: `detail` describes it and how to fix it, `marker` shows its position."""

    def __init__(self, position: Position, detail: str, marker: str = "") -> None:
        super().__init__(detail)
        self.position = position
        self.detail = detail
        self.marker = marker

    @property
    def file(self) -> str:
        return self.position.file

    @property
    def line(self) -> int:
        return self.position.line

    @property
    def column(self) -> int:
        return self.position.column

    def __str__(self) -> str:
        shown = "".join(f"\n    {line}" for line in self.marker.splitlines())
        return f"{self.position}: {self.detail}{shown}"


class InvalidFiles(ValueError):
    """Files that cannot be used, with all errors sorted by file and position.

    `looked_for` has all files that were tried, with the fingerprints of those that could be read. When one of
    them changes, the load is repeated.
    """

    def __init__(self, errors: Iterable[ZeroError], looked_for: LookedFor) -> None:
        self.errors = list(errors)
        self.looked_for = looked_for
        super().__init__("\n".join(map(str, self.errors)))


class Errors:
    """Collects the errors of one load, each once, and warnings, which do not make the files invalid."""

    def __init__(self) -> None:
        self.sources: dict[str, SourceText] = {}
        self.warnings: list[ZeroError] = []
        self._found: dict[tuple[Position, str], ZeroError] = {}

    def add(self, position: Position, detail: str) -> None:
        """Add an error; those beyond `MOST` are dropped."""
        if len(self._found) < MOST:
            self._found.setdefault((position, detail), self._at(position, detail))

    def warn(self, position: Position, detail: str) -> None:
        """Add a warning; those beyond `MOST` are dropped."""
        if len(self.warnings) < MOST:
            self.warnings.append(self._at(position, detail))

    def _at(self, position: Position, detail: str) -> ZeroError:
        source = self.sources.get(position.file)
        return ZeroError(position, detail, source.marker(position) if source is not None else "")

    def bad(self, looked_for: LookedFor) -> InvalidFiles:
        """All of them, as an exception."""
        order = {name: index for index, name in enumerate(self.sources)}
        key = lambda error: (order.get(error.file, -1), error.line, error.column)  # noqa: E731
        return InvalidFiles(sorted(self._found.values(), key=key), looked_for)

    def __bool__(self) -> bool:
        return bool(self._found)
