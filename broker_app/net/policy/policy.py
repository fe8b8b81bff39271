"""The policy: an immutable snapshot of the configuration that sessions need, without a database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_app.core.destination import TOPIC, Destination, is_reserved
from broker_app.features.bridge.remote import Remote
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.masks.mask import Mask
from broker_app.net.policy.destination_settings import EVERYTHING, Destinations, is_pattern
from broker_app.reflex.declaration import Declaration
from broker_app.rules.ruleset import Rules
from broker_app.telemetry.alerts.rule import DEFAULT_RULES, AlertRule

#: the right of a token that may use the control plane, where its owner is an administrator
ADMINISTER = "administer"
#: the right of a token that may read the whole journal, where its owner is an administrator
READ_JOURNAL = "journal:read"
READ_METRICS = "metrics:read"


@dataclass(frozen=True, slots=True)
class UserFacts:
    """One user who may log in (inactive ones are not in the policy)."""

    name: str
    password_hash: str = field(repr=False)
    admin: bool = False
    groups: frozenset[str] = frozenset()
    #: sees everything and changes nothing (`roles`)
    monitor: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights that a token has to some destinations: addresses, patterns like `/queue/orders.>`, or `>` for
    all. Only patterns that contain a `$` cover the broker's own destinations (`$mom…`)."""

    rights: frozenset[str]
    destinations: tuple[str, ...]

    def covers(self, right: str, destination: Destination) -> bool:
        """Return True if it covers the right. A wildcard address is covered if the pattern covers all of
        it."""
        if right not in self.rights:
            return False
        return any(_covers(pattern, destination) for pattern in self.destinations)


def _covers(pattern: str, destination: Destination) -> bool:
    address = destination.address
    if not is_pattern(pattern):
        return pattern == address
    if is_reserved(destination.name) and "$" not in pattern:
        return False
    if pattern == EVERYTHING or address.startswith(pattern[:-1]):
        return True
    # As a subscription to `orders.>` gets what is sent to `orders`.
    return destination.kind == TOPIC and pattern[:-2] == address


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """One token, found by the SHA-256 of its secret. It grants all rights of `user`, or those that `grants`
    name."""

    user: str
    name: str
    expires: float | None = None  # seconds since the epoch
    grants: tuple[Grant, ...] | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Users, tokens, rules and settings as of `version`. Versions only grow.

    `broker` has the reloadable settings of the node (`config.RELOADABLE`) by name, `bridges` the remote
    brokers that store-and-forward queues are forwarded to, `callbacks` the webhooks, `alerts` the alert
    rules, `reflexes` the declarations of reflexes in their order, `masks` what is hidden of messages.
    """

    version: int = 0
    users: Mapping[str, UserFacts] = field(default_factory=dict)
    tokens: Mapping[bytes, TokenFacts] = field(default_factory=dict)
    anonymous: bool = False
    destinations: Destinations = field(default_factory=Destinations)
    rules: Rules = field(default_factory=Rules)
    broker: Mapping[str, Any] = field(default_factory=dict)
    bridges: Mapping[str, Remote] = field(default_factory=dict)
    callbacks: Mapping[str, Callback] = field(default_factory=dict)
    alerts: Sequence[AlertRule] = tuple(DEFAULT_RULES.values())
    reflexes: Sequence[Declaration] = ()
    masks: Sequence[Mask] = ()
