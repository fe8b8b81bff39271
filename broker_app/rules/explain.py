"""Explaining: which rule decides an event, and why each one before it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker_app.rules.condition import Both, Condition, Either, Not
from broker_app.rules.decision import Decision, Entry, is_guarded
from broker_app.rules.event import Event
from broker_app.rules.facts import EQUAL, FITS, Comparison
from broker_app.rules.rule import Rule

_SHOWN = 200  # characters of a value or a condition
_REASONS = 3  # of the parts of a || of which none holds


@dataclass(frozen=True, slots=True)
class RuleStep:
    """One rule that was tried: it matched, or `why` it did not."""

    number: int
    rule: Rule
    matched: bool
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """`steps` are the rules until the one that decides; `not_reached` more come after it, untried."""

    event: Event
    decision: Decision
    steps: tuple[RuleStep, ...]
    not_reached: int


def explain(entries: Sequence[Entry], event: Event, decision: Decision) -> Explanation:
    """Explain `decision` of `event`: the rules, tried one after the other."""
    steps: list[RuleStep] = []
    for entry in entries:
        why = why_not(entry, event)
        steps.append(RuleStep(entry.number, entry.rule, not why, why or f"it matches: {entry.rule.effect}"))
        if not why:
            break
    return Explanation(event, decision, tuple(steps), len(entries) - len(steps))


def why_not(entry: Entry, event: Event) -> str:
    """The reason why a rule does not decide `event`; "" if it does."""
    rule = entry.rule
    if not rule.concerns(event.user, event.groups):
        return _somebody_else(rule, event)
    holds = True if entry.condition is None else entry.condition.judge(event)
    if entry.condition is not None and (holds is False or (holds is None and entry.decision.allowed)):
        return _failing(entry.condition, event)
    if is_guarded(event) and entry.decision.allowed and not entry.names(event.queue):
        return f"it does not name {_short(event.queue or '')}, as a store-and-forward queue needs"
    return ""


def _somebody_else(rule: Rule, event: Event) -> str:
    named = [*rule.users, *(f"@{group}" for group in rule.groups)]
    more = f" and {len(named) - 5} more" if len(named) > 5 else ""
    return f"it is about {_short(', '.join(named[:5]))}{more}, and {_short(event.user)} is none of them"


def _failing(condition: Condition, event: Event) -> str:
    """The part that keeps `condition` from holding."""
    match condition:
        case Not(part=part):
            sure = "holds" if part.judge(event) else "may hold"
            return f"{_short(str(part))} {sure}, and the rule wants that it does not"
        case Both(parts=parts):
            judged = [(part, part.judge(event)) for part in parts]
            # A false comparison explains more than an uncertain one.
            failed = [part for part, holds in judged if holds is False] or [
                part for part, holds in judged if holds is None
            ]
            return _failing(failed[0], event)
        case Either(parts=parts):
            reasons = [_failing(part, event) for part in parts[:_REASONS]]
            more = [f"{len(parts) - _REASONS} more do not hold either"] * (len(parts) > _REASONS)
            return "; and ".join([*reasons, *more])
        case Comparison():
            return _unlike(condition, event)


def _unlike(comparison: Comparison, event: Event) -> str:
    expected = _short(comparison.value)
    if comparison.fact == "group":
        match comparison.operator:
            case "==":
                return f"{_short(event.user)} is not in the group {expected}"
            case "=~":
                return f"no group of {_short(event.user)} matches {expected}"
            case _:
                return f"{_short(event.user)} is in the group {expected}"
    known = getattr(event, comparison.fact)
    if known is None:
        return f"there is no {comparison.fact}"
    found = _short(str(known).lower() if comparison.fact == "tls" else known)
    if comparison.judge(event) is None:
        return f"it is not certain that {comparison} holds for all topics that {found} stands for"
    if comparison.fact == "address" and comparison.operator != FITS:
        inside = "not in" if comparison.operator == EQUAL else "in"
        return f"the address {found} is {inside} {expected}"
    match comparison.operator:
        case "==":
            return f"the {comparison.fact} differs: it is {found}, the rule wants {expected}"
        case "=~":
            return f"the {comparison.fact} {found} does not match {expected}"
        case _:
            return f"the {comparison.fact} is {found}, and the rule wants another"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
