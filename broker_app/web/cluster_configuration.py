"""The configuration in a cluster: changes of other brokers applied to it, its own ones proposed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection

from broker_app.base.refused import Refused
from broker_app.features.cluster.record.change_record import DESTINATION, Change
from broker_app.features.cluster.record.destination_changes import Applied, WantedValues
from broker_app.models import ChangedObject, Entry, PolicyVersion
from broker_app.web import actions

_KIND = "destinations"
_REASON = "changed at broker {}"

Propose = Callable[[list[Change]], object]


class ClusterConfiguration:
    """Called in threads of its own, which keep no connection to the database."""

    def apply(self, broker: str, wanted: Mapping[str, WantedValues]) -> Applied:
        """Write rows as `broker` has changed them: all that can be written, those of files too. Raises
        Refused."""
        with closing(connection):
            try:
                return _apply(broker, wanted)
            except DatabaseError as error:
                raise _unusable(error) from error

    def removed_since(self, version: int) -> list[str]:
        """The rows that were removed after this version. Raises Refused."""
        removed = ChangedObject.objects.filter(change__number__gt=version, kind=_KIND, after__isnull=True)
        with closing(connection):
            try:
                return list(removed.values_list("key", flat=True).distinct())
            except DatabaseError as error:
                raise _unusable(error) from error


class ProposedChanges:
    """Has destinations that administrators change proposed to the cluster, before the change is committed.
    `propose` blocks, and raises Refused."""

    def __init__(self, propose: Propose) -> None:
        self._propose = propose
        actions.policy_changing.connect(self._check, sender=PolicyVersion, weak=False)

    def close(self) -> None:
        """Propose no more."""
        actions.policy_changing.disconnect(self._check, sender=PolicyVersion)

    def _check(self, actor: actions.Actor, changed: Sequence[actions.Changed], **_: Any) -> None:
        if actor.via == actions.CLUSTER:
            return
        # A change of a secret or of the place in a file alone is none of the cluster.
        changes = [
            Change(DESTINATION, one.key, one.after)
            for one in changed
            if one.kind == _KIND and one.before != one.after
        ]
        if changes:
            try:
                self._propose(changes)
            except Refused as refusal:
                raise actions.RefusedByCluster(refusal) from refusal


def _apply(broker: str, wanted: Mapping[str, WantedValues]) -> Applied:
    actor = actions.Actor(broker, actions.CLUSTER, reason=_REASON.format(broker))
    origins = dict(Entry.objects.filter(kind=_KIND, key__in=list(wanted)).values_list("key", "origin"))
    edits = [
        actions.Edit(_KIND, name, one.values, one.expected, origin=origins.get(name, ""))
        for name, one in wanted.items()
    ]
    try:
        outcome = actions.apply(actor, edits)
        return Applied(outcome.version or 0, _versions(edits, outcome), {})
    except (ValidationError, actions.InvalidEdits, actions.Stale, actions.Conflict):
        return _apply_singly(actor, edits)


def _apply_singly(actor: actions.Actor, edits: Sequence[actions.Edit]) -> Applied:
    """Apply each edit that can be applied. One whose row has changed meanwhile is left out."""
    versions: dict[str, int] = {}
    faults: dict[str, str] = {}
    newest = 0
    for edit in edits:
        try:
            outcome = actions.apply(actor, [edit])
            versions |= _versions([edit], outcome)
            newest = outcome.version or newest
        except ValidationError as fault:
            faults[edit.key] = _text(fault)
        except actions.Conflict as conflict:
            faults[edit.key] = str(conflict)
        except actions.Stale:
            continue
    return Applied(newest, versions, faults)


def _text(fault: ValidationError) -> str:
    if not hasattr(fault, "error_dict"):
        return " ".join(fault.messages)
    return "; ".join(f"{name}: {' '.join(messages)}" for name, messages in fault.message_dict.items())


def _versions(edits: Sequence[actions.Edit], outcome: actions.ChangeResult) -> dict[str, int]:
    """The versions of the rows of edits that were applied; a row that was as wanted has its former one."""
    changed = {one.key for one in outcome.changed}
    return {
        edit.key: 0 if edit.spec is None else (outcome.version if edit.key in changed else edit.expected) or 0
        for edit in edits
    }


def _unusable(error: DatabaseError) -> Refused:
    return Refused("store-unavailable", f"the configuration database cannot be used now: {error}")
