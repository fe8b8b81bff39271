"""Policy: the immutable snapshot of what deciding about a client needs, free of any database."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_app.net.destinations import Destinations


@dataclass(frozen=True, slots=True)
class UserFacts:
    """One user who may log in (inactive ones are not in the policy)."""

    name: str
    password_hash: str = field(repr=False)
    admin: bool = False


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """One token, found by the SHA-256 of its secret; it lends the rights of `user`."""

    user: str
    name: str
    expires: float | None = None  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may come in, and what holds for destinations, as of `version`. Versions only grow."""

    version: int = 0
    users: Mapping[str, UserFacts] = field(default_factory=dict)
    tokens: Mapping[bytes, TokenFacts] = field(default_factory=dict)
    anonymous: bool = False
    destinations: Destinations = field(default_factory=Destinations)
