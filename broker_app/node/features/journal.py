"""The journal, for those who read it."""

from __future__ import annotations

from broker_app.net.http.routing import Handlers
from broker_app.net.rest.journal.cursor_status import CursorStatus
from broker_app.net.rest.journal.cursors import CursorEndpoints
from broker_app.net.rest.journal.frames import JournalEndpoints
from broker_app.net.rest.journal.journal_rights import JournalRights
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.telemetry.lag_samples import LagSamples


class JournalFeature(Feature):
    """Serves the journal's frames, and the positions of its readers."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self.lags = LagSamples(self._lags)
        self.cursors = CursorStatus(parts.journal, self.lags)

    def endpoints(self) -> Handlers:
        """`/journal` and `/cursors`."""
        journal, rest = self._parts.journal, self._parts.rest
        rights = JournalRights(rest.engine_client)
        cursors = CursorEndpoints(journal, rights, self.cursors)
        return {
            **JournalEndpoints(journal, self._parts.config.name, rights, rest.waiting).handlers(),
            "list_cursors": cursors.all,
            "get_cursor": cursors.one,
            "set_cursor": cursors.put,
            "drop_cursor": cursors.drop,
        }

    def _lags(self) -> dict[str, int]:
        """The positions that each reader has not read."""
        journal = self._parts.journal
        end = journal.span().end
        return {name: max(0, end - state.position) for name, state in journal.cursors().items()}

    def each_second(self) -> None:
        """Sample how far the readers are behind."""
        self.lags.pass_second()
