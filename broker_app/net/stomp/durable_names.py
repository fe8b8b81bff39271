"""Names of durable and shared subscriptions, from the headers of MOM and of other brokers.

| | headers | name |
|---|---|---|
| MOM | `durable-name`, `share` | as given |
| RabbitMQ | `durable:true`, `auto-delete:false`, `id` | `<id>@<topic>`: an id there belongs to one topic |
| RabbitMQ | `x-queue-name`, of topics | as given; it is shared, and durable with the headers above |
| ActiveMQ | `activemq.subscriptionName`, CONNECT's `client-id` | `<client-id>.<name>`, or the name alone |
| Artemis | `durable-subscription-name`, `durable-subscriber-name`, CONNECT's `client-id` | the same |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker_app.base.refused import Refused
from broker_app.core.destination import TOPIC, Destination
from broker_app.net.stomp.header_names import SUBSCRIBE, aliases

#: true or false; the second is RabbitMQ's former name of the first
_DURABLE = ("durable", "persistent")
_OF_CLIENT = tuple(name for name in aliases(SUBSCRIBE, "durable-name") if name not in _DURABLE)
#: RabbitMQ's, of the queue behind a subscription to a topic
_QUEUE_NAME = "x-queue-name"
_TRUE, _FALSE = ("true", "1"), ("false", "0", "")


class Naming(NamedTuple):
    """The subscription that a SUBSCRIBE requests; without a name it ends with its connection."""

    name: str = ""
    durable: bool = False
    shared: bool = False


def of_subscribe(headers: Mapping[str, str], destination: Destination, client_id: str) -> Naming:
    """Return the name that a SUBSCRIBE requests. Raises Refused if headers contradict each other, or if a
    name is missing."""
    share = headers.get("share", "")
    given = headers.get("durable-name", "")
    if given:
        if share.lower() not in _TRUE + _FALSE:
            raise Refused(
                "invalid", f"header share is {share[:80]!r}; with durable-name it must be true or false"
            )
        return Naming(given, True, share.lower() in _TRUE)
    if share.lower() in _TRUE:
        raise Refused("invalid", "share:true needs durable-name; without it, share is the name itself")
    if share and share.lower() not in _FALSE:
        return Naming(share, False, True)
    of_client = _of_client(headers, client_id)
    if of_client:
        return Naming(of_client, True)
    if destination.kind == TOPIC:
        return _of_rabbitmq(headers, destination)
    return Naming()


def _of_rabbitmq(headers: Mapping[str, str], destination: Destination) -> Naming:
    """Return the name of the queue that RabbitMQ would make for a topic, which its consumers share."""
    durable, queue = _is_durable(headers), headers.get(_QUEUE_NAME, "")
    if queue:
        return Naming(queue, durable, True)
    if not durable:
        return Naming()
    id = headers.get("id", "")
    if not id:
        raise Refused("invalid", "durable:true needs an id header, which names the subscription")
    return Naming(_of_topic(id, destination.name), True, True)


def to_forget(headers: Mapping[str, str], id: str | None, client_id: str) -> str | None:
    """Return the name of the durable subscription that an UNSUBSCRIBE deletes; "" is that of the subscription
    `id`, None is none."""
    of_client = _of_client(headers, client_id)
    if of_client:
        return of_client
    if headers.get("delete", "").lower() in _TRUE:
        return headers.get("durable-name", "")
    if not _is_durable(headers):
        return None
    if headers.get(_QUEUE_NAME):
        return headers[_QUEUE_NAME]
    topic = headers.get("destination", "").removeprefix(f"/{TOPIC}/")
    return _of_topic(id, topic) if id and topic else ""


def _of_client(headers: Mapping[str, str], client_id: str) -> str:
    given = next((headers[name] for name in _OF_CLIENT if name in headers), "")
    return f"{client_id}.{given}" if given and client_id else given


def _of_topic(id: str, topic: str) -> str:
    return f"{id}@{topic}"


def _is_durable(headers: Mapping[str, str]) -> bool:
    """Return True for a durable subscription. As in RabbitMQ, auto-delete overrides durable."""
    durable = any(headers.get(name, "").lower() in _TRUE for name in _DURABLE)
    return durable and headers.get("auto-delete", "").lower() not in _TRUE
