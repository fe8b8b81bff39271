"""A broker that follows another by its records, as a warm mirror does."""

from __future__ import annotations

from broker_app.core.broker import Broker
from broker_app.core.durability.recovery import Recovery
from broker_app.core.durability.snapshot import take_snapshot
from tests.core.stage import Stage


class Mirror:
    """Applies the batches of a stage as they are written. It begins with all that was written before."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._broker = stage.new_broker()
        self._recovery = Recovery(self._broker)
        self._applied = 0

    def follow(self) -> None:
        """Apply the batches that were written since the last call."""
        for batch in self._stage.batches[self._applied :]:
            self._recovery.apply(*batch)
        self._applied = len(self._stage.batches)

    def check(self) -> None:
        """Its durable state is that of the original, and of a broker that is recovered from the beginning."""
        self._catch_up()
        followed = take_snapshot(self._broker)
        assert followed == take_snapshot(self._stage.recovered()), "as if it were recovered now"
        assert followed == self._stage.take_snapshot(), "as the original"

    def take_over(self) -> Broker:
        """The broker, ready for commands."""
        self._catch_up()
        self._recovery.finish(self._stage.broker.turn.next_position, self._stage.now_ms)
        return self._broker

    def _catch_up(self) -> None:
        self.follow()
        turn, original = self._broker.turn, self._stage.broker.turn
        assert turn.next_position == original.next_position or not self._stage.batches
        turn.next_position, turn.now_ms = original.next_position, original.now_ms
        if turn.policies is not original.policies:
            self._recovery.apply_policies(original.policies)
