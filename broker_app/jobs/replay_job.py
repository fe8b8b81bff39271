"""Replaying: what a topic retains, put into a queue."""

from __future__ import annotations

from collections.abc import Sequence

from broker_app.core import commands as c
from broker_app.core.message import Envelope, Message, Special, group_of
from broker_app.core.records import Reader
from broker_app.core.transfers import GONE, TransferResult
from broker_app.jobs.transfer_job import Item, Piece, Transferring


class Replaying(Transferring):
    """The messages keep their ids; what the history has given up meanwhile is gone."""

    def _prepare(self, items: Sequence[Item], start: int) -> list[Piece]:
        pieces = super()._prepare(items, start)
        for piece in pieces:
            if piece.record is None:
                piece.known = TransferResult(piece.item.position, GONE)
        return pieces

    def _command(self, source: str, pieces: Sequence[Piece]) -> c.Insert:
        reader = Reader(source)
        entries = []
        for piece in pieces:
            assert piece.record is not None, "what has no record is known to be gone"
            message = reader.message(piece.record, piece.item.position)
            entries.append((piece.id.encode(), self._envelope(message), message.body))
        return c.Insert(self.tools.errands.peer, self.job.target, entries)

    def _envelope(self, message: Message) -> Envelope:
        group = group_of(message)
        return Envelope(
            self.job.target,
            message.envelope.block,
            priority=message.envelope.priority,
            expires_ms=message.expires_ms,
            special=Special(group=group) if group else None,
        )
