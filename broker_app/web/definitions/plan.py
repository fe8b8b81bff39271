"""The plan of a document: the changes that it would make, and applying them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db import transaction

from broker_app.models import Entry
from broker_app.web import actions
from broker_app.web.actions import Actor, Changed, Edit
from broker_app.web.definitions.document import (
    DEFINED,
    FORMAT,
    MARK,
    Document,
    Fault,
    InvalidDocument,
    pointer,
)
from broker_app.web.resource_types import RESOURCE_TYPES, Spec
from broker_app.web.resource_types.resource_type import check_storable, completed


class FileResource(NamedTuple):
    """A resource that belongs to a file, and that the document would change or delete."""

    kind: str
    key: str
    origin: str


class ImportPlan(NamedTuple):
    """The changes that a document would make to the configuration of one version.

    `conflicts` have to be fixed before it can be applied; `kept` are not in the document and stay because a
    file contains them; `bare` are made without a secret that they need to be of use.
    """

    version: int
    digest: str
    changes: tuple[Changed, ...]
    unchanged: int
    conflicts: tuple[FileResource, ...]
    kept: tuple[FileResource, ...]
    bare: tuple[tuple[str, str], ...]


@transaction.atomic
def export() -> dict[str, Any]:
    """The present configuration as a document."""
    return {
        MARK: FORMAT,
        "version": actions.lock_version(),
        **{name: RESOURCE_TYPES[name].read() for name in DEFINED},
    }


def plan(actor: Actor, document: Document, *, prune: bool) -> ImportPlan:
    """The plan of `apply`. With `prune`, resources of the document's types that it does not contain are
    deleted.

    Raises InvalidDocument with all errors of its resources.
    """
    return _carry_out(actor, document, prune=prune, expected=None, dry_run=True)


def apply(actor: Actor, document: Document, *, prune: bool, expected: int | None) -> ImportPlan:
    """Apply the document, all of it or nothing; return its plan.

    Raises InvalidDocument, Stale if the version is not the expected one, Conflict.
    """
    return _carry_out(actor, document, prune=prune, expected=expected, dry_run=False)


@transaction.atomic
def _carry_out(
    actor: Actor, document: Document, *, prune: bool, expected: int | None, dry_run: bool
) -> ImportPlan:
    version = actions.lock_version()
    if expected is not None and expected != version:
        raise actions.Stale(version)
    edits, conflicts, kept = _compare(document, prune=prune)
    if conflicts and not dry_run:
        first = conflicts[0]
        more = f", and {len(conflicts) - 1} more like it" if len(conflicts) > 1 else ""
        raise actions.Conflict(
            f"{RESOURCE_TYPES[first.kind].one} {first.key} belongs to {first.origin}{more}"
        )
    changed = _edit(actor, edits, dry_run=dry_run)
    written = sum(one.after is not None for one in changed)
    return ImportPlan(
        version,
        digest_of(document, prune=prune),
        changed,
        sum(map(len, document.values())) - written - len(conflicts),
        tuple(conflicts),
        tuple(kept),
        tuple(
            (one.kind, one.key)
            for one in changed
            if one.action == "created" and RESOURCE_TYPES[one.kind].secrets
        ),
    )


def _compare(document: Document, *, prune: bool) -> tuple[list[Edit], list[FileResource], list[FileResource]]:
    """The edits of a document, what of it contradicts files, and what files keep although it should go."""
    rows = Entry.objects.filter(kind__in=document).exclude(origin="")
    origins = {(row.kind, row.key): row.origin for row in rows}
    edits, conflicts, kept = [], [], []
    for kind, things in document.items():
        before = RESOURCE_TYPES[kind].read()
        for key, spec in things.items():
            origin = origins.get((kind, key))
            if origin is None:
                edits.append(Edit(kind, key, spec))
            elif _differs(kind, key, spec, before.get(key)):
                conflicts.append(FileResource(kind, key, origin))
        for key in [key for key in before if prune and key not in things]:
            origin = origins.get((kind, key))
            if origin is None:
                edits.append(Edit(kind, key, None))
            else:
                kept.append(FileResource(kind, key, origin))
    return edits, conflicts, kept


def _edit(actor: Actor, edits: list[Edit], *, dry_run: bool) -> tuple[Changed, ...]:
    """The changes of the edits; their errors by their positions in the document."""
    try:
        return actions.apply(actor, edits, dry_run=dry_run).changed
    except actions.InvalidEdits as invalid:
        faults = [fault for edit, error in invalid.faults for fault in _faults(edit, error)]
    except ValidationError as error:
        faults = list(_faults(edits[0], error))
    raise InvalidDocument(*faults)


def _differs(kind: str, key: str, spec: Spec, before: Spec | None) -> bool:
    """True if the document changes a resource of a file, or has an invalid one."""
    try:
        check_storable(key, spec)
        whole = completed(RESOURCE_TYPES[kind], key, spec, before)
        RESOURCE_TYPES[kind].check(key, whole)
    except ValidationError:
        return True
    return whole != before


def _faults(edit: Edit, error: ValidationError) -> Iterator[Fault]:
    place = pointer(edit.kind, edit.key)
    by_field = error.message_dict if hasattr(error, "error_dict") else {"__all__": error.messages}
    for field, details in by_field.items():
        for detail in details:
            yield Fault(place if field == "__all__" else f"{place}/{field}", detail)


def digest_of(document: Document, *, prune: bool) -> str:
    """The key of a document with its options."""
    text = json.dumps([document, prune], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
