"""Topic subscriptions: a trie of filters, so that a publish walks its levels and not all subscriptions.

Levels are separated by dots. In a filter `*` is one level and `>` (or `#`) any number of levels that
remain, none included, at the end. Names that begin with `$` are matched by filters that name their first
level only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker_app.core.model import FanoutGroup, NamedSubscription, Subscription

ONE, REST = "*", ">"


class _Node:
    __slots__ = ("children", "count", "fanout_groups", "named", "singles")

    def __init__(self) -> None:
        #: the number of subscriptions with exactly this filter
        self.count = 0
        self.children: dict[str, _Node] = {}
        self.fanout_groups: dict[object, FanoutGroup] = {}
        self.singles: dict[Subscription, None] = {}
        self.named: dict[NamedSubscription, None] = {}

    @property
    def empty(self) -> bool:
        return not (self.children or self.count)


class Match(NamedTuple):
    """The subscriptions that match a name: served in groups, served one by one, and named ones."""

    fanout_groups: list[FanoutGroup]
    singles: list[Subscription]
    named: list[NamedSubscription]


class Topics:
    """All topic subscriptions by filter."""

    #: cached names and their matches; each counts one
    MAX_CACHED = 500_000

    def __init__(self) -> None:
        self._root = _Node()
        self._matches: dict[str, Match] = {}
        self._cached = 0
        #: the number of subscriptions with a selector, or without the messages of their own connection
        self.conditional = 0

    def add(self, pattern: str, subscription: Subscription, *, together: bool) -> None:
        """Add a subscription; `together` adds it to the fan-out group of its key, else it is served by
        itself."""
        self.conditional += _is_conditional(subscription)
        node = self._grow(pattern)
        node.count += 1
        if together:
            group = node.fanout_groups.get(subscription.render_key)
            if group is None:
                group = node.fanout_groups[subscription.render_key] = FanoutGroup(subscription.selector)
                self._forget()
            group.add(subscription)
            subscription.fanout_group = group
        else:
            node.singles[subscription] = None
            self._forget()

    def remove(self, pattern: str, subscription: Subscription) -> None:
        """Remove a subscription."""
        self.conditional -= _is_conditional(subscription)
        node = self._path(pattern)[-1]
        node.count -= 1
        if subscription.fanout_group is not None:
            group, subscription.fanout_group = subscription.fanout_group, None
            group.remove(subscription)
            if group.members:
                return
            del node.fanout_groups[subscription.render_key]
        else:
            node.singles.pop(subscription, None)
        self._forget()
        self._prune(pattern)

    def add_named(self, pattern: str, named: NamedSubscription) -> None:
        """Add a named subscription."""
        self.conditional += named.selector is not None
        node = self._grow(pattern)
        node.count += 1
        node.named[named] = None
        self._forget()

    def remove_named(self, pattern: str, named: NamedSubscription) -> None:
        """Remove a named subscription."""
        self.conditional -= named.selector is not None
        node = self._path(pattern)[-1]
        node.count -= 1
        del node.named[named]
        self._forget()
        self._prune(pattern)

    def _grow(self, pattern: str) -> _Node:
        """The node of a filter, created when there is none."""
        node = self._root
        for level in _levels(pattern):
            node = node.children.setdefault(level, _Node())
        return node

    def _path(self, pattern: str) -> list[_Node]:
        """The nodes from the root to that of a filter that exists."""
        path = [self._root]
        for level in _levels(pattern):
            path.append(path[-1].children[level])
        return path

    def _prune(self, pattern: str) -> None:
        """Remove the nodes of a filter that are empty."""
        path, levels = self._path(pattern), _levels(pattern)
        for parent, level, child in reversed(list(zip(path, levels, path[1:], strict=False))):
            if not child.empty:
                break
            del parent.children[level]

    def reaches(self, level: str, second: str | None = None) -> bool:
        """Return whether a filter begins with this level, without wildcard, and matches the second one if
        given."""
        node = self._root.children.get(level)
        if node is None or second is None:
            return node is not None
        return any(key in node.children for key in (second, ONE, REST))

    def match(self, name: str) -> Match:
        """The subscriptions whose filter matches `name`."""
        found = self._matches.get(name)
        if found is None:
            found = self._walk(name.split("."))
            size = 1 + len(found.fanout_groups) + len(found.singles) + len(found.named)
            if self._cached + size > self.MAX_CACHED:
                self._forget()
            self._cached += size
            self._matches[name] = found
        return found

    def count(self, name: str) -> int:
        """The number of subscriptions whose filter matches `name`."""
        return sum(node.count for node in self._nodes(name.split(".")))

    def consumers(self, name: str) -> Iterator[Subscription]:
        """The subscriptions without a name of their own whose filter matches `name`."""
        match = self.match(name)
        for group in match.fanout_groups:
            yield from group.members
        yield from match.singles

    def _forget(self) -> None:
        self._matches.clear()
        self._cached = 0

    def _walk(self, levels: list[str]) -> Match:
        found = Match([], [], [])
        for node in self._nodes(levels):
            found.fanout_groups.extend(node.fanout_groups.values())
            found.singles.extend(node.singles)
            found.named.extend(node.named)
        return found

    def _nodes(self, levels: list[str]) -> list[_Node]:
        """The nodes of all filters that match."""
        nodes = [self._root]
        ends: list[_Node] = []
        if levels[0].startswith("$"):  # system topics: a wildcard at the root does not match them
            first = self._root.children.get(levels[0])
            nodes, levels = [first] if first else [], levels[1:]
        for level in levels:
            ends += [node.children[REST] for node in nodes if REST in node.children]
            nodes = [node.children[key] for node in nodes for key in (level, ONE) if key in node.children]
        return ends + nodes + [node.children[REST] for node in nodes if REST in node.children]


def matches(pattern: str, name: str) -> bool:
    """Return whether one filter matches a name, as the trie does."""
    wanted, levels = _levels(pattern), name.split(".")
    if levels[0].startswith("$") and wanted[0] != levels[0]:
        return False
    if wanted[-1] == REST:
        wanted = wanted[:-1]
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(
        level in (ONE, name) for level, name in zip(wanted, levels, strict=True)
    )


def _is_conditional(subscription: Subscription) -> bool:
    return subscription.no_local or subscription.selector is not None


def _levels(pattern: str) -> list[str]:
    return [REST if level == "#" else level for level in pattern.split(".")]
