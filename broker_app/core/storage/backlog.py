"""Commands that the deadline of a turn left for later turns."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

from broker_app.core.commands import Command, Steps
from broker_app.core.model import Peer, Subscription


class Backlog:
    """Commands by peer: those of one are carried out in order, and the peers take turns, so that one which
    asks for much delays no other. Commands of the broker itself are as those of one peer."""

    def __init__(self) -> None:
        #: what is left; to be read by others, who look at each turn whether there is any, and of whom
        self.waiting: OrderedDict[Peer | None, deque[Command]] = OrderedDict()
        #: whether the next one is the rest of a command that is carried out before any other
        self.in_steps = False

    def add(self, commands: Iterable[Command]) -> None:
        """Add commands behind those of their peers."""
        for command in commands:
            self.waiting.setdefault(self.peer_of(command), deque()).append(command)

    def take(self) -> Command:
        """Take the next command of the peer whose turn it is; it goes behind the others."""
        peer, commands = next(iter(self.waiting.items()))
        command = commands.popleft()
        if commands:
            self.waiting.move_to_end(peer)
        else:
            del self.waiting[peer]
        self.in_steps = False
        return command

    def put_back(self, rest: Command) -> None:
        """Add the rest of a command that was taken last, before the others of its peer."""
        peer = self.peer_of(rest)
        self.waiting.setdefault(peer, deque()).appendleft(rest)
        if type(rest) is Steps:
            self.waiting.move_to_end(peer, last=False)
            self.in_steps = True

    @staticmethod
    def peer_of(command: Command) -> Peer | None:
        """The peer whose order a command keeps; None for the broker itself."""
        subscription = getattr(command, "subscription", None)
        if isinstance(subscription, Subscription):
            return subscription.peer
        found: Peer | None = getattr(command, "peer", None)
        return found
