"""The history of the configuration: what each version changed, how two differ, and the way back.

A version is the state that the change of this number led to; 0 is before the first. Going back is a new
change like any other, made of the edits that undo what came after.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from django.db import transaction

from broker_app.models import Change, ChangedObject, PolicyVersion
from broker_app.web import actions
from broker_app.web.actions import Actor, Changed, Edit
from broker_app.web.resource_types import RESOURCE_TYPES, Spec


class NoSuchVersion(Exception):
    """There is no version of this number, or it is so old that its changes were deleted."""


class NotRestored(NamedTuple):
    """A resource that a rollback does not restore, or not completely, and the reason."""

    kind: str
    key: str
    why: str


class Rollback(NamedTuple):
    """The changes of a rollback, made or previewed."""

    outcome: actions.ChangeResult
    kept: tuple[NotRestored, ...]


def newest() -> int:
    """The number of the newest version; 0 before the first."""
    return PolicyVersion.objects.values_list("number", flat=True).first() or 0


def oldest() -> int:
    """The number of the oldest version that can be compared with others."""
    first = Change.objects.order_by("number").values_list("number", flat=True).first()
    return newest() if first is None else first - 1


def versions(
    before: int | None = None, limit: int = 100, *, kind: str = "", key: str = "", author: str = ""
) -> list[Change]:
    """The newest versions, or those before a number, with their objects; the newest first. Those alone that
    changed something of a `kind` and of a `key`, or that are by an `author`, where these are given."""
    found = Change.objects.order_by("-number").prefetch_related("objects_changed")
    if before is not None:
        found = found.filter(number__lt=before)
    if author:
        found = found.filter(author=author)
    if kind or key:
        named = {"kind": kind} if kind else {}
        named |= {"key": key} if key else {}
        found = found.filter(number__in=ChangedObject.objects.filter(**named).values("change"))
    return list(found[:limit])


def version(number: int) -> Change:
    """One version, with its objects. Raises NoSuchVersion, for version 0 too: nothing led to that."""
    _check(number)
    found = Change.objects.filter(number=number).prefetch_related("objects_changed").first()
    if found is None:
        raise NoSuchVersion(f"nothing is known of what led to version {number}")
    return found


def changes_of(change: Change) -> list[Changed]:
    """The changes of one version, in the order of the request."""
    return [_changed(row) for row in change.objects_changed.all()]


def difference(old: int, new: int) -> list[Changed]:
    """The changes from version `old` to version `new`, combined: of each resource its spec in `old` and in
    `new`, and the secrets that were replaced. `old` may be the newer one. Raises NoSuchVersion."""
    return [between for between, _ in _between(old, new)]


@transaction.atomic
def go_back(
    actor: Actor,
    to: int,
    expected: int | None = None,
    *,
    only: tuple[str, str] | None = None,
    dry_run: bool = False,
) -> Rollback:
    """Restore the configuration of version `to`, or one resource of it: `only` is its (kind, key).

    `expected` is the newest version that the caller knows. Resources of files, deleted tokens, and replaced
    passwords are not restored. Raises NoSuchVersion, Stale, and the errors of `actions.apply`.
    """
    now = actions.lock_version()
    if expected is not None and expected != now:
        raise actions.Stale(now)
    edits, kept = [], []
    for one, origin in _between(now, to):
        if only is not None and only != (one.kind, one.key):
            continue
        edit, note = _undoing(one, origin)
        if edit is not None:
            edits.append(edit)
        if note:
            kept.append(NotRestored(one.kind, one.key, note))
    words = f"back to version {to}" + (f": {actor.reason}" if actor.reason else "")
    outcome = actions.apply(replace(actor, reason=words[:1000]), edits, dry_run=dry_run)
    return Rollback(outcome, tuple(kept))


def text_diff(old: int, new: int, changes: Iterable[Changed]) -> str:
    """The changes as a unified diff of lines of JSON."""
    lines: list[str] = []
    for one in changes:
        address = f"{one.kind}/{one.key}"
        lines += difflib.unified_diff(
            _lines(one.before),
            _lines(one.after),
            f"{address} (version {old})" if one.before is not None else "(nothing)",
            f"{address} (version {new})" if one.after is not None else "(nothing)",
            lineterm="",
        )
        if one.secrets:
            lines.append(f"# {address}: another {', '.join(one.secrets)}")
    return "".join(f"{line}\n" for line in lines)


def _lines(spec: Spec | None) -> list[str]:
    return [] if spec is None else json.dumps(spec, indent=2, sort_keys=True, ensure_ascii=False).splitlines()


def _between(old: int, new: int) -> list[tuple[Changed, str]]:
    """The difference, and the source of the newest change of each resource."""
    for number in (old, new):
        _check(number)
    low, high = min(old, new), max(old, new)
    first: dict[tuple[str, str], Changed] = {}
    last: dict[tuple[str, str], Changed] = {}
    secrets: dict[tuple[str, str], set[str]] = {}
    rows = ChangedObject.objects.filter(change_id__gt=low, change_id__lte=high)
    for row in rows.order_by("change_id", "pk").iterator(1000):
        one = _changed(row)
        first.setdefault((one.kind, one.key), one)
        last[one.kind, one.key] = one
        secrets.setdefault((one.kind, one.key), set()).update(one.secrets)
    found = []
    for thing, end in last.items():
        replaced = tuple(sorted(secrets[thing]))
        before, after = first[thing].before, end.after
        if new < old:
            before, after = after, before
        if before != after or (replaced and before is not None):
            found.append((Changed(*thing, before, after, replaced, end.origin), end.origin))
    return found


def _check(number: int) -> None:
    if not 0 <= number <= newest():
        raise NoSuchVersion(f"there is no version {number}; the newest is {newest()}")
    if number < oldest():
        raise NoSuchVersion(
            f"the changes after version {number} were deleted; the history begins at {oldest()}"
        )


def _changed(row: ChangedObject) -> Changed:
    return Changed(row.kind, row.key, row.before, row.after, tuple(row.secrets), row.origin)


def _undoing(one: Changed, origin: str) -> tuple[Edit | None, str]:
    """The edit that makes of what is now (before) what was then (after); and what stays away."""
    if origin:
        return None, f"it belongs to a file: {origin}"
    gone = one.before is None
    if gone and one.kind == "tokens":
        return None, "a token that is gone does not come back; make a new one"
    note = ""
    if gone and (secrets := RESOURCE_TYPES[one.kind].secrets):
        note = f"it comes back without a {secrets[0]}; set a new one"
    elif one.secrets and one.after is not None:
        note = "its password stays as it is now"
    return (Edit(one.kind, one.key, one.after) if one.before != one.after else None), note
