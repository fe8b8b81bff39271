"""Users that an OpenID Connect provider authenticated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.contrib.auth.models import Group, User
from django.db import transaction

from broker_app.models import ProviderSubject
from broker_app.web.actions.actor import Actor
from broker_app.web.actions.change_set import Conflict, Edit, apply
from broker_app.web.resource_types import RESOURCE_TYPES


class Claims(NamedTuple):
    """The claims of the provider; `groups`, `administrator` and `monitor` are None if it has none."""

    issuer: str
    subject: str
    username: str
    email: str = ""
    groups: Sequence[str] | None = None
    administrator: bool | None = None
    monitor: bool | None = None


@transaction.atomic
def external_user(actor: Actor, claims: Claims, *, link: bool) -> User:
    """The user of these claims, updated from them; created at the first login.

    Raises Conflict for a name that another user has (`link` connects it instead), InvalidEdits for invalid
    claims.
    """
    known = (
        ProviderSubject.objects.filter(issuer=claims.issuer, subject=claims.subject)
        .select_related("user")
        .first()
    )
    name = known.user.username if known is not None else claims.username
    before = RESOURCE_TYPES["users"].read([name]).get(name)
    if known is None and before is not None:
        taken = ProviderSubject.objects.filter(issuer=claims.issuer, user__username=name).exists()
        if taken or not link:
            raise Conflict(f"There is another user {name} here already.")
    spec = dict(before or {})
    if claims.email:
        spec["email"] = claims.email
    if claims.groups is not None:
        spec["groups"] = sorted(
            Group.objects.filter(name__in=list(claims.groups)).values_list("name", flat=True)
        )
    if claims.administrator is not None:
        spec["administrator"] = claims.administrator
    if claims.monitor is not None:
        spec["monitor"] = claims.monitor
    if spec.get("administrator"):
        spec["monitor"] = False  # a user has one role, and the higher one counts
    if spec != before:
        apply(actor, [Edit("users", name, spec)])
    user = User.objects.get(username=name)
    if known is None:
        ProviderSubject.objects.create(user=user, issuer=claims.issuer, subject=claims.subject)
    return user
