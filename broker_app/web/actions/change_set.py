"""The only via to change the configuration: edits are checked, written, versioned, audited; all or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db import transaction
from django.dispatch import Signal
from django.utils import timezone

from broker_app.base.audit_actions import CHANGED, CREATED, REMOVED
from broker_app.base.refused import Refused
from broker_app.models import Change, ChangedObject, Entry, PolicyVersion
from broker_app.web.actions import audit
from broker_app.web.actions.actor import Actor
from broker_app.web.resource_types import RESOURCE_TYPES, Spec
from broker_app.web.resource_types.resource_type import ResourceType, check_storable, completed

#: sent after the commit of a change, in the thread that made it, with the `version` that it led to
policy_changed = Signal()
#: sent within the transaction of a change, when it is written, with its `actor` and what is `changed`; a
#: receiver that raises has it rolled back
policy_changing = Signal()

_ORDER = {name: place for place, name in enumerate(RESOURCE_TYPES)}


class Conflict(Exception):
    """The request contradicts the present configuration."""


class RefusedByCluster(Conflict):
    """The cluster does not take the change now: `refusal` says why."""

    def __init__(self, refusal: Refused) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


class Stale(Exception):
    """A resource has another version than expected; 0 if it does not exist."""

    def __init__(self, version: int) -> None:
        super().__init__(f"The version is {version} now.")
        self.version = version


class InvalidEdits(Exception):
    """Errors of edits that were made together; none of them is applied."""

    def __init__(self, faults: Sequence[tuple[Edit, ValidationError]]) -> None:
        super().__init__(
            "; ".join(f"{edit.kind} {edit.key}: {' '.join(fault.messages)}" for edit, fault in faults[:5])
        )
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Edit:
    """The new spec of one resource; None deletes it.

    `expected` is the version that is to be replaced, 0 for none, None for any. `origin` is the place in the
    file that contains it, or did; a resource of a file can only be changed in that file.
    """

    kind: str
    key: str
    spec: Mapping[str, Any] | None
    expected: int | None = None
    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    origin: str = ""


class Changed(NamedTuple):
    """The effect of an edit; None if the resource did not exist."""

    kind: str
    key: str
    before: Spec | None
    after: Spec | None
    secrets: tuple[str, ...]
    origin: str

    @property
    def action(self) -> str:
        return CREATED if self.before is None else REMOVED if self.after is None else CHANGED


class ChangeResult(NamedTuple):
    """The new version, None if nothing changed; and the changes."""

    version: int | None
    changed: tuple[Changed, ...]

    def warnings(self) -> list[str]:
        """Probable mistakes in the edits, which were applied nevertheless."""
        return [
            warning
            for changed in self.changed
            if changed.after is not None
            for warning in RESOURCE_TYPES[changed.kind].warnings(changed.after)
        ]


@transaction.atomic
def apply(actor: Actor, edits: Iterable[Edit], *, dry_run: bool = False) -> ChangeResult:
    """Carries out all edits or none. With `dry_run` none, but the outcome is what it would be.

    Raises ValidationError for errors of a single edit and InvalidEdits for several, Stale, Conflict for a
    resource that belongs to a file or is edited twice, RefusedByCluster.
    """
    lock_version()
    whole = _with_dependents(list(edits))
    changed = _differences(whole)
    if not changed:
        return ChangeResult(None, ())
    _write(whole, changed)
    if not dry_run:
        policy_changing.send(sender=PolicyVersion, actor=actor, changed=tuple(changed.values()))
    version = record_changes(actor, list(changed.values()))
    if dry_run:
        transaction.set_rollback(True)
    return ChangeResult(version, tuple(changed.values()))


def record_changes(actor: Actor, changed: Sequence[Changed]) -> int:
    """Gives the changes a version, stores them in history and audit log, and sends a signal after the commit.

    Also called by writers that are not ours, Django's commands; within their transaction.
    """
    counter, _ = PolicyVersion.objects.select_for_update().get_or_create(pk=PolicyVersion.ONLY)
    counter.number += 1
    counter.save()
    _record(actor, counter.number, changed)
    number = counter.number
    transaction.on_commit(lambda: policy_changed.send(sender=PolicyVersion, version=number))
    return number


def lock_version() -> int:
    """The newest version; no other is made until the caller's transaction ends."""
    counter, _ = PolicyVersion.objects.select_for_update().get_or_create(pk=PolicyVersion.ONLY)
    return counter.number


@transaction.atomic
def trim_history(most: int) -> int:
    """Delete the changes of the oldest versions beyond `most`; return how many were deleted."""
    last = Change.objects.order_by("-number").values_list("number", flat=True)[most : most + 1].first()
    if last is None:
        return 0
    old = Change.objects.filter(number__lte=last)
    count = old.count()
    old.delete()
    return count


def version_of(kind: str, key: str) -> int:
    """The version of the change that wrote it; 0 if it does not exist, 1 if no action has written it."""
    version = Entry.objects.filter(kind=kind, key=key).values_list("version", flat=True).first()
    if version is not None:
        return version
    return 1 if RESOURCE_TYPES[kind].read([key]) else 0


def _with_dependents(edits: list[Edit]) -> list[Edit]:
    """The edits, and the deletion of the dependents of what they delete."""
    named = {(edit.kind, edit.key) for edit in edits}
    more = [
        Edit(kind, key, None)
        for edit in edits
        if edit.spec is None
        for kind, key in RESOURCE_TYPES[edit.kind].dependents(edit.key)
        if (kind, key) not in named
    ]
    return edits + more


def _differences(edits: Sequence[Edit]) -> dict[int, Changed]:
    """The changes that the edits would make, by their index."""
    before = {kind: RESOURCE_TYPES[kind].read(keys) for kind, keys in _by_kind(edits).items()}
    entries = _entries(edits)
    found: dict[int, Changed] = {}
    faults: list[tuple[Edit, ValidationError]] = []
    _check_once(edits)
    for place, edit in enumerate(edits):
        was = before[edit.kind].get(edit.key)
        entry = entries.get((edit.kind, edit.key))
        _check_version(edit, entry, was)
        try:
            now = _checked(edit, was)
        except ValidationError as fault:
            _check_owner(edit, entry)
            faults.append((edit, fault))
            continue
        operates = _only_operates(edit, was, now)
        if not operates:
            _check_owner(edit, entry)
        origin = entry.origin if entry is not None and operates else edit.origin
        moved = entry is not None and entry.origin != origin
        if now != was or edit.secrets or moved:
            found[place] = Changed(edit.kind, edit.key, was, now, tuple(sorted(edit.secrets)), origin)
    _raise(faults, edits)
    return found


def _entries(edits: Sequence[Edit]) -> dict[tuple[str, str], Entry]:
    return {
        (row.kind, row.key): row
        for kind, keys in _by_kind(edits).items()
        for row in Entry.objects.filter(kind=kind, key__in=keys)
    }


def _by_kind(resources: Iterable[Edit | Changed]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for resource in resources:
        keys.setdefault(resource.kind, []).append(resource.key)
    return keys


def _check_once(edits: Sequence[Edit]) -> None:
    """Refuse two edits of one resource, which would be ambiguous."""
    seen: set[tuple[str, str]] = set()
    for edit in edits:
        if (edit.kind, edit.key) in seen:
            raise Conflict(f"{RESOURCE_TYPES[edit.kind].one} {edit.key} is edited twice")
        seen.add((edit.kind, edit.key))


def _check_version(edit: Edit, entry: Entry | None, was: Spec | None) -> None:
    version = entry.version if entry is not None else 1 if was is not None else 0
    if edit.expected is not None and edit.expected != version:
        raise Stale(version)


def _check_owner(edit: Edit, entry: Entry | None) -> None:
    if entry is not None and entry.origin and not edit.origin:
        raise Conflict(
            f"{RESOURCE_TYPES[edit.kind].one} {edit.key} belongs to {entry.origin}; change it there"
        )


def _only_operates(edit: Edit, was: Spec | None, now: Spec | None) -> bool:
    """True if only runtime fields change, which is allowed for resources of files, too."""
    if edit.origin or edit.secrets or was is None or now is None or was == now:
        return False
    runtime_fields = RESOURCE_TYPES[edit.kind].runtime_fields
    return all(
        was.get(name) == now.get(name) for name in was.keys() | now.keys() if name not in runtime_fields
    )


def _checked(edit: Edit, was: Spec | None) -> Spec | None:
    if edit.spec is None:
        return None
    kind = RESOURCE_TYPES[edit.kind]
    check_storable(edit.key, edit.spec)
    now = completed(kind, edit.key, edit.spec, was)
    kind.check(edit.key, now)
    if was is not None:
        _check_fixed(kind, edit.key, was, now)
    kind.check_secrets(edit.key, now, edit.secrets)
    return now


def _check_fixed(kind: ResourceType, key: str, was: Spec, now: Spec) -> None:
    detail = f"is fixed when the {kind.one} is declared; delete {key} and declare it again"
    if wrong := {name: detail for name in kind.fixed_fields if was.get(name) != now.get(name)}:
        raise ValidationError(wrong)


def _write(edits: Sequence[Edit], changed: Mapping[int, Changed]) -> None:
    """Order edits so that resources exist before others refer to them, and are deleted after."""
    faults: list[tuple[Edit, ValidationError]] = []
    places = sorted(changed, key=lambda place: _ORDER[edits[place].kind])
    writes = [place for place in places if changed[place].after is not None]
    ends = [place for place in reversed(places) if changed[place].after is None]
    for place in writes + ends:
        edit, after = edits[place], changed[place].after
        try:
            if after is not None:
                RESOURCE_TYPES[edit.kind].write(edit.key, after, edit.secrets)
            else:
                RESOURCE_TYPES[edit.kind].remove(edit.key)
        except ValidationError as fault:
            faults.append((edit, fault))
    _raise(faults, edits)
    for name in {one.kind: None for one in changed.values()}:
        of_kind = {place: one for place, one in changed.items() if one.kind == name}
        if wrong := RESOURCE_TYPES[name].combined_error(
            [(one.before, one.after) for one in of_kind.values()]
        ):
            _raise([(edits[max(of_kind)], ValidationError(wrong))], edits)


def _raise(faults: Sequence[tuple[Edit, ValidationError]], edits: Sequence[Edit]) -> None:
    if faults and len(edits) == 1:
        raise faults[0][1]
    if faults:
        raise InvalidEdits(faults)


def _record(actor: Actor, number: int, changed: Sequence[Changed]) -> None:
    now = timezone.now()
    change = Change.objects.create(
        number=number, time=now, author=actor.user, via=actor.via, address=actor.address, reason=actor.reason
    )
    ChangedObject.objects.bulk_create(ChangedObject(change=change, **_columns(one)) for one in changed)
    for kind, keys in _by_kind(one for one in changed if one.after is None).items():
        Entry.objects.filter(kind=kind, key__in=keys).delete()
    Entry.objects.bulk_create(
        (
            Entry(kind=one.kind, key=one.key, version=number, origin=one.origin, changed=now)
            for one in changed
            if one.after is not None
        ),
        update_conflicts=True,
        unique_fields=["kind", "key"],
        update_fields=["version", "origin", "changed"],
    )
    audit.record(
        actor,
        *(
            audit.Action(one.action, one.kind, one.key, one.before, one.after, one.secrets, number)
            for one in changed
        ),
    )


def _columns(one: Changed) -> dict[str, object]:
    return {**one._asdict(), "secrets": list(one.secrets)}
