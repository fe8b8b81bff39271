"""A transaction: what a client has asked for and not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_app.core.commands import Publish, Return, Settle


class Transaction:
    """`commands` in order, and the `bytes` of the message bodies among them."""

    __slots__ = ("bytes", "commands")

    def __init__(self) -> None:
        self.commands: list[Publish | Settle | Return] = []
        self.bytes = 0
