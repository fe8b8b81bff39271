"""The journal over HTTP: stored frames, as they are, for readers that follow the log while it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from broker_app.base import times
from broker_app.base.audit_actions import JOURNAL_READ
from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.journal import codec
from broker_app.journal.port import Journal, LogRun, Span
from broker_app.net.http.long_poll import WaitingRequest, WaitingRequests
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Header, Reply, json_reply
from broker_app.net.http.requests import Departed, Request, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.journal.journal_log import HISTORY_GONE, JournalLog
from broker_app.net.rest.journal.journal_rights import JournalRights
from broker_app.net.rest.messages import message_json

MEDIA_TYPE = b"application/vnd.mom.journal"
#: most bytes of one read, unless a batch is larger
CHUNK_BYTES = 1024 * 1024
#: replies with frames at the same time, node-wide
MAX_READERS = 8
#: seconds that a client may take for one chunk
CHUNK_S = 60.0
MAX_POSITION = 10**15 - 1
_MAX_BYTES = 10**12


class JournalEndpoints:
    """Endpoints below `journal`; `name` is that of the broker."""

    def __init__(
        self,
        journal: Journal,
        name: str,
        rights: JournalRights,
        waiting: WaitingRequests,
    ) -> None:
        self._journal = journal
        self._log = JournalLog(journal)
        self._name = name
        self._rights = rights
        self._waiting = waiting
        self._readers = Shares(lambda: MAX_READERS, "replies with frames of the journal")

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "get_journal_span": self.span,
            "get_journal_batches": self.batches,
            "get_journal_position": self.position,
        }

    async def span(self, request: Request) -> Reply:
        """GET journal/span"""
        request.query()
        self._rights.permit(request)
        (low, end), first, last = await self._dated_span()
        journal = self._journal
        return json_reply(
            {
                "broker": self._name,
                "journal": f"{journal.tag:x}",
                "epoch": journal.epoch,
                "low": low,
                "end": end,
                "low_time": first,
                "end_time": last,
            }
        )

    async def _dated_span(self) -> tuple[Span, str | None, str | None]:
        """The span, and the times of its first and its last batch."""
        while True:
            span = self._log.span()
            if span.low == span.end:
                return span, None, None
            try:
                return span, await self._time(span.low), await self._time(span.end - 1)
            except Refused as refusal:
                if refusal.code != HISTORY_GONE:
                    raise  # else the beginning was let go meanwhile: there is another one

    async def position(self, request: Request) -> Reply:
        """GET journal/position?time="""
        query = request.query(("time",))
        self._rights.permit(request)
        ms = times.milliseconds(query.get("time", ""))
        if ms is None:
            raise invalid("query/time", "must be a time with its zone, such as 2026-11-21T10:00:00Z")
        position = await self._log.position_at(ms * 1000)
        low, end = self._log.span()
        return json_reply({"position": position, "low": low, "end": end, "time": await self._time(position)})

    async def batches(self, request: Request) -> Reply | None:
        """GET journal/batches?from=&to=: the stored frames with positions of [from, to). The first read comes
        before the reply, so that what is not stored is refused; a reply that ends early is continued by a
        request for the rest, which is refused then."""
        query = request.query(("from", "to", "max_bytes"))
        self._rights.permit(request)
        wanted = self._wanted(query)
        left = whole_number(query, "max_bytes", _MAX_BYTES, 1, _MAX_BYTES)
        headers: tuple[Header, ...] = (
            (b"mom-journal", b"%x/%d" % (self._journal.tag, self._journal.epoch)),
            (b"mom-journal-end", b"%d" % self._log.span().end),
        )
        if request.method == "HEAD" or wanted.low == wanted.end:
            return Reply(200, MEDIA_TYPE, b"", headers)
        with self._reading(request) as wait:
            await self._send_frames(request, wait, wanted, left, headers)
        return None

    @contextmanager
    def _reading(self, request: Request) -> Iterator[WaitingRequest]:
        """Count a reply with frames; it ends when its client loses its login. Raises Refused if there are
        too many."""
        with self._readers.taken(request.user, admin=request.is_admin):
            wait = self._waiting.enter(request.client)
            try:
                yield wait
            finally:
                self._waiting.leave(wait)

    def _wanted(self, query: dict[str, str]) -> Span:
        """The positions that a query names, which are stored. Raises Refused."""
        low, end = self._log.span()
        found = Span(
            whole_number(query, "from", low, 0, MAX_POSITION),
            whole_number(query, "to", end, 0, MAX_POSITION),
        )
        for position in found:
            self._log.check(position)
        if found.low > found.end:
            raise invalid("query/to", f"must not be before from, {found.low}", found.end)
        return found

    async def _send_frames(
        self, request: Request, wait: WaitingRequest, wanted: Span, left: int, headers: tuple[Header, ...]
    ) -> None:
        run = await self._log.read(wanted.low, min(left, CHUNK_BYTES))
        head = [
            *request.reply_headers,
            *headers,
            (b"content-type", MEDIA_TYPE),
            (b"cache-control", b"no-store"),
        ]
        await request.send({"type": "http.response.start", "status": 200, "headers": head})
        gone = asyncio.ensure_future(request.wait_departed())
        try:
            while True:
                frames = _before(run, wanted.end)
                await self._send(request, frames, more=True)
                request.audit_read(JOURNAL_READ, self._name, run.next_position - run.position)
                left -= len(frames)
                if run.next_position >= wanted.end or left <= 0 or gone.done() or wait.ended:
                    break
                try:
                    run = await self._log.read(run.next_position, min(left, CHUNK_BYTES))
                except Refused:
                    break
                if len(run.frames) > left:
                    break
        finally:
            gone.cancel()
        await self._send(request, b"", more=False)

    async def _send(self, request: Request, body: bytes, *, more: bool) -> None:
        """Send a chunk, and wait until the client has taken most of it."""
        try:
            async with asyncio.timeout(CHUNK_S):
                await request.send({"type": "http.response.body", "body": body, "more_body": more})
        except TimeoutError:
            raise Departed from None

    async def _time(self, position: int) -> str | None:
        """The time when the batch of a position was written, in RFC 3339; None at the end of the log."""
        time_us = await self._log.time_us(position)
        return None if time_us is None else message_json.rfc3339(time_us // 1000).decode()


def _before(run: LogRun, end: int) -> bytes:
    """The frames of a run that begin before the position `end`."""
    if run.next_position <= end:
        return run.frames
    for at, frame in codec.frames_of(run.frames):
        if frame.first_position >= end:
            return run.frames[:at]
    return run.frames
