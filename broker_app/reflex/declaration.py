"""Declarations: which function of which library is asked about what."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker_app.reflex import patterns
from broker_app.reflex.patterns import Pattern, ServicePattern

REGISTRATION, DEREGISTRATION, ARRIVAL, DELIVERY, SERVICE, CHANNEL = KINDS = (
    *("registration", "deregistration", "arrival", "delivery", "service", "channel"),
)
#: kinds whose events are matched
OF_MESSAGES: Final = (ARRIVAL, DELIVERY, SERVICE)
REFUSE, ACCEPT = ON_FAILURE = ("refuse", "accept")
DEFAULT_LIMIT_S: Final = 1.0
#: seconds
LEAST_LIMIT_S, MOST_LIMIT_S = 0.01, 60.0
MAX_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class Declaration:
    """One reflex. `service` and `event` are patterns, `origin` is the place of a file that it is from.

    `on_failure` is what happens when the function fails, does not answer within `time_limit_s`, or does not
    exist."""

    name: str
    kind: str
    library: str
    function: str
    service: str = "*"
    event: str = "*"
    options: Mapping[str, Any] = field(default_factory=dict)
    time_limit_s: float = DEFAULT_LIMIT_S
    on_failure: str = REFUSE
    enabled: bool = True
    origin: str = ""

    def with_name(self) -> str:
        """Kind, name and function, for sentences."""
        return f"{self.kind} reflex {self.name} ({self.function} of {self.library})"


def faults(spec: Mapping[str, Any]) -> dict[str, str]:
    """The errors of the members of a declaration, by name; empty if all are valid. Their types are right."""
    found: dict[str, str] = {}
    kind = spec["kind"]
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        found["kind"] = f"must be one of {', '.join(KINDS)}" + (f"; did you mean {near[0]}?" if near else "")
    if spec["on_failure"] not in ON_FAILURE:
        found["on_failure"] = f"must be {REFUSE} or {ACCEPT}"
    elif kind == CHANNEL and spec["on_failure"] != REFUSE:
        found["on_failure"] = f"must be {REFUSE}: a request whose function fails has no answer"
    if not LEAST_LIMIT_S <= spec["time_limit_s"] <= MOST_LIMIT_S:
        found["time_limit_s"] = f"must be from {LEAST_LIMIT_S:g} to {MOST_LIMIT_S:g} seconds"
    for name in ("library", "function"):
        if error := _wrong_name(spec[name]):
            found[name] = error
    if error := _wrong_service(kind, spec["service"]):
        found["service"] = error
    if error := _wrong_event(kind, spec["event"]):
        found["event"] = error
    return found


def _wrong_name(name: str) -> str:
    if not name:
        return "is missing"
    if len(name) > MAX_NAME or not name.isprintable() or any(sign.isspace() for sign in name):
        return f"must have at most {MAX_NAME} characters without white space"
    return ""


def _wrong_service(kind: str, service: str) -> str:
    try:
        if kind not in OF_MESSAGES:
            patterns.check(service)
            if kind == CHANNEL and not Pattern(service).is_everything:
                return "must be *: a handler of channels gets the calls of all sites"
            return ""
        pattern = ServicePattern(service)
    except ValueError as error:
        return str(error)
    if kind == SERVICE and (pattern.address is None or not pattern.address.startswith("/queue/")):
        return "must be the name of one queue, without wildcards: a local service consumes it"
    return ""


def _wrong_event(kind: str, event: str) -> str:
    try:
        pattern = Pattern(event)
    except ValueError as error:
        return str(error)
    if kind not in OF_MESSAGES and not pattern.is_everything:
        return f"must be *: a {kind} has no event"
    if kind == SERVICE and "*" in event and not pattern.is_everything:
        return "must be *, a type, or a type with > at its end: a local service consumes by a selector"
    return ""
