"""The cost of rules: µs of one core a decision, and ms to compile a set of rules.

`python -m benchmarks.rules` prints a table with a column for each size of the set. Nothing is remembered from
one decision to the next but what expressions (`=~`) matched; events go round among 1,000 different ones.

- typical: a rule names a queue, a method and two users, as the rules of the documents do;
- groups: the same with groups; the user is in five;
- nobody: typical rules, and an event that none of them allows;
- one place: all rules are about one queue, each about two users of its own;
- wildcards: typical rules of topics, and a subscription with a wildcard, which looks at all of them;
- expressions: a rule has `=~` instead of a name and is about all users, so that no index helps: the event
  matches the one in the middle.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter

from broker_app.rules.event import Event
from broker_app.rules.grammar import parse
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules

SIZES = (10, 1_000, 10_000)
ROUNDS = 5
EVENTS = 1_000


def typical(number: int) -> Rule:
    text = f"(/event/queue == orders.{number}) && (/event/method == POST)"
    return Rule(f"rule-{number}", "allow", text, (f"user-{number}", f"other-{number}"))


def of_groups(number: int) -> Rule:
    text = f"(/event/queue == orders.{number}) && (/event/method == POST)"
    return Rule(f"rule-{number}", "allow", text, groups=(f"group-{number}", "ops"))


def of_one_place(number: int) -> Rule:
    text = "(/event/queue == orders) && (/event/method == POST)"
    return Rule(f"rule-{number}", "allow", text, (f"user-{number}", f"other-{number}"))


def of_topics(number: int) -> Rule:
    text = f"(/event/topic == orders.{number}) && (/event/method == GET)"
    return Rule(f"rule-{number}", "allow", text, (f"user-{number}",))


def of_expressions(number: int) -> Rule:
    return Rule(
        f"rule-{number}", "allow", f"(/event/queue =~ orders\\.{number}\\..*) && (/event/method == POST)"
    )


def sends(number: int) -> Event:
    facts = {"address": "10.1.2.3", "protocol": "stomp", "tls": True, "client": "till-7"}
    return Event(f"user-{number}", frozenset(), "POST", f"orders.{number}", **facts)  # type: ignore[arg-type]


CASES: dict[str, tuple[Callable[[int], Rule], Callable[[int, int], Event]]] = {
    "typical": (typical, lambda number, size: sends(number)),
    "groups": (
        of_groups,
        lambda number, size: sends(number)._replace(
            user="john", groups=frozenset({f"group-{number}", "a", "b", "c", "d"})
        ),
    ),
    "nobody": (typical, lambda number, size: sends(number)._replace(method="GET")),
    "one place": (of_one_place, lambda number, size: sends(number)._replace(queue="orders")),
    "wildcards": (
        of_topics, lambda number, size: Event(f"user-{number}", frozenset(), "GET", topic="orders.*"),
    ),
    "expressions": (
        of_expressions, lambda number, size: sends(number)._replace(queue=f"orders.{size // 2}.new"),
    ),
}  # fmt: skip


def decided(rules: Rules, events: list[Event]) -> float:
    """Seconds a decision: the best of some rounds."""
    best = float("inf")
    times = max(1, 20_000 // len(events)) if len(rules) <= 10 else max(1, 2_000 // len(events))
    decide = rules.decide
    for _ in range(ROUNDS):
        start = perf_counter()
        for _ in range(times):
            for event in events:
                decide(event)
        best = min(best, (perf_counter() - start) / (times * len(events)))
    return best


def compiled(rules: list[Rule], *, new: bool) -> float:
    """Seconds for making a set of rules, whose conditions are seen for the first time or not."""
    if new:
        parse.cache_clear()
    gc.collect()
    start = perf_counter()
    Rules(rules)
    return perf_counter() - start


def main() -> None:
    parse("/event/queue == a")  # loads the parser
    print(f"{'rules':34}" + "".join(f"{size:>10,}" for size in SIZES))
    for title, (rule, event) in CASES.items():
        row = []
        for size in SIZES:
            rules = Rules([rule(number) for number in range(size)])
            slow = title in ("wildcards", "expressions")
            step = max(1, size // (20 if slow else EVENTS))
            events = [event(number, size) for number in range(0, size, step)]
            row.append(decided(rules, events) * 1e6)
        print(f"{'µs a decision, ' + title:34}" + "".join(f"{figure:10.2f}" for figure in row), flush=True)
    for title, new in (("new", True), ("seen before", False)):
        row = [compiled([typical(number) for number in range(size)], new=new) * 1e3 for size in SIZES]
        print(f"{'ms to compile, ' + title:34}" + "".join(f"{figure:10.2f}" for figure in row), flush=True)


if __name__ == "__main__":
    main()
