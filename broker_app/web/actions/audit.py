"""The audit log: what was done, in a chain of digests in which a gap shows."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Min
from django.utils import timezone

from broker_app.base.audit_actions import AuditAction
from broker_app.models import AuditChain, AuditEntry
from broker_app.web.actions.actor import Actor

log = logging.getLogger(__name__)

_COVERED = (
    "number", "time", "author", "via", "address", "token", "action", "kind", "key", "before", "after",
    "secrets", "reason", "trace_id", "change",
)  # fmt: skip


class Action(NamedTuple):
    """Something that was done: `before` and `after` are JSON without secrets, `secrets` names those that were
    replaced, `change` is the version that it led to; `time` is when, if not now."""

    action: str
    kind: str = ""
    key: str = ""
    before: Any = None
    after: Any = None
    secrets: tuple[str, ...] = ()
    change: int | None = None
    time: datetime | None = None

    @classmethod
    def of(cls, action: AuditAction, key: str, **facts: Any) -> Action:
        """An action that is no change of the configuration, now."""
        return cls(action.name, action.kind, key, after=facts or None)


def record(actor: Actor, *actions: Action) -> None:
    """Adds an entry for each action of one actor, in their order."""
    record_all((actor, action) for action in actions)


@transaction.atomic
def record_all(actions: Iterable[tuple[Actor, Action]]) -> None:
    """Adds an entry for each action, in their order."""
    # One writer at a time: each digest covers the one before.
    chain, _ = AuditChain.objects.select_for_update().get_or_create(pk=AuditChain.ONLY)
    now = timezone.now()
    entries = []
    for actor, action in actions:
        entry = AuditEntry(
            number=chain.last + 1,
            time=action.time or now,
            author=actor.user[:150],
            via=actor.via,
            address=actor.address[:200],
            token=actor.token[:100],
            action=action.action,
            kind=action.kind,
            key=action.key[:300],
            before=action.before,
            after=action.after,
            secrets=list(action.secrets),
            reason=actor.reason[:1000],
            trace_id=actor.trace_id[:32],
            change=action.change,
        )
        entry.digest = digest_of(entry, chain.last_digest)
        chain.last, chain.last_digest = entry.number, entry.digest
        entries.append(entry)
    AuditEntry.objects.bulk_create(entries, batch_size=500)
    chain.save()
    transaction.on_commit(lambda: _write(entries))


def _write(entries: list[AuditEntry]) -> None:
    """Write who did what into the log of the process, without the values: these can be secret."""
    for entry in entries:
        reason = f", because: {entry.reason}" if entry.reason else ""
        log.info(
            "%s (%s) %s %s %s%s",
            *(entry.author or "unknown", entry.via, entry.action, entry.kind, entry.key, reason),
            extra={
                "kind": (entry.action, entry.kind),
                "facts": {
                    name: getattr(entry, name)
                    for name in ("author", "via", "address", "token", "action", "kind", "key", "reason")
                },
            },
        )


def digest_of(entry: AuditEntry, previous: str) -> str:
    """SHA-256, in hex, over the previous digest and the content of the entry."""
    facts = {name: getattr(entry, name) for name in _COVERED}
    facts["time"] = entry.time.isoformat()
    text = json.dumps([previous, facts], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class AuditVerdict(NamedTuple):
    """The result of a verification: the number of valid entries, the first and the last number that should
    exist, and the number of the first entry that is missing or does not match its predecessor, if any.
    """

    entries: int
    first: int
    last: int
    broken_at: int | None


def verify() -> AuditVerdict:
    """Verify the whole log. Locks nothing: entries never change."""
    while True:
        chain = _chain()
        verdict = _verify(chain)
        # Entries that were pruned meanwhile are no gap.
        if verdict.broken_at is None or _chain().pruned == chain.pruned:
            return verdict


def _verify(chain: AuditChain) -> AuditVerdict:
    number, digest, count = chain.pruned, chain.pruned_digest, 0
    for entry in AuditEntry.objects.filter(number__lte=chain.last).order_by("number").iterator(1000):
        if entry.number != number + 1 or entry.digest != digest_of(entry, digest):
            return AuditVerdict(count, chain.pruned + 1, chain.last, number + 1)
        number, digest, count = entry.number, entry.digest, count + 1
    whole = (number, digest) == (chain.last, chain.last_digest)
    return AuditVerdict(count, chain.pruned + 1, chain.last, None if whole else number + 1)


def _chain() -> AuditChain:
    return AuditChain.objects.filter(pk=AuditChain.ONLY).first() or AuditChain()


@transaction.atomic
def prune(before: datetime, most: int = 10_000) -> int:
    """Delete up to `most` of the oldest entries, those before a time; return how many were deleted.

    The digest of the last of them is kept, so that the others can still be verified.
    """
    chain, _ = AuditChain.objects.select_for_update().get_or_create(pk=AuditChain.ONLY)
    # Only the first entries without a gap are deleted, even if the clock was set back.
    kept = AuditEntry.objects.filter(time__gte=before).aggregate(first=Min("number"))["first"]
    old = AuditEntry.objects.order_by("number")
    if kept is not None:
        old = old.filter(number__lt=kept)
    run = list(old.values_list("number", "digest")[:most])
    if not run:
        return 0
    chain.pruned, chain.pruned_digest = run[-1]
    chain.save()
    AuditEntry.objects.filter(number__lte=chain.pruned).delete()
    return len(run)
