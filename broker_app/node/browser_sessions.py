"""Browser sessions: closes what a session of the console has opened, when that session ends."""

from __future__ import annotations

import asyncio
import logging

from broker_app.net.auth.login import Logins
from broker_app.net.json import JsonServer
from broker_app.net.rest import RestApi
from broker_app.net.stomp.session_registry import SessionRegistry

log = logging.getLogger(__name__)

#: seconds between two checks for sessions that have expired, or that another process ended
_CHECK_S = 5.0


class BrowserSessions:
    """Follows the sessions of browsers that have connections or waiting requests here."""

    def __init__(self, logins: Logins, registry: SessionRegistry, json: JsonServer, rest: RestApi) -> None:
        self._logins = logins
        self._registry = registry
        self._json = json
        self._rest = rest

    def end(self, session: str) -> None:
        """Close what a session has opened."""
        self._logins.end_session(session)
        self._registry.recheck_logins()
        self._json.recheck_logins()
        self._rest.policy_changed()

    async def run(self) -> None:
        """Check all sessions again and again."""
        while True:
            await asyncio.sleep(_CHECK_S)
            try:
                ended = await self._logins.ended_sessions([*self._logins.present(), *self._rest.waiting()])
            except Exception as error:  # of the configuration database; the next round tries again
                log.warning("cannot check browser sessions: %s", error)
                continue
            for session in ended:
                self.end(session)
