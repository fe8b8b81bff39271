"""The health of callbacks, reflexes, bridges, links, mirrors, runs of pipelines and the store: decided here.

What each does at present is its `state`, in words of its own. Its `health` is one of the same words for all,
so that API, command line, metrics, alerts and console agree: `running` only if it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final, Literal, NamedTuple

from broker_app.base import states
from broker_app.base.marked import mark as _
from broker_app.base.reply_types import Facts, state_of

Condition = Callable[[Facts], bool]

RUNNING, DEGRADED, STALLED, FAILING, PAUSED, OFF = HEALTH = tuple(states.HEALTH)
#: the same as a member of replies
Health = Annotated[str, state_of(states.HEALTH)]
#: nothing gets on
BROKEN: Final = (FAILING, STALLED)

CALLBACK: Final = "callback"
REFLEX: Final = "reflex"
BRIDGE: Final = "bridge"
MIRROR: Final = "mirror"
LINK: Final = "link"
PIPELINE: Final = "pipeline"
STORE: Final = "store"
Kind = Literal["callback", "reflex", "bridge", "mirror", "link", "pipeline", "store"]
#: the kinds as they begin a sentence
LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        CALLBACK: _("Callback"),
        REFLEX: _("Reflex"),
        BRIDGE: _("Bridge"),
        MIRROR: _("Mirror"),
        LINK: _("Link"),
        PIPELINE: _("Pipeline"),
        STORE: _("Store"),
    }
)

#: failures in a row, without any success between them, from which something fails rather than stumbles
FAILURES: Final = 3


def _state(*states: str) -> Condition:
    """Return whether the state is one of these."""
    return lambda facts: facts["state"] in states


def _fails(facts: Facts) -> bool:
    return bool(facts["failures_in_row"] >= FAILURES)


def _stumbles(facts: Facts) -> bool:
    return bool(facts["failures_in_row"])


def _is_held_back(facts: Facts) -> bool:
    """Pushes of a callback wait: by the breaker of its host, or because the receiver asked for it."""
    breaker = facts["breaker"]
    return bool(facts["pending"] and (breaker["state"] != "closed" or breaker["pause"]))


def _flow(*states: str) -> Condition:
    """Return whether a flow of a bridge that is not paused has one of these states."""
    return lambda facts: any(flow["state"] in states and not flow["paused"] for flow in facts["flows"])


def _is_refused(facts: Facts) -> bool:
    """A bridge tries again and again."""
    return bool(facts["state"] == "retrying" and facts["attempts"] >= FAILURES)


def _is_taken_over(facts: Facts) -> bool:
    """No link is expected: another broker serves the messages of the one that is away."""
    return bool(facts["taken_by"])


def _is_alone(facts: Facts) -> bool:
    """No standby could take over without delay, and no other broker does."""
    return facts["needs_standby"] and not any(
        one["state"] == "standby" and one["in_step"] for one in facts["brokers"]
    )


def _private_journal_fails(facts: Facts) -> bool:
    private = facts["private_journal"]
    return bool(private is not None and private["error"])


#: by kind, what holds of a component with each health; the first that holds decides, and else it is running
TABLE: Final[Mapping[Kind, Sequence[tuple[str, Condition]]]] = MappingProxyType(
    {
        CALLBACK: (
            (OFF, _state("ended")),
            (PAUSED, _state("paused")),
            (FAILING, _state("failed", "unverified", "suspended")),
            (FAILING, _fails),
            (STALLED, _is_held_back),
            (DEGRADED, _state("verifying")),
            (DEGRADED, _stumbles),
        ),
        REFLEX: (
            (OFF, _state("disabled")),
            (FAILING, _state("failed", "unusable")),
            (FAILING, _fails),
            (DEGRADED, _state("starting")),
            (DEGRADED, _stumbles),
        ),
        BRIDGE: (
            (PAUSED, lambda facts: facts["desired"] == "paused"),
            (FAILING, _state("failed")),
            (FAILING, _flow("failed")),
            (FAILING, _is_refused),
            (STALLED, _flow("stalled")),
            (DEGRADED, _state("connecting", "retrying")),
            (DEGRADED, _flow("retrying")),
        ),
        MIRROR: ((DEGRADED, _is_alone), (DEGRADED, _private_journal_fails)),
        LINK: (
            (OFF, _is_taken_over),
            (OFF, _state("stopped")),
            (FAILING, _state("refused")),
            (DEGRADED, _state("connecting")),
        ),
        PIPELINE: (
            (OFF, _state("done", "stopped", "stopping")),
            (FAILING, _state("failed")),
            (STALLED, _state("lost")),
            (DEGRADED, _state("starting")),
        ),
        STORE: (
            (FAILING, lambda facts: facts["full"]),
            (DEGRADED, lambda facts: facts["nearly_full"]),
        ),
    }
)


def health_of(kind: Kind, facts: Facts) -> str:
    """The health of a component, by what its report says."""
    return next((health for health, holds in TABLE[kind] if holds(facts)), RUNNING)


class Component(NamedTuple):
    """A component, its health, and the reason in words, if there is one."""

    kind: Kind
    name: str
    health: str
    reason: str


def store_component(full: str, nearly_full: str) -> Component:
    """The journal: `full` is the reason why it takes no messages, or empty; `nearly_full` a sentence while it
    soon will not."""
    health = health_of(STORE, {"full": bool(full), "nearly_full": bool(nearly_full)})
    return Component(STORE, "journal", health, full or nearly_full)


def mirror_component(report: Facts) -> Component:
    """This broker and its standbys."""
    reason = "" if report["health"] == RUNNING else "no standby is in step, or a copy is not written"
    return Component(MIRROR, report["name"], report["health"], reason)


def link_components(reports: Iterable[Facts]) -> Iterable[Component]:
    """The links to the other brokers of a cluster."""
    return (Component(LINK, one["broker"], one["health"], one["reason"]) for one in reports)


def callback_components(reports: Iterable[Facts]) -> Iterable[Component]:
    """The callbacks, as they are shown."""
    for one in reports:
        last = one["last"]
        reason = one["reason"] or (last["detail"] if last is not None else "")
        yield Component(CALLBACK, one["name"], one["health"], reason)


def reflex_components(reports: Iterable[Facts]) -> Iterable[Component]:
    """The reflexes."""
    return (
        Component(REFLEX, one["name"], one["health"], one["error"] or one["last_failure"]) for one in reports
    )


def bridge_components(reports: Iterable[Facts]) -> Iterable[Component]:
    """The bridges, as they are shown."""
    for one in reports:
        error = one["error"]
        yield Component(BRIDGE, one["name"], one["health"], error["detail"] if error else "")


def pipeline_components(reports: Iterable[Facts]) -> Iterable[Component]:
    """The runs of pipelines."""
    return (Component(PIPELINE, one["name"], one["health"], one["error"]) for one in reports)
