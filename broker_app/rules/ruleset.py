"""Rules: an ordered set of rules, and what it decides."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter

from broker_app.rules.condition import Demand, demanded, judged_anywhere
from broker_app.rules.decision import NO_RULE, NO_RULE_NAMES_IT, NO_RULES, Decision, Entry, is_guarded
from broker_app.rules.errors import RuleError
from broker_app.rules.event import Event, is_wild
from broker_app.rules.explain import Explanation, explain
from broker_app.rules.grammar import parse
from broker_app.rules.rule import ALLOW, EFFECTS, Rule

#: rules of a set
MAX_RULES = 10_000


class _Shelf:
    """The rules that a destination can meet, by the users and groups that they are about."""

    __slots__ = ("any_user", "groups", "users")

    def __init__(self) -> None:
        self.users: dict[str, list[Entry]] = {}
        self.groups: dict[str, list[Entry]] = {}
        self.any_user: list[Entry] = []

    def put(self, entry: Entry) -> None:
        rule = entry.rule
        for user in dict.fromkeys(rule.users):
            self.users.setdefault(user, []).append(entry)
        for group in dict.fromkeys(rule.groups):
            self.groups.setdefault(group, []).append(entry)
        if not rule.users and not rule.groups:
            self.any_user.append(entry)

    def add_to(self, found: list[list[Entry]], event: Event) -> None:
        """Puts the lists of rules that are about the user of `event` into `found`."""
        if self.any_user:
            found.append(self.any_user)
        if self.users and (mine := self.users.get(event.user)):
            found.append(mine)
        if self.groups:
            found += [ours for group in event.groups if (ours := self.groups.get(group))]


class Rules:
    """Rules in order; the first that matches an event decides it. Immutable, and quick to ask.

    Raises RuleError for the first rule that cannot be used.
    """

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        if len(rules) > MAX_RULES:
            raise RuleError(f"there are {len(rules)} rules; {MAX_RULES} are allowed")
        self.rules = tuple(rules)
        self.entries = [_compiled(number, rule) for number, rule in enumerate(self.rules, 1)]
        self._queues: dict[str, _Shelf] = {}
        self._topics: dict[str, _Shelf] = {}
        self._anywhere = _Shelf()
        for entry in self.entries:
            for shelf in self._shelves(entry.demand):
                shelf.put(entry)

    def __len__(self) -> int:
        return len(self.rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and other.rules == self.rules

    def __hash__(self) -> int:
        return hash(self.rules)

    def decide(self, event: Event) -> Decision:
        """The decision about `event`. A topic with wildcards is allowed if all of its topics certainly are,
        and denied if a rule may deny some of them.
        """
        if event.topic is not None and is_wild(event.topic):
            return self._decide_many(event)
        if is_guarded(event):
            return self._decide_guarded(event)
        if not self.rules:
            return NO_RULES
        for entry in self._candidates(event):
            if entry.test(event):
                return entry.decision
        return NO_RULE

    def may_allow(self, event: Event) -> bool:
        """Return False if the rules allow `event`, which has no destination, at no destination at all."""
        if not self.rules:
            return True
        for entry in self.entries:
            if entry.rule.concerns(event.user, event.groups):
                holds = True if entry.condition is None else judged_anywhere(entry.condition, event)
                if holds or (holds is None and entry.decision.allowed):
                    return entry.decision.allowed
        return False

    def explain(self, event: Event) -> Explanation:
        """The same, and of each rule until the one that decides why it did not match."""
        return explain(self.entries, event, self.decide(event))

    def _candidates(self, event: Event) -> list[Entry]:
        """In order, all rules that may match: the others name another destination or other users."""
        found: list[list[Entry]] = []
        if event.queue is not None:
            named = self._queues.get(event.queue)
        else:
            named = self._topics.get(event.topic) if event.topic is not None else None
        if named is not None:
            named.add_to(found, event)
        self._anywhere.add_to(found, event)
        if len(found) == 1:
            return found[0]
        # Each list is in order, and sorting finds that. A rule that is found twice is the same twice.
        return sorted(chain.from_iterable(found), key=_NUMBER)

    def _decide_guarded(self, event: Event) -> Decision:
        for entry in self._candidates(event):
            if (entry.names(event.queue) or not entry.decision.allowed) and entry.test(event):
                return entry.decision
        return NO_RULE_NAMES_IT

    def _decide_many(self, event: Event) -> Decision:
        if not self.rules:
            return NO_RULES
        for entry in self.entries:
            if entry.rule.concerns(event.user, event.groups):
                holds = True if entry.condition is None else entry.condition.judge(event)
                if holds or (holds is None and not entry.decision.allowed):
                    return entry.decision
        return NO_RULE

    def _shelves(self, demand: Demand) -> list[_Shelf]:
        if demand is None:
            return [self._anywhere]
        shelves = {"queue": self._queues, "topic": self._topics}
        return [shelves[kind].setdefault(name, _Shelf()) for kind, name in demand]


_NUMBER = itemgetter(0)


def _compiled(number: int, rule: Rule) -> Entry:
    if rule.effect not in EFFECTS:
        raise RuleError(f"the effect {rule.effect[:40]!r} is neither allow nor deny", rule=rule.name)
    try:
        condition = parse(rule.conditions)
    except RuleError as error:
        raise error.of_rule(rule.name) from None
    decision = Decision(rule.effect == ALLOW, rule, number)
    test = _always if condition is None else condition.test
    return Entry(number, rule, test, decision, condition, demanded(condition))


def _always(event: Event) -> bool:
    return True
