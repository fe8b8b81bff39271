"""A rate limit by token bucket: for each service, user, or value of a header."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from broker_app.reflex.api import ACCEPT, Verdict, refuse
from broker_app.reflex.chain import InBroker
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.shipped.context import Context
from broker_app.reflex.shipped.options import Option, positive
from broker_app.reflex.subject import MessageSubject, RegistrationSubject, Subject

_HEADER: Final = "header:"
#: buckets of one declaration; the one that was not used for longest goes first
MAX_BUCKETS: Final = 10_000


def _by(value: Any) -> str:
    if value in ("service", "user") or (
        isinstance(value, str) and len(value) > len(_HEADER) and value.startswith(_HEADER)
    ):
        return ""
    return f"must be service, user or {_HEADER}NAME"


OPTIONS: Final = (
    Option("rate", "how many a second", positive, required=True),
    Option("burst", "how many at once; else as many as a second, and at least 1", positive),
    Option("by", f"what is limited: service, user or {_HEADER}NAME", _by),
)


class Buckets:
    """Token buckets by key; `clock` is in seconds."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        #: (tokens, as of when)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, *, peek: bool = False) -> float:
        """Take a token; returns 0, or the seconds until there is one. With `peek` it stays."""
        now = self._clock()
        tokens, since = self._buckets.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        if not wait_s and not peek:
            tokens -= 1
        self._buckets[key] = tokens, now
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return wait_s


def limit_rate(declaration: Declaration, context: Context) -> InBroker:
    """Refuse what is too fast, with the time to wait."""
    options = declaration.options
    rate = float(options["rate"])
    buckets = Buckets(rate, max(1.0, float(options.get("burst", rate))), context.clock)
    by = str(options.get("by", "service"))

    def decide(subject: Subject, trial: bool) -> Verdict:
        wait_s = buckets.take(_key(subject, by), peek=trial)
        if not wait_s:
            return ACCEPT
        return refuse(f"more than {rate:g} a second by {by}; try again in {wait_s:.3f} s", retry_s=wait_s)

    return decide


def _key(subject: Subject, by: str) -> str:
    if isinstance(subject, RegistrationSubject):
        registration = subject.registration
        return registration.user if by == "user" else registration.name
    return _key_of_message(subject, by)


def _key_of_message(subject: MessageSubject, by: str) -> str:
    if by == "user":
        return subject.user
    return subject.address if by == "service" else subject.headers.get(by[len(_HEADER) :], "")
