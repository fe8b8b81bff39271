"""The audit log: what was done, in a chain of digests in which a gap shows."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.db import transaction
from django.utils import timezone

from broker_app.models import AuditEntry, PolicyVersion
from broker_app.web.actions.author import By

#: what the first entry has before it
START = "0" * 64
_COVERED = (
    "time", "author", "way", "address", "token", "act", "kind", "key", "before", "after", "reason",
    "trace_id", "change",
)  # fmt: skip


@transaction.atomic
def record(
    by: By,
    act: str,
    kind: str = "",
    key: str = "",
    *,
    before: Any = None,
    after: Any = None,
    change: int | None = None,
) -> AuditEntry:
    """Adds an entry. `before` and `after` are JSON without secrets."""
    # One at a time: each digest covers the one before.
    PolicyVersion.objects.select_for_update().filter(pk=PolicyVersion.ONLY).first()
    last = AuditEntry.objects.values_list("digest", flat=True).first()
    entry = AuditEntry(
        time=timezone.now(),
        author=by.user[:150],
        way=by.way,
        address=by.address[:200],
        token=by.token[:100],
        act=act,
        kind=kind,
        key=key[:300],
        before=before,
        after=after,
        reason=by.reason[:1000],
        trace_id=by.trace_id[:32],
        change=change,
    )
    entry.digest = digest_of(entry, last or START)
    entry.save()
    return entry


def digest_of(entry: AuditEntry, previous: str) -> str:
    """SHA-256, in hex, over the digest before and all that the entry says."""
    facts = {name: getattr(entry, name) for name in _COVERED}
    facts["time"] = entry.time.isoformat()
    text = json.dumps([previous, facts], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def first_break() -> AuditEntry | None:
    """The first entry that does not fit the one before it: it, or its predecessor, was changed or removed."""
    previous = START
    for entry in AuditEntry.objects.order_by("number").iterator(1000):
        if entry.digest != digest_of(entry, previous):
            return entry
        previous = entry.digest
    return None
