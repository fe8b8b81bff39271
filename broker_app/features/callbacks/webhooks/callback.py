"""Callback: the configuration of one webhook, independent of any database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from broker_app.base.marked import mark as _
from broker_app.base.spec_members import SpecMember, member, members_of
from broker_app.core.destination import QUEUE, TOPIC

#: the desired states of a callback
RUNNING, PAUSED = DESIRED_STATES = ("running", "paused")
#: messages are taken from the queue and pushed; or their arrival is reported and they stay
DELIVER, NOTIFY = MODES = ("deliver", "notify")
#: the content modes of CloudEvents over HTTP
BINARY, STRUCTURED = CONTENTS = ("binary", "structured")
#: the beginning of the names of durable subscriptions that belong to callbacks
SUBSCRIPTION_PREFIX: Final = "$callback."
LONGEST_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Callback:
    """One callback. Times are in seconds.

    Either `queue` or `topic` is set. It acts with the rights of the user `owner`. `secret` signs pushes, as
    does `former_secret` until the time `former_until` (seconds since 1970). `authorization` is the header of
    that name, or empty. `headers` are sent with each push. At most `max_in_flight` pushes have no answer; one
    without an answer after `timeout_s` has failed. The first retry of a message comes after `retry_s`, each
    further one after twice the time, up to `max_retry_s`.
    """

    name: str
    url: str
    owner: str = ""
    queue: str = ""
    topic: str = ""
    selector: str = ""
    mode: str = member(
        DELIVER,
        _("Mode"),
        _("deliver: messages are taken and pushed; notify: their arrival is reported, and they stay"),
        choices={DELIVER: _("deliver messages"), NOTIFY: _("report arrivals")},
    )
    content: str = member(
        BINARY,
        _("Content mode"),
        _("of CloudEvents: attributes in headers, or attributes and message in one JSON object"),
        choices={BINARY: _("attributes in headers"), STRUCTURED: _("one JSON object")},
    )
    headers: tuple[tuple[str, str], ...] = ()
    max_in_flight: int = member(
        5, _("In flight"), _("pushes that may have no answer at the same time"), least=1, most=100
    )
    timeout_s: float = member(
        15.0, _("Timeout"), _("seconds for a complete answer"), least=0.1, most=LONGEST_TIMEOUT_S
    )
    retry_s: float = member(
        5.0,
        _("First retry"),
        _("seconds before the first retry of a message; then twice as long"),
        least=0.01,
        most=3_600.0,
    )
    max_retry_s: float = member(
        3600.0, _("Longest retry"), _("most seconds between two retries"), least=0.01, most=86_400.0
    )
    desired: str = member(
        RUNNING,
        _("Desired state"),
        _("paused: nothing is pushed, and messages wait"),
        choices={RUNNING: _("running"), PAUSED: _("paused")},
    )
    secret: str = field(default="", repr=False)
    former_secret: str = field(default="", repr=False)
    former_until: float = 0.0
    authorization: str = field(default="", repr=False)
    #: the reason why the configuration is unusable; empty if it is usable
    config_error: str = ""

    @classmethod
    def of(cls, name: str, spec: Mapping[str, Any], **others: Any) -> Callback:
        """The callback of a spec; `others` are members that are not in it, such as secrets."""
        known = {key: value for key, value in spec.items() if key in _IN_SPEC}
        headers = tuple(sorted(spec.get("headers", {}).items()))
        return cls(name, **{**known, "headers": headers, **others})

    @property
    def address(self) -> str:
        """The destination whose messages are pushed."""
        return f"/{QUEUE}/{self.queue}" if self.queue else f"/{TOPIC}/{self.topic}"

    @property
    def subscription(self) -> str:
        """The name of its durable subscription; empty for a queue."""
        return SUBSCRIPTION_PREFIX + self.name if self.topic else ""

    def secrets_at(self, now_s: float) -> tuple[str, ...]:
        """The secrets that sign a push, the newest first."""
        return (self.secret, self.former_secret) if now_s < self.former_until else (self.secret,)

    def consumes_like(self, other: Callback) -> bool:
        """True if a subscription that was made for one serves the other."""
        return all(getattr(self, name) == getattr(other, name) for name in _OF_CONSUMER)


_OF_CONSUMER: Final = ("owner", "queue", "topic", "selector", "mode", "max_in_flight")
#: members that the spec does not have, or has in another form
_NOT_IN_SPEC: Final = {
    "name", "headers", "secret", "former_secret", "former_until", "authorization", "config_error",
}  # fmt: skip
#: by name, and the default of each
MEMBERS: Final[Mapping[str, tuple[SpecMember, Any]]] = members_of(Callback)
_IN_SPEC: Final = frozenset(one.name for one in fields(Callback)) - _NOT_IN_SPEC
