"""Settings of destinations in the configuration of this broker and in the change record: which follows which.

A change here is one that has another version in the configuration than was seen before; it is entered in the
record. An entry of the record whose value the configuration has not is applied to it, unless the row has
changed meanwhile: that change is newer, and will be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from broker_app.features.cluster.record.change_record import DESTINATION, Change, ChangeRecord, Entry

#: changes of the configuration in one transaction
_BATCH: Final = 200


class DestinationRow(Protocol):
    """The settings of a destination or pattern, and the version of the configuration that wrote them."""

    @property
    def values(self) -> Mapping[str, Any]: ...

    @property
    def version(self) -> int: ...


Rows = Mapping[str, DestinationRow]


class WantedValues(NamedTuple):
    """The values that a row is to have, None for no row, if its version is `expected` (0: no row)."""

    values: dict[str, object] | None
    expected: int


class Applied(NamedTuple):
    """The version of the configuration that followed, 0 if nothing was changed; the versions of the rows that
    are as wanted (0 for those that were removed); and why others could not be written."""

    version: int
    rows: Mapping[str, int]
    faults: Mapping[str, str]


class DestinationChanges:
    """`note` enters changes in the record. `apply` begins to apply rows that a broker has changed, and calls
    `applied` when it has; one at a time."""

    def __init__(
        self,
        record: ChangeRecord,
        note: Callable[[Iterable[Change]], object],
        apply: Callable[[str, dict[str, WantedValues]], object],
    ) -> None:
        self._record = record
        self._note = note
        self._apply = apply
        #: the version up to which all changes of the configuration were seen
        self.version = 0
        #: entries that this broker cannot apply, with the reason
        self.faults: dict[str, str] = {}
        self._rows: Rows = {}
        self._rows_version = 0
        self._seen: dict[str, int] = {}
        self._values: dict[str, Mapping[str, Any]] = {}
        #: names whose entry is to be applied
        self._waiting: dict[str, None] = {}
        self._applying: dict[str, WantedValues] = {}

    def begin(self, version: int, rows: Rows, since: int, removed: Iterable[str]) -> None:
        """Compare the configuration with the record when the broker starts. What is newer than the version
        `since` has changed here, as have the rows that were `removed` since then; all else follows the
        record."""
        for name, row in rows.items():
            self._values[name] = row.values
            if row.version <= since:
                self._seen[name] = row.version
        for name in removed:
            if name not in rows and self._record.value(DESTINATION, name) is not None:
                self._seen[name] = 0
        self._mark(self._record.entries())
        self.policy_changed(version, rows)
        self._apply_next()

    def policy_changed(self, version: int, rows: Rows) -> None:
        """Enter what has changed in the configuration."""
        if version >= self.version:  # else it was read before what was applied last
            self.version = self._rows_version = version
            self._rows = rows
            self._compare()

    def _compare(self) -> None:
        rows, seen, changes = self._rows, self._seen, []
        for name, row in rows.items():
            if seen.get(name) != row.version and name not in self._applying:
                seen[name] = row.version
                self._values[name] = row.values
                changes.append(Change(DESTINATION, name, dict(row.values)))
        for name in [name for name in seen if name not in rows and name not in self._applying]:
            del seen[name]
            self._values.pop(name, None)
            changes.append(Change(DESTINATION, name, None))
        for change in changes:
            self._waiting.pop(change.name, None)
        if changes:
            self._note(changes)

    def entries_arrived(self, entries: Iterable[Entry]) -> None:
        """Apply entries of the record that differ from the configuration."""
        self._mark(entries)
        self._apply_next()

    def _mark(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.kind == DESTINATION:
                self.faults.pop(entry.name, None)
                if entry.name in self._applying or self._values.get(entry.name) != entry.value:
                    self._waiting[entry.name] = None
                else:
                    self._waiting.pop(entry.name, None)

    def _apply_next(self) -> None:
        """Apply the oldest entries that wait, those of one broker together."""
        if self._applying or not self._waiting:
            return
        first = self._record.get(DESTINATION, next(iter(self._waiting)))
        origin = first.origin if first is not None else ""
        for name in islice(tuple(self._waiting), _BATCH):
            entry = self._record.get(DESTINATION, name)
            if entry is None:  # deleted, and forgotten since
                del self._waiting[name]
            elif entry.origin == origin:
                del self._waiting[name]
                self._applying[name] = WantedValues(entry.value, self._seen.get(name, 0))
        if self._applying:
            self._apply(origin, self._applying)

    def applied(self, applied: Applied) -> None:
        """Take the outcome of an `apply`. A name that is in none of its parts has changed here meanwhile."""
        applying, self._applying = self._applying, {}
        for name, version in applied.rows.items():
            values = applying[name].values
            if values is None:
                self._seen.pop(name, None)
                self._values.pop(name, None)
            else:
                self._seen[name], self._values[name] = version, values
        self.version = max(self.version, applied.version)
        self.faults |= applied.faults
        if self._rows_version >= self.version:  # else newer rows come, and are looked at then
            self._compare()
        self._apply_next()
