"""The permission to read the journal, which has the messages of all destinations."""

from __future__ import annotations

from broker_app.base.refused import Refused
from broker_app.engine.client import EngineClient
from broker_app.net.http.requests import Request
from broker_app.net.policy.policy import READ_JOURNAL


class JournalRights:
    """Checks requests of readers of the journal."""

    def __init__(self, engine_client: EngineClient) -> None:
        self._engine_client = engine_client

    def permit(self, request: Request) -> None:
        """Raise Refused without the right, and when this broker does not hold the journal any more."""
        if not request.access.may_read_journal(request.client.identity):
            raise Refused(
                "not-allowed",
                "the journal has the messages of all destinations: administrators may read it, with a token "
                f"only if one of its grants has the right {READ_JOURNAL}",
                right=READ_JOURNAL,
            )
        self._engine_client.check_alive()
