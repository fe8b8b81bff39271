"""Further messages that reflexes publish: by the broker itself, in the same run as what they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.reflex.chain import ChainStep, Further


class FurtherMessages(InnerReceiver):
    """Publishes further messages. One that is refused is counted and logged for its reflex."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._peer = Peer(self, user="reflexes", own=True)

    def publish(self, further: Sequence[Further]) -> None:
        """Publish messages behind everything that was submitted before."""
        if further:
            command = self.command(further)
            size = sum(len(body) + envelope.overhead_bytes for envelope, body, _ in command.entries)
            self._engine.submit(command, size)

    def command(self, further: Sequence[Further]) -> c.Publish:
        """The command that publishes messages."""
        return c.Publish(self._peer, [(one.envelope, one.body, one.step) for one in further])

    def flush(self, peer: Peer) -> None:
        peer.receipts.clear()
        refusals, peer.refusals = peer.refusals, []
        for step, refusal in refusals:
            _note(step, refusal)


def _note(step: ChainStep, refusal: Refused) -> None:
    step.statistics.unpublished += 1
    step.statistics.note(step.declaration, f"a further message was not published: {refusal.detail}")
