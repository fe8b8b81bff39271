"""Message groups: which consumer has which group, while it has it.

A group belongs to the consumer that got its first message, until that one leaves. Of groups of which no
message is unsettled so many are remembered; the one that was idle longest is forgotten first and may go
to another consumer.
"""

from __future__ import annotations

from collections import OrderedDict

from broker_app.core.model import Subscription


class Group:
    """`owner` is None when it has left and left unsettled messages behind: then nobody may have the group."""

    __slots__ = ("owner", "unsettled")

    def __init__(self) -> None:
        self.owner: Subscription | None = None
        self.unsettled = 0


class Groups:
    """The groups of one queue that are owned. `freed` collects names of groups that may have become free to
    be had, or to be had by another; whoever hands out empties it."""

    def __init__(self, most_idle: int) -> None:
        self._most_idle = most_idle
        self.freed: list[str] = []
        self._groups: dict[str, Group] = {}
        self._owned: dict[Subscription, set[str]] = {}
        #: groups without unsettled messages, in the order in which they became so
        self._idle: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._groups)

    def find(self, name: str) -> Group | None:
        return self._groups.get(name)

    def give(self, name: str, owner: Subscription, *, unsettled: bool) -> None:
        """A message of the group goes to `owner`, who has the group from now on."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group()
        if group.owner is not owner:
            if group.owner is not None:  # what waited for the former owner may go to this one
                self.freed.append(name)
            self._disown(name, group)
            group.owner = owner
            self._owned.setdefault(owner, set()).add(name)
        if unsettled:
            group.unsettled += 1
            self._idle.pop(name, None)
        elif not group.unsettled:
            self._rest(name)

    def settled(self, name: str) -> None:
        """A message of the group is not out any more."""
        group = self._groups.get(name)
        if group is None or not group.unsettled:
            return
        group.unsettled -= 1
        if not group.unsettled:
            self.freed.append(name)
            if group.owner is None:
                del self._groups[name]
            else:
                self._rest(name)

    def leave(self, owner: Subscription) -> None:
        """A consumer has ended: its groups are free, as soon as nothing of them is unsettled."""
        for name in self._owned.pop(owner, ()):
            group = self._groups[name]
            group.owner = None
            self._idle.pop(name, None)
            if not group.unsettled:
                del self._groups[name]
                self.freed.append(name)

    def _disown(self, name: str, group: Group) -> None:
        if group.owner is not None:
            owned = self._owned[group.owner]
            owned.discard(name)
            if not owned:
                del self._owned[group.owner]

    def _rest(self, name: str) -> None:
        self._idle[name] = None
        self._idle.move_to_end(name)
        if len(self._idle) > self._most_idle:
            oldest, _ = self._idle.popitem(last=False)
            self._disown(oldest, self._groups.pop(oldest))
            self.freed.append(oldest)
