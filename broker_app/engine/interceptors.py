"""Interceptors: parts of the node that may hold a command before it is decided, or deliveries before they
leave, to ask a plug-in or another broker about them.

Without an interceptor a run of commands costs one look at an empty tuple. What is held belongs to the
interceptor: it has it continue later, changed or not, or has it refused or returned. Of several, each sees
what those before it let pass.
"""

from __future__ import annotations

from typing import Protocol

from broker_app.core.commands import Command
from broker_app.core.model import Delivery, Peer


class CommandInterceptor(Protocol):
    """Sees each command before the inbox takes it."""

    def takes(self, command: Command, size: int) -> bool:
        """Return whether it holds the command, of about `size` bytes. It continues by `Engine.resume`."""


class DeliveryInterceptor(Protocol):
    """Sees the deliveries of each peer after their commit."""

    def concerns(self, address: str) -> bool:
        """Return whether deliveries of subscriptions to `address` are held. It is called for each one."""

    def take(self, peer: Peer, deliveries: list[Delivery]) -> None:
        """Hold deliveries of one peer. They continue by `Engine.deliver`, in any number of parts."""
