"""Links that log in once."""

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from broker_app.models import LoginLink

LOGIN_LINK_LIFE = timedelta(minutes=10)


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


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
