"""Rule: who may, or may not, do what under which conditions."""

from __future__ import annotations

from dataclasses import dataclass

ALLOW, DENY = EFFECTS = ("allow", "deny")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Its position in the set is its number, from 1.

    It applies to the users in `users` and the members of `groups`; if both are empty, to every authenticated
    user. Empty `conditions` always hold. `source` is its place in a file, "messaging_rule.config:31", or "".
    """

    name: str
    effect: str = ALLOW
    conditions: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    source: str = ""

    def concerns(self, user: str, groups: frozenset[str]) -> bool:
        """True if the rule applies to this user."""
        if not self.users and not self.groups:
            return True
        return user in self.users or not groups.isdisjoint(self.groups)
