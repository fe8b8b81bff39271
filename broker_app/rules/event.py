"""Events: requested actions, as the facts that conditions compare."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from broker_app.core.destination import has_wildcard

SEND, RECEIVE, BROWSE, READ, MANAGE = "send", "receive", "browse", "read", "manage"

#: a right, as tokens and the API name it → `/event/method`, as conditions name it
METHODS = {SEND: "POST", RECEIVE: "GET", BROWSE: "BROWSE", READ: "READ", MANAGE: "MANAGE"}
RIGHTS = {method: right for right, method in METHODS.items()}

STOMP, WEBSOCKET, REST, LOCAL, CALLBACK = PROTOCOLS = ("stomp", "websocket", "rest", "local", "callback")


class Event(NamedTuple):
    """An action on a destination that a client requests.

    A fact that is None is not known, and each comparison with it is false. `queue` and `topic` are names
    without `/queue/` and `/topic/`; at most one of them is set. `address` is an IP address, `client` STOMP's
    client-id.
    """

    user: str
    groups: frozenset[str] = frozenset()
    method: str | None = None
    queue: str | None = None
    topic: str | None = None
    address: str | None = None
    protocol: str | None = None
    tls: bool | None = None
    client: str | None = None

    @property
    def destination(self) -> str:
        """The address that is meant, or "" where there is none."""
        if self.queue is not None:
            return f"/queue/{self.queue}"
        return f"/topic/{self.topic}" if self.topic is not None else ""

    @property
    def right(self) -> str:
        """The right that is needed, by its name in tokens and in the API; "" where there is no method."""
        return RIGHTS.get(self.method or "", "")


def is_wild(topic: str) -> bool:
    """True if `topic` has wildcards, as the filter of a subscription can."""
    return ("*" in topic or ">" in topic or "#" in topic) and has_wildcard(topic)


def method_of(action: str) -> str:
    """The method that `action` names: POST or send, GET or receive… Raises ValueError with a suggestion."""
    if action in RIGHTS:
        return action
    if action in METHODS:
        return METHODS[action]
    near = difflib.get_close_matches(action.upper(), RIGHTS, 1) or difflib.get_close_matches(
        action, METHODS, 1
    )
    suggestion = f"; did you mean {near[0]}?" if near else "."
    raise ValueError(
        f"there is no action {action[:40]!r}{suggestion} Known are {', '.join([*RIGHTS, *METHODS])}."
    )
