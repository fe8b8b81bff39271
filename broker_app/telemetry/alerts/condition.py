"""A condition of alerts: what it finds, the defaults of its rules, its sentence, and its page.

`broker_conditions` and `cluster_conditions` declare them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from broker_app.base import states
from broker_app.base.reply_types import Facts

if TYPE_CHECKING:
    from broker_app.telemetry.alerts.alert import Alert
    from broker_app.telemetry.alerts.checks import ConditionChecks
    from broker_app.telemetry.alerts.rule import AlertRule

WARNING, CRITICAL = SEVERITIES = tuple(states.SEVERITY)


class Violation(NamedTuple):
    """A condition holds of `subject`: an address, a bridge, a user at a machine, files."""

    subject: str
    value: float
    facts: Facts = {}  # noqa: RUF012  never changed


#: finds where the condition of a rule holds, in short steps; yields None after one that found nothing
Check = Callable[["ConditionChecks", "AlertRule"], Iterator[Violation | None]]


class Condition(NamedTuple):
    """A type of problem. `about` describes it.

    `threshold` and `for_s` are the defaults of its rules; `subject` is the kind of object that has the
    problem, whose name the pattern of a rule is compared with. `sentence` says what was found, with the words
    of `texts.words` in braces, `failed` if the fact `result` is "failed". The facts `reason` and `detail`
    follow it. `page` is the address below the console that shows it.
    """

    about: str
    subject: str
    unit: str
    threshold: float
    for_s: float
    severity: str
    sentence: str
    failed: str
    page: Callable[[Alert], str]
    check: Check


def declare(
    table: dict[str, Condition],
    name: str,
    about: str,
    subject: str,
    unit: str,
    *,
    threshold: float = 1,
    for_s: float = 0,
    severity: str = WARNING,
    sentence: str,
    failed: str = "",
    page: Callable[[Alert], str],
) -> Callable[[Check], Check]:
    """Add the condition that the decorated function finds to the table."""

    def with_check(check: Check) -> Check:
        table[name] = Condition(
            about, subject, unit, threshold, for_s, severity, sentence, failed, page, check
        )
        return check

    return with_check
