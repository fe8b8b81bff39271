"""The status of callbacks: for REST, pages, system topics and alerts; and their totals for metrics."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from broker_app.base import states
from broker_app.base.reply_types import Count, HttpStatus, Seconds, Time, about, one_of, state_of
from broker_app.base.times import of_ms, rfc3339
from broker_app.core.broker import Broker
from broker_app.core.destination import DURABLE_PREFIX
from broker_app.features.callbacks.webhooks.breaker import HALF_OPEN, OPEN
from broker_app.features.callbacks.webhooks.callback import DESIRED_STATES, MODES, Callback
from broker_app.features.callbacks.webhooks.host import PAUSES, Host
from broker_app.features.callbacks.webhooks.push_log import LoggedPush
from broker_app.features.callbacks.webhooks.push_totals import Durations, PushTotals
from broker_app.features.callbacks.webhooks.sender import Attempt
from broker_app.features.callbacks.webhooks.verdict import ACCEPTED, OUTCOMES
from broker_app.features.callbacks.webhooks.webhook import Webhook

#: headers of a test that are not shown
_HIDDEN: Final = ("authorization", "webhook-signature")
#: characters of bodies that a test shows
_SHOWN: Final = 2_000


class Push(TypedDict):
    """A push that has ended."""

    at: Time
    id: Annotated[str, about("of the message or the notification, as in webhook-id")]
    attempt: Annotated[Count, about("1 for the first")]
    outcome: Annotated[str, state_of(states.PUSH)]
    status: HttpStatus
    seconds: Seconds
    detail: Annotated[str, about("why it was not accepted")]


class Breaker(TypedDict):
    """The breaker that stops pushes to a host; an owner has one for each."""

    host: Annotated[str, about("host and port")]
    state: Annotated[str, state_of(states.BREAKER)]
    pause: Annotated[
        str,
        one_of(("", *PAUSES)),
        about(
            "why nothing is pushed until then, unless it is the breaker: the receiver asked for it "
            "(Retry-After), or no worker takes requests"
        ),
    ]
    until: Annotated[Time | None, about("until when nothing is pushed there")]


class CallbackReport(TypedDict):
    """The state of a callback, its pushes, and the breaker of its host."""

    name: str
    owner: str
    source: Annotated[str, about("address of the queue or topic")]
    url: str
    mode: Annotated[str, one_of(MODES)]
    desired: Annotated[str, one_of(DESIRED_STATES)]
    state: Annotated[str, state_of(states.CALLBACK)]
    reason: Annotated[str, about("why it does not run")]
    breaker: Breaker
    pending: Annotated[Count, about("messages that wait, those in flight too")]
    in_flight: Annotated[Count, about("pushes without an answer")]
    pushes: Annotated[dict[str, Count], about("their number, by outcome")]
    failures_in_row: Annotated[Count, about("pushes since the last accepted one")]
    push_seconds: Annotated[Seconds, about("all pushes together")]
    coalesced: Annotated[Count, about("arrivals that were reported together with an earlier one")]
    p50_s: Annotated[Seconds | None, about("median of the last 100 pushes")]
    p95_s: Seconds | None
    accepted_at: Annotated[Time | None, about("when a push was accepted last")]
    last: Annotated[Push | None, about("the push that ended last")]


class CallbackTotals(TypedDict):
    """The numbers of all callbacks together, for metrics; `pushes` by outcome."""

    pushes: dict[str, int]
    retries: int
    dead_lettered: int
    durations: Durations
    pending: int
    in_flight: int
    open_breakers: int


class SampleRequest(TypedDict):
    """The request of a test."""

    method: str
    url: str
    headers: Annotated[dict[str, str], about("credentials and signature are not shown")]
    body: str


class SampleResponse(TypedDict):
    """The answer of a receiver to a test."""

    status: HttpStatus
    headers: dict[str, str]
    body: str


class CallbackTest(TypedDict):
    """A signed sample that was sent, and the answer, if there is one."""

    ok: Annotated[bool, about("whether the receiver accepted it")]
    outcome: Annotated[str, state_of(states.PUSH)]
    detail: str
    seconds: Seconds
    request: SampleRequest
    response: SampleResponse | None


def of_webhook(webhook: Webhook, broker: Broker) -> CallbackReport:
    """A callback: state, breaker of its host, waiting messages, counts of pushes and their times."""
    callback, log = webhook.callback, webhook.log
    return {
        "name": callback.name,
        "owner": callback.owner,
        "source": callback.address,
        "url": callback.url,
        "mode": callback.mode,
        "desired": callback.desired,
        "state": webhook.state,
        "reason": webhook.reason,
        "breaker": of_breaker(webhook.host),
        "pending": pending(callback, broker),
        "in_flight": webhook.in_flight,
        "pushes": {outcome: log.counts[outcome] for outcome in OUTCOMES},
        "failures_in_row": log.failures_in_row,
        "push_seconds": round(log.seconds, 3),
        "coalesced": webhook.coalesced,
        "p50_s": log.percentile_s(0.5),
        "p95_s": log.percentile_s(0.95),
        "accepted_at": of_ms(log.last_accepted_ms),
        "last": of_push(log.last) if log.last is not None else None,
    }


def of_breaker(host: Host) -> Breaker:
    """The breaker that stops pushes to a host, if one does."""
    gate = host.gate
    return {
        "host": host.name,
        "state": gate.state,
        "pause": gate.pause,
        "until": of_ms(round(gate.closed_until * 1000)),
    }


def of_push(push: LoggedPush) -> Push:
    """A push that has ended."""
    return {
        "at": rfc3339(push.time_ms / 1000),
        "id": push.id,
        "attempt": push.attempt,
        "outcome": push.outcome,
        "status": push.status,
        "seconds": push.seconds,
        "detail": push.detail,
    }


def of_attempt(attempt: Attempt) -> CallbackTest:
    """A test: the request without credentials, and the answer, if there is one."""
    request, answer = attempt.request, attempt.answer
    return {
        "ok": attempt.verdict.outcome == ACCEPTED,
        "outcome": attempt.verdict.outcome,
        "detail": attempt.verdict.detail,
        "seconds": round(attempt.seconds, 4),
        "request": {
            "method": request.method,
            "url": request.url,
            "headers": {name: "…" if name in _HIDDEN else value for name, value in request.headers},
            "body": request.body.decode(errors="replace")[:_SHOWN],
        },
        "response": None
        if answer is None
        else {
            "status": answer.status,
            "headers": dict(answer.headers),
            "body": answer.body.decode(errors="replace")[:_SHOWN],
        },
    }


def totals(
    webhooks: list[Webhook], broker: Broker, breakers: dict[str, int], since_start: PushTotals
) -> CallbackTotals:
    """The numbers of all callbacks together, for metrics."""
    return {
        "pushes": since_start.by_outcome(),
        "retries": since_start.retries,
        "dead_lettered": since_start.dead_lettered,
        "durations": since_start.durations(),
        "pending": sum(pending(one.callback, broker) for one in webhooks),
        "in_flight": sum(one.in_flight for one in webhooks),
        "open_breakers": breakers[OPEN] + breakers[HALF_OPEN],
    }


def pending(callback: Callback, broker: Broker) -> int:
    """The messages that wait for a callback, those in flight too."""
    address = DURABLE_PREFIX + callback.subscription if callback.subscription else callback.address
    queue = broker.destinations.queues.get(address)
    return queue.depth + queue.unsettled if queue is not None else 0
