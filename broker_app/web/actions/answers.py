"""Answers kept for repeats of requests with an Idempotency-Key: a day long, so many for each user."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from broker_app.models import KeptAnswer

KEPT = timedelta(hours=24)
#: of each user; the oldest go first
MOST = 1_000
#: a request that is under way for so long has ended with its process: nothing of it was done
ABANDONED = timedelta(seconds=60)


def claim(user: str, key: str, fingerprint: str) -> KeptAnswer | None:
    """Marks a request as under way; or returns what there is of this key already.

    What is too old, or was abandoned, is nothing any more.
    """
    try:
        return _claim(user, key, fingerprint)
    except IntegrityError:  # another request was faster
        return KeptAnswer.objects.filter(user=user, key=key).first()


@transaction.atomic
def _claim(user: str, key: str, fingerprint: str) -> KeptAnswer | None:
    now = timezone.now()
    KeptAnswer.objects.filter(created__lte=now - KEPT).delete()
    KeptAnswer.objects.filter(created__lte=now - ABANDONED, status=None).delete()
    found = KeptAnswer.objects.filter(user=user, key=key).first()
    if found is not None:
        return found
    beyond = KeptAnswer.objects.filter(user=user).order_by("-created").values("pk")[MOST - 1 :]
    KeptAnswer.objects.filter(pk__in=list(beyond.values_list("pk", flat=True))).delete()
    KeptAnswer.objects.create(user=user, key=key, fingerprint=fingerprint, created=now)
    return None


def keep(
    user: str, key: str, *, status: int, headers: Mapping[str, str], body: Any, withheld: bool = False
) -> None:
    """Keeps the answer of a request that was claimed; within the transaction of what it did."""
    KeptAnswer.objects.filter(user=user, key=key).update(
        status=status, headers=dict(headers), body=None if withheld else body, withheld=withheld
    )


def release(user: str, key: str) -> None:
    """Forgets a claim: nothing was done."""
    KeptAnswer.objects.filter(user=user, key=key, status=None).delete()
