"""The status of callbacks, as plain data for REST, pages, system topics and metrics. Times are ms since
1970."""

from __future__ import annotations

from typing import Any

from broker_app.core.broker import Broker
from broker_app.core.destination import DURABLE_PREFIX
from broker_app.features.callbacks.webhooks.breaker import HALF_OPEN, OPEN
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.host import Host
from broker_app.features.callbacks.webhooks.push_log import Push
from broker_app.features.callbacks.webhooks.push_totals import PushTotals
from broker_app.features.callbacks.webhooks.sender import Attempt
from broker_app.features.callbacks.webhooks.verdict import ACCEPTED, OUTCOMES
from broker_app.features.callbacks.webhooks.webhook import Webhook

#: headers of a test that are not shown
_HIDDEN = ("authorization", "webhook-signature")
#: characters of bodies that a test shows
_SHOWN = 2_000


def of_webhook(webhook: Webhook, broker: Broker) -> dict[str, Any]:
    """A callback: state, breaker of its host, waiting messages, counts of pushes and their times."""
    callback, log = webhook.callback, webhook.log
    last = log.last
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
        "accepted_ms": log.last_accepted_ms or None,
        "last": of_push(last) if last is not None else None,
    }


def of_breaker(host: Host) -> dict[str, Any]:
    """The breaker that stops pushes to a host, if one does: `until_ms` is the end of a time in which nothing
    is pushed, None without one; `pause` its cause, unless it is the breaker."""
    gate = host.gate
    return {
        "host": host.name,
        "state": gate.state,
        "until_ms": round(gate.closed_until * 1000) or None,
        "pause": gate.pause,
    }


def of_push(push: Push) -> dict[str, Any]:
    return push._asdict()


def of_attempt(attempt: Attempt) -> dict[str, Any]:
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
) -> dict[str, Any]:
    """The numbers of all callbacks together, for metrics."""
    return {
        **since_start.report(),
        "pending": sum(pending(one.callback, broker) for one in webhooks),
        "in_flight": sum(one.in_flight for one in webhooks),
        "open_breakers": breakers[OPEN] + breakers[HALF_OPEN],
    }


def pending(callback: Callback, broker: Broker) -> int:
    """The messages that wait for a callback, those in flight too."""
    address = DURABLE_PREFIX + callback.subscription if callback.subscription else callback.address
    queue = broker.destinations.queues.get(address)
    return queue.depth + queue.unsettled if queue is not None else 0
