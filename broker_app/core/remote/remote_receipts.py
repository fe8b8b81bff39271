"""Receipts of settled deliveries that wait until the brokers that own the messages have recorded that."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.model import Peer
from broker_app.core.remote.origin import Origin
from broker_app.core.turn import Turn

_LOST: Final = (
    "the broker that owns the message could not be reached before it had recorded this; "
    "unless it has, it delivers the message again"
)


class _Waiting:
    """A receipt that waits for `origins`."""

    __slots__ = ("origins", "peer", "receipt")

    def __init__(self, peer: Peer, receipt: Any, origins: Collection[Origin]) -> None:
        self.peer = peer
        self.receipt = receipt
        self.origins = set(origins)


class RemoteReceipts:
    """Answers commands that have settled messages of other brokers."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._waiting: dict[Peer, dict[_Waiting, None]] = {}
        #: the receipts of peers that have disconnected and still wait for others
        self._leaving: dict[Peer, Any] = {}
        #: by origin, what waits for the answer to each question
        self._asked: dict[Origin, dict[int, _Waiting]] = {}

    def accept(self, peer: Peer, receipt: Any, origins: Collection[Origin]) -> None:
        """Confirm a command once `origins` have recorded what was reported to them."""
        if receipt is None or not origins:
            self._turn.accept(peer, receipt)
            return
        if any(origin.ended for origin in origins):
            self._turn.refuse(peer, receipt, Refused("unknown-delivery", _LOST))
            return
        waiting = _Waiting(peer, receipt, origins)
        self._waiting.setdefault(peer, {})[waiting] = None
        for origin in waiting.origins:
            self._asked.setdefault(origin, {})[origin.ask()] = waiting

    def disconnect(self, command: c.Disconnect) -> None:
        """Confirm that a peer has disconnected, after its other receipts."""
        peer = command.peer
        if peer not in self._waiting:
            self._turn.accept(peer, command.receipt)
        elif command.receipt is None or command.abandon:
            del self._waiting[peer]
            self._turn.accept(peer, command.receipt)
        else:
            self._leaving[peer] = command.receipt

    def recorded(self, command: c.RemoteRecorded) -> None:
        """Confirm what has waited for the answer to a question or an earlier one."""
        asked = self._asked.get(command.origin, {})
        for question in list(asked):
            if question > command.question:
                break
            waiting = asked.pop(question)
            waiting.origins.discard(command.origin)
            if not waiting.origins and self._ends(waiting):
                self._turn.accept(waiting.peer, waiting.receipt)
                self._answer_leaving(waiting.peer)
        if not asked:
            self._asked.pop(command.origin, None)

    def origin_ended(self, origin: Origin) -> None:
        """Refuse what waits for a broker whose connection has ended."""
        for waiting in self._asked.pop(origin, {}).values():
            if self._ends(waiting):
                self._refuse(waiting)
                self._answer_leaving(waiting.peer)

    def _ends(self, waiting: _Waiting) -> bool:
        """Forget a receipt that waits no longer; returns whether its peer still wants it."""
        mine = self._waiting.get(waiting.peer, {})
        if waiting not in mine:
            return False
        del mine[waiting]
        if not mine:
            del self._waiting[waiting.peer]
        return True

    def _refuse(self, waiting: _Waiting) -> None:
        peer, refusal = waiting.peer, Refused("unknown-delivery", _LOST)
        if not peer.disconnected:
            self._turn.refuse(peer, waiting.receipt, refusal)
        elif not (peer.strict and peer.refusals):  # it has disconnected, and is stopped by nothing
            peer.refusals.append((waiting.receipt, refusal))
            self._turn.schedule_flush(peer)

    def _answer_leaving(self, peer: Peer) -> None:
        if peer not in self._waiting and peer in self._leaving:
            self._turn.accept(peer, self._leaving.pop(peer))
