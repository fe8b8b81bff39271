"""The messages that a real broker has in a queue."""

from __future__ import annotations

import base64
from typing import Any

from tests.support.broker_process import BrokerProcess


def messages(broker: BrokerProcess, queue: str) -> list[dict[str, Any]]:
    """All that wait, in order."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = broker.request("GET", f"/api/v1/queues/{queue}/messages?limit=500{after}").json()
        found += page.get("items", [])
        if not page.get("next"):
            return found
        after = f"&after={page['next']}"


def bodies(broker: BrokerProcess, queue: str) -> list[str]:
    return [message["body"] for message in messages(broker, queue)]


def contents(broker: BrokerProcess, queue: str) -> list[bytes]:
    """The bodies that wait, in order, whatever they are."""
    return [
        base64.b64decode(message["body_base64"]) if "body_base64" in message else message["body"].encode()
        for message in messages(broker, queue)
    ]
