"""Reports about declarations, libraries and trials, for the API."""

from __future__ import annotations

from typing import Any

from broker_app.base.times import rfc3339
from broker_app.reflex.chain import Decision, Outcome, ProcessStep, Step, UnusableStep
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.library_client import LibraryClient
from broker_app.reflex.statistics import DeclarationStatistics
from broker_app.reflex.subject import MessageSubject, Subject
from broker_app.telemetry.component_health import REFLEX, health_of

DISABLED, RUNNING, UNUSABLE = "disabled", "running", "unusable"


def of_declaration(
    declaration: Declaration, step: Step | None, statistics: DeclarationStatistics
) -> dict[str, Any]:
    """A declaration, its state and its statistics."""
    state, error = _state(step)
    shown = statistics.shown()
    failed_s = shown.pop("last_failure_s")
    return {
        "name": declaration.name,
        "kind": declaration.kind,
        "service": declaration.service,
        "event": declaration.event,
        "library": declaration.library,
        "function": declaration.function,
        "options": dict(declaration.options),
        "time_limit_s": declaration.time_limit_s,
        "on_failure": declaration.on_failure,
        "enabled": declaration.enabled,
        "origin": declaration.origin or None,
        "state": state,
        "health": health_of(REFLEX, {"state": state, **shown}),
        "error": error,
        **shown,
        "last_failure_at": rfc3339(failed_s) if failed_s else None,
    }


def _state(step: Step | None) -> tuple[str, str | None]:
    if step is None:
        return DISABLED, None
    if isinstance(step, UnusableStep):
        return UNUSABLE, step.reason
    if isinstance(step, ProcessStep):
        return step.client.state, step.client.breaker.reason or None
    return RUNNING, None


def of_library(client: LibraryClient) -> dict[str, Any]:
    """A library and its process."""
    return {
        "name": client.name,
        "state": client.state,
        "pid": client.pid or None,
        "starts": client.starts,
        "functions": client.functions,
        "failures_in_row": client.breaker.failures,
        "error": client.breaker.reason or None,
    }


def of_step(step: Step, decision: Decision) -> dict[str, Any]:
    """One step of a trial."""
    verdict = decision.verdict
    return {
        "name": step.declaration.name,
        "library": step.declaration.library,
        "function": step.declaration.function,
        "result": "accepted" if verdict.accepted else "refused",
        "reason": verdict.reason or None,
        "failure": decision.failure or None,
        "headers": dict(verdict.headers) if not decision.failure else {},
        "messages": [
            {"destination": one.destination, "headers": dict(one.headers), "bytes": len(one.body)}
            for one in verdict.messages
        ],
        "marks": sorted(verdict.marks),
        "micros": decision.micros,
    }


def not_asked(step: Step) -> dict[str, Any]:
    """A step that was not asked, because one before it has refused."""
    return {
        "name": step.declaration.name,
        "library": step.declaration.library,
        "function": step.declaration.function,
        "result": "not asked",
        "reason": None,
        "failure": None,
        "headers": {},
        "messages": [],
        "marks": [],
        "micros": 0,
    }


def of_trial(outcome: Outcome, subject: Subject, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of a trial."""
    return {
        "accepted": outcome.accepted,
        "reflex": outcome.reflex or None,
        "reason": outcome.reason or None,
        "headers": subject.headers if isinstance(subject, MessageSubject) else {},
        "steps": steps,
    }
