"""Cursors as JSON: how far they are behind, now and during the last half hour, and what was let go."""

from __future__ import annotations

import time
from typing import Annotated, TypedDict

from msgspec import Meta

from broker_app.base.refused import Refused
from broker_app.base.reply_types import Count, Seconds, Time, about
from broker_app.journal.log.cursors import MAX_CURSORS
from broker_app.journal.port import CursorState, Journal
from broker_app.net.rest.journal.journal_log import JournalLog
from broker_app.net.rest.messages import message_json
from broker_app.telemetry.lag_samples import KEPT, STEP_S, LagSamples

_MICRO = 1_000_000

LostPositions = TypedDict("LostPositions", {"from": Count, "to": Count})


class Cursor(TypedDict):
    """The progress of a reader of the journal."""

    name: str
    position: Annotated[Count, about("everything before it was read")]
    reported_at: Time
    lag: Annotated[Count, about("positions that were not read")]
    lag_s: Annotated[
        Seconds | None,
        about("seconds since the first batch that was not read; null if it is no longer stored"),
    ]
    lags: Annotated[
        list[Count],
        Meta(
            max_length=KEPT,
            description=f"`lag` every {STEP_S} seconds of the last half hour, oldest first",
        ),
    ]
    lost: Annotated[
        LostPositions | None,
        about("positions that were not read and are no longer stored, end exclusive"),
    ]
    keeps_log: Annotated[bool, about("false: it was not reported for too long")]


class Cursors(TypedDict):
    """All cursors, and the positions that are stored."""

    items: Annotated[list[Cursor], Meta(max_length=MAX_CURSORS)]
    low: Annotated[Count, about("from here on everything is stored")]
    end: Annotated[Count, about("the position after the last durable record")]


class CursorStatus:
    """Shows cursors of a journal; `lags` are samples of them."""

    def __init__(self, journal: Journal, lags: LagSamples) -> None:
        self._journal = journal
        self._log = JournalLog(journal)
        self._lags = lags

    async def all(self) -> Cursors:
        """All cursors, and the positions that are stored."""
        low, end = self._log.span()
        items = [await self.one(name, state) for name, state in self._journal.cursors().items()]
        return {"items": items, "low": low, "end": end}

    async def one(self, name: str, state: CursorState) -> Cursor:
        """A cursor."""
        end = self._log.span().end
        return {
            "name": name,
            "position": state.position,
            "reported_at": message_json.rfc3339(state.reported_us // 1000).decode(),
            "lag": max(0, end - state.position),
            "lag_s": await self._lag_s(state),
            "lags": self._lags.of(name),
            "lost": None if state.lost is None else {"from": state.lost.low, "to": state.lost.end},
            "keeps_log": state.keeps_log,
        }

    async def _lag_s(self, state: CursorState) -> float | None:
        """Seconds since the first batch that was not read; 0 at the end, None if it is no longer stored."""
        try:
            time_us = await self._log.time_us(state.position)
        except Refused:
            return None
        return 0.0 if time_us is None else round(max(0.0, time.time() - time_us / _MICRO), 3)
