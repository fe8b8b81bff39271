"""Actions: the only writers of the models.

Each one validates, writes and raises the policy version in one transaction, and tells the node of
this process by `policy_changed`; other processes notice the version.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import password_validation
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.dispatch import Signal
from django.utils import timezone

from broker_app.core.errors import Refused
from broker_app.models import DestinationSettings, LoginLink, PolicyVersion, Token
from broker_app.net.destinations import SETTINGS, check_address, faults

ADMIN = "admin"
TOKEN_MARK = "mom_"
LOGIN_LINK_LIFE = timedelta(minutes=10)
MAX_DESTINATION_SETTINGS = 100_000

policy_changed = Signal()


class Conflict(Exception):
    """What was asked for contradicts what is there."""


class Stale(Exception):
    """A row is of another version than was expected; 0 when there is none."""

    def __init__(self, version: int) -> None:
        super().__init__(f"The version is {version} now.")
        self.version = version


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made. `secret` is shown this once and cannot be found again."""

    token: Token
    secret: str = field(repr=False)


@transaction.atomic
def ensure_admin(password: str | None) -> str | None:
    """Makes sure that somebody can log in, and returns the password that was made up for it, if any.

    A given password becomes that of the user admin. Without one, and when there is no user yet,
    admin gets a random one.
    """
    if password is not None:
        admin = User.objects.filter(username=ADMIN).first()
        if admin is None or not (admin.is_active and admin.check_password(password)):
            _write_admin(password)
        return None
    if User.objects.exists():
        return None
    made_up = secrets.token_urlsafe(12)
    _write_admin(made_up)
    return made_up


@transaction.atomic
def create_user(name: str, password: str) -> User:
    """A new user without admin's rights. Raises ValidationError for a name or password that will not do."""
    user = User(username=name)
    password_validation.validate_password(password, user)
    user.set_password(password)
    user.full_clean()
    user.save()
    changed()
    return user


@transaction.atomic
def set_password(user: User, password: str) -> None:
    """Gives a user a new password; sessions and cached logins with the old one end."""
    password_validation.validate_password(password, user)
    user.set_password(password)
    user.save(update_fields=["password"])
    changed()


@transaction.atomic
def create_token(owner: User, name: str, expires: datetime | None = None) -> NewToken:
    """A new token of `owner`.

    Raises Conflict for a name that is taken, ValidationError for an end that is past.
    """
    if expires is not None and expires <= timezone.now():
        raise ValidationError({"expires": "must be in the future"})
    if Token.objects.filter(owner=owner, name=name).exists():
        raise Conflict(f"You have a token named {name} already.")
    secret = TOKEN_MARK + secrets.token_urlsafe(32)
    token = Token(owner=owner, name=name, prefix=secret[:8], digest=_digest(secret), expires=expires)
    token.full_clean()
    token.save()
    changed()
    return NewToken(token, secret)


@transaction.atomic
def revoke_token(token: Token) -> None:
    """Ends a token; it is refused from now on."""
    token.delete()
    changed()


@transaction.atomic
def create_login_link(user: User) -> str:
    """The secret of a link that logs `user` in, once, within ten minutes. Links that ran out are swept."""
    LoginLink.objects.filter(expires__lte=timezone.now()).delete()
    secret = secrets.token_urlsafe(32)
    LoginLink.objects.create(user=user, digest=_digest(secret), expires=timezone.now() + LOGIN_LINK_LIFE)
    return secret


@transaction.atomic
def redeem_login_link(secret: str) -> User | None:
    """The user of a link, which is used up by it; None for one that is unknown, used or too old."""
    link = (
        LoginLink.objects.filter(digest=_digest(secret), expires__gt=timezone.now())
        .select_related("user")
        .first()
    )
    if link is None:
        return None
    link.delete()
    return link.user if link.user.is_active else None


@transaction.atomic
def set_destination(address: str, values: Mapping[str, Any], expected: int | None) -> DestinationSettings:
    """Says `values` about an address or a pattern, and nothing else any more.

    `expected` is the version that is to be replaced, 0 for none, None for any. Raises ValidationError,
    Stale, Conflict when there are too many.
    """
    _check(address, values)
    row = _destination(address, expected)
    if row is None:
        if DestinationSettings.objects.count() >= MAX_DESTINATION_SETTINGS:
            raise Conflict(f"There are settings of {MAX_DESTINATION_SETTINGS} destinations already.")
        return DestinationSettings.objects.create(address=address, values=dict(values), version=changed())
    if row.values != values:
        row.values = dict(values)
        row.version = changed()
        row.save()
    return row


@transaction.atomic
def change_destination(address: str, changes: Mapping[str, Any], expected: int | None) -> DestinationSettings:
    """Says something more about an address or a pattern, or takes back what was said (None)."""
    row = _destination(address, expected)
    values = {**(row.values if row is not None else {}), **changes}
    said = {name: value for name, value in values.items() if value is not None}
    _check(address, {name: changes[name] for name in changes if name not in SETTINGS})
    return set_destination(address, said, expected)


@transaction.atomic
def forget_destination(address: str, expected: int | None) -> bool:
    """Takes back all that was said about an address or a pattern; whether anything was. Raises Stale."""
    row = _destination(address, expected)
    if row is None:
        return False
    row.delete()
    changed()
    return True


def _destination(address: str, expected: int | None) -> DestinationSettings | None:
    row = DestinationSettings.objects.select_for_update().filter(address=address).first()
    version = row.version if row is not None else 0
    if expected is not None and expected != version:
        raise Stale(version)
    return row


def _check(address: str, values: Mapping[str, Any]) -> None:
    try:
        check_address(address)
    except Refused as refusal:
        raise ValidationError(refusal.detail) from refusal
    if wrong := faults(values, address):
        raise ValidationError(wrong)


@transaction.atomic
def changed() -> int:
    """Raises the version, and tells this process once it is committed. Returns the new version.

    Public for the only writers that are not ours, Django's commands.
    """
    row, _ = PolicyVersion.objects.select_for_update().get_or_create(pk=PolicyVersion.ONLY)
    row.number += 1
    row.save()
    transaction.on_commit(lambda: policy_changed.send(sender=PolicyVersion))
    return row.number


def _write_admin(password: str) -> None:
    admin, _ = User.objects.get_or_create(username=ADMIN)
    admin.is_active = admin.is_staff = admin.is_superuser = True
    admin.set_password(password)
    admin.save()
    changed()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
