"""Reports about declarations, libraries and trials, for the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from broker_app.base import states
from broker_app.base.reply_types import Count, Time, about, one_of, state_of
from broker_app.base.times import rfc3339
from broker_app.reflex.chain import ChainStep, Decision, Outcome, ProcessStep, UnusableStep
from broker_app.reflex.declaration import KINDS, ON_FAILURE, Declaration
from broker_app.reflex.libraries.library_client import LibraryClient
from broker_app.reflex.statistics import DeclarationStatistics
from broker_app.reflex.subject import MessageSubject, Subject
from broker_app.telemetry.component_health import REFLEX, Health, health_of

RUNNING, _, _, UNUSABLE, DISABLED = states.REFLEX
#: of reflexes and of libraries
_State = Annotated[str, state_of(states.REFLEX)]
_Milliseconds = Annotated[float | None, about("milliseconds, of the last minute; null: no calls")]


class ReflexStatus(TypedDict):
    """A reflex, its state and its statistics."""

    name: str
    kind: Annotated[str, one_of(KINDS)]
    service: str
    event: str
    library: str
    function: str
    options: Annotated[Mapping[str, Any], about("what the function receives")]
    time_limit_s: float
    on_failure: Annotated[str, one_of(ON_FAILURE)]
    enabled: bool
    origin: Annotated[str | None, about("the line of the file of the setting reflex_file")]
    state: _State
    health: Health
    error: str | None
    calls: Count
    refusals: Count
    failures: Annotated[Count, about("errors, crashes, and calls that took too long")]
    failures_in_row: Annotated[Count, about("failures since the last verdict")]
    unpublished: Annotated[Count, about("further messages that were refused")]
    p50_ms: _Milliseconds
    p99_ms: _Milliseconds
    last_failure: str
    last_failure_at: Time | None


class ReflexLibrary(TypedDict):
    """A library and its process."""

    name: str
    state: _State
    pid: Annotated[int | None, about("of its process")]
    starts: Annotated[Count, about("processes that were started")]
    functions: list[str]
    failures_in_row: Count
    error: str | None


class ReflexStatusList(TypedDict):
    """The reflexes in their order, and the libraries that run in processes."""

    items: list[ReflexStatus]
    libraries: list[ReflexLibrary]


class ReflexMessage(TypedDict):
    """A further message that a function would publish."""

    destination: str
    headers: Mapping[str, str]
    bytes: Count


class ReflexStep(TypedDict):
    """One step of a trial."""

    name: str
    library: str
    function: str
    result: Annotated[str, state_of(states.TRIAL)]
    reason: str | None
    failure: Annotated[str | None, about("why the function failed; only operators see it")]
    headers: Annotated[Mapping[str, str | None], about("headers that it set; null: removed")]
    messages: Annotated[list[ReflexMessage], about("further messages that it would publish")]
    marks: Annotated[list[str], about("on the registration")]
    micros: Annotated[Count, about("microseconds that it took")]


class ReflexTrial(TypedDict):
    """The result of a trial."""

    accepted: bool
    reflex: Annotated[str | None, about("the one that refused")]
    reason: str | None
    headers: Annotated[Mapping[str, str], about("of the message at the end")]
    steps: list[ReflexStep]


def of_declaration(
    declaration: Declaration, step: ChainStep | None, statistics: DeclarationStatistics
) -> ReflexStatus:
    """A declaration, its state and its statistics."""
    state, error = _state(step)
    times, failed_s = statistics.times(), statistics.last_failure_s
    facts = {"state": state, "failures_in_row": statistics.failures_in_row}
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
        "health": health_of(REFLEX, facts),
        "error": error,
        "calls": statistics.calls,
        "refusals": statistics.refusals,
        "failures": statistics.failures,
        "failures_in_row": statistics.failures_in_row,
        "unpublished": statistics.unpublished,
        "p50_ms": times.p50,
        "p99_ms": times.p99,
        "last_failure": statistics.last_failure,
        "last_failure_at": rfc3339(failed_s) if failed_s else None,
    }


def _state(step: ChainStep | None) -> tuple[str, str | None]:
    if step is None:
        return DISABLED, None
    if isinstance(step, UnusableStep):
        return UNUSABLE, step.reason
    if isinstance(step, ProcessStep):
        return step.client.state, step.client.breaker.reason or None
    return RUNNING, None


def of_library(client: LibraryClient) -> ReflexLibrary:
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


def of_step(step: ChainStep, decision: Decision) -> ReflexStep:
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


def not_asked(step: ChainStep) -> ReflexStep:
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


def of_trial(outcome: Outcome, subject: Subject, steps: list[ReflexStep]) -> ReflexTrial:
    """The result of a trial."""
    return {
        "accepted": outcome.accepted,
        "reflex": outcome.reflex or None,
        "reason": outcome.reason or None,
        "headers": subject.headers if isinstance(subject, MessageSubject) else {},
        "steps": steps,
    }
