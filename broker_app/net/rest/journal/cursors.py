"""Cursors over HTTP: how far programs have read the journal, which keeps the log for them."""

from __future__ import annotations

import asyncio

import msgspec

from broker_app.base.audit_actions import CURSOR_DELETED
from broker_app.base.refused import Refused
from broker_app.base.shares import reserve
from broker_app.core.position import Position
from broker_app.journal.errors import JournalError, TooManyCursors
from broker_app.journal.log import cursors
from broker_app.journal.port import CursorState, Journal
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.rest.journal.cursor_status import CursorStatus
from broker_app.net.rest.journal.journal_log import JournalLog
from broker_app.net.rest.journal.journal_rights import JournalRights


class CursorPosition(msgspec.Struct, forbid_unknown_fields=True):
    """Everything before `position` was read: a number, or `<tag>-<seq>`."""

    position: int | str


class CursorEndpoints:
    """Endpoints `pipeline/cursors…`."""

    def __init__(self, journal: Journal, rights: JournalRights, status: CursorStatus) -> None:
        self._journal = journal
        self._log = JournalLog(journal)
        self._rights = rights
        self._status = status

    async def all(self, request: Request) -> Reply:
        """GET pipeline/cursors"""
        request.query()
        self._rights.permit(request)
        return json_reply(await self._status.all())

    async def one(self, request: Request) -> Reply:
        """GET pipeline/cursors/{name}"""
        request.query()
        self._rights.permit(request)
        return json_reply(await self._status.one(request.name, self._known(request)))

    async def put(self, request: Request) -> Reply:
        """PUT pipeline/cursors/{name}"""
        request.query()
        self._rights.permit(request)
        if cursors.NAME.fullmatch(request.name) is None:
            raise invalid("path", "a cursor has a name of 1 to 100 characters: a-z, 0-9, '.', '_', ':', '-'")
        body = await request.json(CursorPosition)
        position = self._own(body.position)
        self._log.check(position)
        self._check_room(request)
        stored = _Stored()
        self._journal.set_cursor(request.name, position, stored)
        await stored.wait()
        return json_reply(await self._status.one(request.name, self._known(request)))

    async def drop(self, request: Request) -> Reply:
        """DELETE pipeline/cursors/{name}"""
        request.query()
        self._rights.permit(request)
        state = self._known(request)
        stored = _Stored()
        self._journal.drop_cursor(request.name, stored)
        await stored.wait()
        request.audit(CURSOR_DELETED, request.name, position=state.position)
        return NO_CONTENT

    def _own(self, given: int | str) -> int:
        """A position in this journal. Raises Refused for one of another."""
        position = Position.of(given)
        if position is None:
            raise invalid("/position", "must be a position: a number, or <tag>-<seq>", given)
        own = f"{self._journal.tag:x}"
        if position.journal not in ("", own):
            detail = f"position {position} is of another journal than that of this broker, {own}"
            raise Refused("conflict", detail)
        return position.seq

    def _check_room(self, request: Request) -> None:
        """Raises Refused if the last new cursors are reserved for administrators."""
        known, reserved = self._journal.cursors(), reserve(cursors.MAX_CURSORS)
        left = cursors.MAX_CURSORS - len(known)
        if request.name not in known and left <= reserved and not request.is_admin:
            raise Refused(
                "conflict",
                f"there are {len(known)} cursors already; of {cursors.MAX_CURSORS} the last {reserved} are "
                "reserved for administrators: drop one that is not used",
            )

    def _known(self, request: Request) -> CursorState:
        state = self._journal.cursors().get(request.name)
        if state is None:
            raise Refused("not-found", f"there is no cursor {request.name[:100]!r}")
        return state


class _Stored:
    """Waits until a change of the cursors is durable."""

    def __init__(self) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __call__(self, error: BaseException | None) -> None:
        if self._future.done():  # the request has ended
            return
        if error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(error)

    async def wait(self) -> None:
        """Raises Refused."""
        try:
            await self._future
        except TooManyCursors as error:
            raise Refused("conflict", str(error)) from error
        except JournalError as error:
            raise Refused("store-unavailable", f"the cursor is not stored: {error}") from error
