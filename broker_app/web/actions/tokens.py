"""Tokens: made, with a secret that is shown once, and revoked."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from broker_app.models import Token
from broker_app.web.actions.actor import Actor
from broker_app.web.actions.change_set import Conflict, Edit, apply

TOKEN_MARK = "mom_"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token. `secret` is shown only once."""

    token: Token
    secret: str = field(repr=False)


def make_secret() -> tuple[str, dict[str, object]]:
    """A new token's secret, and what is kept of it."""
    secret = TOKEN_MARK + secrets.token_urlsafe(32)
    return secret, {"digest": hashlib.sha256(secret.encode()).digest(), "prefix": secret[:8]}


@transaction.atomic
def create_token(
    actor: Actor,
    owner: User,
    name: str,
    expires: datetime | None = None,
    grants: Sequence[Mapping[str, Any]] | None = None,
) -> NewToken:
    """A new token of `owner`. No grants are all of the owner's rights.

    Raises Conflict for a name that is taken, ValidationError for an end that is past or wrong grants.
    """
    if Token.objects.filter(owner=owner, name=name).exists():
        raise Conflict(f"You have a token named {name} already.")
    spec = {"grants": grants, "expires": expires.isoformat() if expires is not None else None}
    secret, hidden = make_secret()
    apply(actor, [Edit("tokens", f"{owner.username}/{name}", spec, secrets=hidden)])
    return NewToken(Token.objects.get(owner=owner, name=name), secret)


def revoke_token(actor: Actor, token: Token) -> None:
    """Ends a token; it is refused from now on."""
    apply(actor, [Edit("tokens", str(token), None)])


@transaction.atomic
def note_use(used: Mapping[bytes, datetime]) -> None:
    """Write when tokens, by digest, were last used: no change of the configuration."""
    for digest, time in used.items():
        Token.objects.filter(digest=digest).update(last_used=time)
