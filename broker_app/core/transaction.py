"""A transaction: what a client has asked for and not committed."""

from __future__ import annotations

from broker_app.core import commands as c
from broker_app.core.errors import Refused


class Transaction:
    """`commands` in order, and about how many `bytes` of memory they take; why it cannot be committed,
    where it was `spoilt`."""

    __slots__ = ("bytes", "commands", "rollback_only")

    def __init__(self) -> None:
        self.commands: list[c.Publish | c.Settle | c.Return] = []
        self.bytes = 0
        self.rollback_only: Refused | None = None

    @property
    def targets(self) -> set[str]:
        """Where it would publish to."""
        return {
            envelope.address
            for command in self.commands
            if isinstance(command, c.Publish)
            for envelope, _, _ in command.entries
        }
