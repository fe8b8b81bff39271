"""Errors: what is wrong with a file, and where exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_app.zero.file_reader import Fingerprint
from broker_app.zero.positions import Place, Source

LookedFor = Mapping[str, Fingerprint | None]

#: errors of one load that are told
MOST = 50


class ZeroError(ValueError):
    """One thing that is wrong: `detail` says what and how to fix it, `marker` shows the place."""

    def __init__(self, place: Place, detail: str, marker: str = "") -> None:
        super().__init__(detail)
        self.place = place
        self.detail = detail
        self.marker = marker

    @property
    def file(self) -> str:
        return self.place.file

    @property
    def line(self) -> int:
        return self.place.line

    @property
    def column(self) -> int:
        return self.place.column

    def __str__(self) -> str:
        shown = "".join(f"\n    {line}" for line in self.marker.splitlines())
        return f"{self.place}: {self.detail}{shown}"


class Bad(ValueError):
    """Files that cannot be used, with all that is wrong with them, by file and place.

    `looked_for` are all files that were tried, and the fingerprints of those that could be read: when one of
    them changes, another attempt is due.
    """

    def __init__(self, errors: Iterable[ZeroError], looked_for: LookedFor) -> None:
        self.errors = list(errors)
        self.looked_for = looked_for
        super().__init__("\n".join(map(str, self.errors)))


class Errors:
    """Gathers the errors of one load, each once; and warnings, in spite of which it holds."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}
        self.warnings: list[ZeroError] = []
        self._found: dict[tuple[Place, str], ZeroError] = {}

    def add(self, place: Place, detail: str) -> None:
        """One more; those beyond `MOST` are not kept."""
        if len(self._found) < MOST:
            self._found.setdefault((place, detail), self._at(place, detail))

    def warn(self, place: Place, detail: str) -> None:
        """One more warning; those beyond `MOST` are not kept."""
        if len(self.warnings) < MOST:
            self.warnings.append(self._at(place, detail))

    def _at(self, place: Place, detail: str) -> ZeroError:
        source = self.sources.get(place.file)
        return ZeroError(place, detail, source.marker(place) if source is not None else "")

    def bad(self, looked_for: LookedFor) -> Bad:
        """All of them, as an exception."""
        order = {name: index for index, name in enumerate(self.sources)}
        key = lambda error: (order.get(error.file, -1), error.line, error.column)  # noqa: E731
        return Bad(sorted(self._found.values(), key=key), looked_for)

    def __bool__(self) -> bool:
        return bool(self._found)
