"""Events as the API shows and filters them."""

from __future__ import annotations

from typing import TypedDict

from broker_app.core.destination import QUEUE, TOPIC, Destination, parse
from broker_app.rules.event import Event


class EventFacts(TypedDict):
    """An event as JSON: who, what, where and how; null is what is not known."""

    user: str | None
    right: str | None
    method: str | None
    destination: str | None
    address: str | None
    protocol: str | None
    tls: bool | None
    client: str | None


def shown(event: Event) -> EventFacts:
    """An event as JSON."""
    kind, name = (QUEUE, event.queue) if event.queue is not None else (TOPIC, event.topic)
    return {
        "user": event.user,
        "right": event.right or None,
        "method": event.method,
        "destination": f"{kind}:{name}" if name is not None else None,
        "address": event.address,
        "protocol": event.protocol,
        "tls": event.tls,
        "client": event.client,
    }


def destination_of(text: str) -> Destination:
    """The destination that `queue:orders`, or `/queue/orders`, names. Raises Refused."""
    for kind in (QUEUE, TOPIC):
        if text.startswith(f"{kind}:"):
            return parse(f"/{kind}/{text[len(kind) + 1 :]}")
    return parse(text)
