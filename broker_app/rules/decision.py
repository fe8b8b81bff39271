"""Decisions: the result of a set of rules for an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from broker_app.rules.condition import Condition, Demand
from broker_app.rules.event import Event
from broker_app.rules.facts import Test
from broker_app.rules.rule import Rule
from mom_client.storeandforward import PREFIX

#: These methods need a rule that names the queue of a store-and-forward queue; MANAGE too, because it moves
#: messages to other queues.
_GUARDED = ("GET", "BROWSE", "READ", "MANAGE")


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about an event, and the rule that decided it; None and number 0 if no rule did."""

    allowed: bool
    rule: Rule | None = None
    number: int = 0
    because: str = ""

    @property
    def reason(self) -> str:
        """The reason: "rule 7 (messaging_rule.config:31)", "no rule allows it", "there are no rules"."""
        return f"rule {self.number} ({self.rule.source or self.rule.name})" if self.rule else self.because


NO_RULES = Decision(True, because="there are no rules")
NO_RULE = Decision(False, because="no rule allows it")
NO_RULE_NAMES_IT = Decision(False, because="no rule allows it that names this store-and-forward queue")


class Entry(NamedTuple):
    """A rule of a set, compiled."""

    number: int
    rule: Rule
    test: Test
    decision: Decision
    condition: Condition | None
    demand: Demand

    def names(self, queue: str | None) -> bool:
        """True if the rule applies only to queues that it names, and `queue` is one of them."""
        return self.demand is not None and ("queue", queue) in self.demand


def is_guarded(event: Event) -> bool:
    """True if only a rule that names the queue of `event` can allow it."""
    return event.queue is not None and event.queue.startswith(PREFIX) and event.method in _GUARDED
