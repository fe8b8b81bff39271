"""Moving, copying, deleting, retrying, and undoing of moves: batches of positions, one source at a time."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from broker_app.core import commands as c
from broker_app.core import dead_letter_headers, transfers
from broker_app.core.errors import Refused
from broker_app.core.message import Message
from broker_app.core.records import Reader
from broker_app.core.transfers import FULL, GONE, REFUSED, TransferResult
from broker_app.core.turn import UNRECORDED
from broker_app.jobs import message_reader, plan
from broker_app.jobs.worker import BATCH_BYTES, NO_ROOM, Sought, Work


class Item(NamedTuple):
    """One message that a job is about: where it is, and header lines that it gets back."""

    source: str
    position: int
    lines: bytes = b""


@dataclass(slots=True)
class Piece:
    """One message of a batch: its number in the job, its record, its id, where it goes, the header lines that
    it loses there, and the answer, where it is known."""

    number: int
    item: Item
    record: bytes | None = None
    id: str = ""
    target: str = ""
    lost: str = ""
    known: TransferResult | None = None


class Transferring(Work):
    """All that takes chosen messages away, or copies them."""

    def _in_question(self) -> Sequence[Sought]:
        intended = (Sought(*row) for row in self.tools.store.intent(self.job.id))
        return [sought for sought in intended if sought.number >= self.job.processed and sought.target]

    async def _deed(self) -> None:
        job = self.job
        items = self._items()
        while job.processed < len(items) and self._goes_on():
            pieces = self._prepare(items, job.processed)
            intent = [(piece.number, piece.id, piece.target, piece.lost) for piece in pieces]
            await asyncio.to_thread(self.tools.store.intend, job.id, intent)
            await self._ask(pieces)
            await self._pace(len(pieces))

    def _items(self) -> Sequence[Item]:
        job, store = self.job, self.tools.store
        if job.op != plan.UNDO:
            return _Positions(job.source, store.positions(job.id))
        return [
            Item(line["to"], line["new_position"], line.get("lines", "").encode())
            for line in store.results(job.undo_of)
            if line["status"] == transfers.DONE
        ]

    def _prepare(self, items: Sequence[Item], start: int) -> list[Piece]:
        """The next batch: items of one source, with their records."""
        pieces: list[Piece] = []
        size = 0
        job, ids = self.job, self.tools.broker.turn.ids
        source = items[start].source
        reader = Reader(source)
        for number in range(start, min(len(items), start + self._at_once())):
            item = items[number]
            if item.source != source or size >= BATCH_BYTES:
                break
            piece = Piece(number, item)
            pieces.append(piece)
            if item.position >= UNRECORDED and job.boot != self.tools.boot:
                piece.known = TransferResult(item.position, GONE)  # it ended with the process that held it
            piece.record = message_reader.record_of(self.tools.read, item.position)
            if piece.record is not None:
                message = reader.message(piece.record, item.position)
                piece.id = ids.of(message).decode()
                piece.target = self._target_of(message)
                if job.op == plan.RETRY:
                    piece.lost = dead_letter_headers.divide(message.envelope.block)[1].decode()
                size += len(piece.record)
        return pieces

    def _target_of(self, message: Message) -> str:
        target = self.job.target
        return dead_letter_headers.origin_of(message.envelope.block) if target == c.ORIGIN else target

    async def _ask(self, pieces: list[Piece]) -> None:
        """Let the core decide about a batch, and write the results."""
        job, errands = self.job, self.tools.errands
        open_ones = [piece for piece in pieces if piece.known is None and piece.number not in self._found]

        def note(answer: list[TransferResult]) -> str:
            """The reason why the last of them found no room, if so; it and later ones are tried again."""
            tried = pieces
            if answer and answer[-1].status == FULL:
                tried = pieces[: pieces.index(open_ones[len(answer) - 1])]
            for piece, moved in zip(open_ones, answer, strict=False):
                piece.known = moved._replace(position=piece.item.position)
            self._note([self._line(piece) for piece in tried])
            return answer[-1].detail if tried is not pieces else ""

        await errands.backpressure.wait()
        try:
            full = await errands.ask(self._command(pieces[0].item.source, open_ones), note)
        except Refused as refusal:
            if refusal.code in NO_ROOM:
                full = refusal.detail
            elif refusal.code == "not-found":  # the queue went because all of it had gone
                full = note([TransferResult(piece.item.position, GONE) for piece in open_ones])
            else:
                raise
        if full and not await self._full(full):
            piece = pieces[job.processed - pieces[0].number]
            piece.known = TransferResult(piece.item.position, REFUSED, detail=full)
            self._note([self._line(piece)])

    def _command(self, source: str, pieces: Sequence[Piece]) -> c.Transfer | c.Insert:
        """The command for the core."""
        job = self.job
        return c.Transfer(
            self.tools.errands.peer,
            source,
            [c.Chosen(piece.item.position, piece.record, piece.item.lines) for piece in pieces],
            job.target,
            keep=job.op == plan.COPY,
            revive=job.op == plan.RETRY,
        )

    def _line(self, piece: Piece) -> dict[str, Any]:
        """One result."""
        found = self._found.get(piece.number)
        if found is not None:
            line = {"i": piece.number, "id": found.sought.id, "position": piece.item.position}
            line |= {"status": transfers.DONE, "to": found.sought.target, "new_position": found.position}
            return line | ({"lines": found.sought.lines} if found.sought.lines else {})
        moved = piece.known
        assert moved is not None
        message = moved.message
        message_id = self.tools.broker.turn.ids.of(message).decode() if message is not None else piece.id
        line = {"i": piece.number, "id": message_id or None, "position": moved.position}
        line["status"] = moved.status
        if message is not None:
            line |= {"to": moved.target, "new_position": message.position}
        if moved.lines:
            line["lines"] = moved.lines.decode()
        if moved.detail:
            line["detail"] = moved.detail
        return line


class _Positions(Sequence[Item]):
    """The positions of one source as items."""

    def __init__(self, source: str, positions: array[int]) -> None:
        self._source = source
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, number: Any) -> Any:
        return Item(self._source, self._positions[number])
