"""Message groups and the consumers that own them.

A group belongs to the consumer that received its first message, until that consumer leaves. The number of
groups without unsettled messages is bounded: the group that was idle longest is forgotten first, and may go
to another consumer."""

from __future__ import annotations

from collections import OrderedDict

from broker_app.core.model import Subscription


class Group:
    """`owner` is None when it has left with messages unsettled, or while chosen messages of the group are
    unsettled: until these are settled, the group has no owner."""

    __slots__ = ("choice", "owner", "unsettled")

    def __init__(self) -> None:
        self.owner: Subscription | None = None
        self.unsettled = 0
        #: the command that chose its unsettled messages
        self.choice: object = None


class Groups:
    """The groups of one queue that have an owner. `freed` collects the names of groups that may have a new
    owner; the dispatch round empties it."""

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
        """The group with this name, None when it has no owner and no unsettled messages."""
        return self._groups.get(name)

    def assign(self, name: str, owner: Subscription, *, unsettled: bool) -> None:
        """Make `owner` the owner of a group, because a message of it is delivered to it."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group()
        if group.owner is not owner:
            if group.owner is not None:  # messages that waited for the former owner may go to this one
                self.freed.append(name)
            self._remove_owner(name, group)
            group.owner = owner
            self._owned.setdefault(owner, set()).add(name)
        if unsettled:
            group.unsettled += 1
            self._idle.pop(name, None)
        elif not group.unsettled:
            self._mark_idle(name)

    def hold(self, name: str, choice: object) -> bool:
        """Count a message of a group that is delivered without making its receiver the owner, because the
        command `choice` chose it; False when a consumer owns the group, or holds messages of it."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group()
            group.choice = choice
        if group.owner is not None or group.choice is not choice:
            return False
        group.unsettled += 1
        return True

    def settled(self, name: str) -> None:
        """Note that a message of a group was settled or returned."""
        group = self._groups.get(name)
        if group is None or not group.unsettled:
            return
        group.unsettled -= 1
        if not group.unsettled:
            self.freed.append(name)
            if group.owner is None:
                del self._groups[name]
            else:
                self._mark_idle(name)

    def remove_consumer(self, owner: Subscription) -> None:
        """Take its groups from a consumer that has ended; each is free when none of its messages is
        unsettled."""
        for name in self._owned.pop(owner, ()):
            group = self._groups[name]
            group.owner = None
            self._idle.pop(name, None)
            if not group.unsettled:
                del self._groups[name]
                self.freed.append(name)

    def _remove_owner(self, name: str, group: Group) -> None:
        if group.owner is not None:
            owned = self._owned[group.owner]
            owned.discard(name)
            if not owned:
                del self._owned[group.owner]

    def _mark_idle(self, name: str) -> None:
        self._idle[name] = None
        self._idle.move_to_end(name)
        if len(self._idle) > self._most_idle:
            oldest, _ = self._idle.popitem(last=False)
            self._remove_owner(oldest, self._groups.pop(oldest))
            self.freed.append(oldest)
