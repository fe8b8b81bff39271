"""A transaction: commands of a client that are not committed."""

from __future__ import annotations

from typing import Any

from broker_app.base.refused import Refused


class Transaction:
    """`commands` (Publish, Settle and Return) in order, the addresses that they publish to (`targets`), and
    about how many `bytes` of memory they take; `rollback_only` is the reason when it cannot be committed."""

    __slots__ = ("bytes", "commands", "rollback_only", "targets")

    def __init__(self) -> None:
        self.commands: list[Any] = []
        self.targets: set[str] = set()
        self.bytes = 0
        self.rollback_only: Refused | None = None
