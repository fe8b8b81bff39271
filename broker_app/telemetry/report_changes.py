"""Reports that are due for listeners: at once when a state changed, otherwise every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from broker_app.base.reply_types import Facts

#: seconds between two reports of which nothing but figures has changed
PAUSE_S: Final = 5.0


class ReportChanges:
    """`read` yields the status of all things of a kind, each with its `name`; `brief` makes a report of it.

    `state` returns the part of a report that is reported at once. `gone` has the members of the last report
    of something that was deleted.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Facts]],
        brief: Callable[[Facts], Facts],
        state: Callable[[Facts], Any],
        gone: Mapping[str, Any],
    ) -> None:
        self.read = read
        self._brief = brief
        self._state = state
        self._gone = gone
        #: by name: the report that was published last, and when
        self._published: dict[str, tuple[Facts, float]] = {}

    def due(self, now_s: float) -> Iterator[Facts]:
        """Yield the reports to publish now, and remember them as published.

        What was deleted is reported once more.
        """
        deleted = dict(self._published)
        for facts in self.read():
            report, name = self._brief(facts), facts["name"]
            deleted.pop(name, None)
            last, at_s = self._published.get(name, (None, 0.0))
            changed = last is None or self._state(last) != self._state(report)
            if changed or (last != report and now_s - at_s >= PAUSE_S):
                self._published[name] = report, now_s
                yield report
        for name, (last, _) in deleted.items():
            del self._published[name]
            yield {**last, **self._gone}

    def forget(self) -> None:
        """There are no subscribers any more."""
        self._published.clear()
