"""Users whom an OpenID Connect provider vouches for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.contrib.auth.models import Group, User
from django.db import transaction

from broker_app.models import ProviderSubject
from broker_app.web.actions.author import By
from broker_app.web.actions.change_set import Conflict, Edit, apply
from broker_app.web.resource_types import KINDS


class Claims(NamedTuple):
    """The claims of the provider; `groups` and `administrator` are None if it has none."""

    issuer: str
    subject: str
    username: str
    email: str = ""
    groups: Sequence[str] | None = None
    administrator: bool | None = None


@transaction.atomic
def vouched_user(by: By, claims: Claims, *, link: bool) -> User:
    """The user who this person is here, as the provider describes them; made at the first time.

    Raises Conflict for a name that somebody else has (`link` makes it theirs), InvalidEdits for a description
    that will not do.
    """
    known = (
        ProviderSubject.objects.filter(issuer=claims.issuer, subject=claims.subject)
        .select_related("user")
        .first()
    )
    name = known.user.username if known is not None else claims.username
    before = KINDS["users"].read([name]).get(name)
    if known is None and before is not None:
        taken = ProviderSubject.objects.filter(issuer=claims.issuer, user__username=name).exists()
        if taken or not link:
            raise Conflict(f"There is another user {name} here already.")
    said = dict(before or {})
    if claims.email:
        said["email"] = claims.email
    if claims.groups is not None:
        said["groups"] = sorted(
            Group.objects.filter(name__in=list(claims.groups)).values_list("name", flat=True)
        )
    if claims.administrator is not None:
        said["administrator"] = claims.administrator
    if said != before:
        apply(by, [Edit("users", name, said)])
    user = User.objects.get(username=name)
    if known is None:
        ProviderSubject.objects.create(user=user, issuer=claims.issuer, subject=claims.subject)
    return user
