"""Conditions: comparisons joined by &&, || and !, and what follows from them without an event."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_app.rules.event import Event
from broker_app.rules.facts import Comparison, Test

#: destinations that a condition can hold for, as ("queue" or "topic", name); None where it names none
Demand = frozenset[tuple[str, str]] | None


@dataclass(frozen=True, slots=True)
class Not:
    """Holds where `part` does not."""

    part: Condition
    test: Test = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        inner = self.part.test
        object.__setattr__(self, "test", lambda event: not inner(event))

    def judge(self, event: Event) -> bool | None:
        known = self.part.judge(event)
        return None if known is None else not known

    def __str__(self) -> str:
        return f"!{_grouped(self.part)}"


@dataclass(frozen=True, slots=True)
class Both:
    """Holds where all its parts do."""

    parts: tuple[Condition, ...]
    test: Test = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "test", _all([part.test for part in self.parts]))

    def judge(self, event: Event) -> bool | None:
        known = [part.judge(event) for part in self.parts]
        return False if False in known else None if None in known else True

    def __str__(self) -> str:
        return " && ".join(map(_grouped, self.parts))


@dataclass(frozen=True, slots=True)
class Either:
    """Holds where one of its parts does."""

    parts: tuple[Condition, ...]
    test: Test = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "test", _any([part.test for part in self.parts]))

    def judge(self, event: Event) -> bool | None:
        known = [part.judge(event) for part in self.parts]
        return True if True in known else None if None in known else False

    def __str__(self) -> str:
        return " || ".join(map(_grouped, self.parts))


Condition = Comparison | Not | Both | Either


def _grouped(condition: Condition) -> str:
    return f"({condition})"


def demanded(condition: Condition | None) -> Demand:
    """The destinations without which `condition` cannot hold, as far as it names them by ==."""
    match condition:
        case Comparison(fact="queue" | "topic" as kind, operator="==", value=name):
            return frozenset([(kind, name)])
        case Both(parts=parts):
            named = [found for part in parts if (found := demanded(part)) is not None]
            return frozenset.intersection(*named) if named else None
        case Either(parts=parts):
            each = [demanded(part) for part in parts]
            return frozenset().union(*(one for one in each if one is not None)) if None not in each else None
        case _:
            return None


def judged_anywhere(condition: Condition, event: Event) -> bool | None:
    """True if `condition` holds whatever the destination of `event` is, False if it never does, None if it
    depends on the destination."""
    match condition:
        case Comparison(fact="queue" | "topic"):
            return None
        case Comparison():
            return condition.test(event)
        case Not(part=part):
            known = judged_anywhere(part, event)
            return None if known is None else not known
        case Both(parts=parts):
            each = [judged_anywhere(part, event) for part in parts]
            return False if False in each else None if None in each else True
        case Either(parts=parts):
            each = [judged_anywhere(part, event) for part in parts]
            return True if True in each else None if None in each else False


def depth(condition: Condition) -> int:
    """The nesting depth; 1 for a comparison."""
    match condition:
        case Not(part=part):
            return 1 + depth(part)
        case Both(parts=parts) | Either(parts=parts):
            return 1 + max(map(depth, parts))
        case _:
            return 1


# Two and three parts are nearly all there are, and a loop costs more than they do.
def _all(tests: list[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda event: first(event) and second(event)
    if len(tests) == 3:
        first, second, third = tests
        return lambda event: first(event) and second(event) and third(event)
    return lambda event: all(test(event) for test in tests)


def _any(tests: list[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda event: first(event) or second(event)
    return lambda event: any(test(event) for test in tests)
