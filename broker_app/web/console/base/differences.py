"""Differences of one resource before and after a change, field by field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.core.exceptions import ValidationError

from broker_app.web.actions import Changed, InvalidEdits
from broker_app.web.console.base.field_words import FieldWords
from broker_app.web.console.base.labels import done, one_of, title_of
from broker_app.web.resource_types import Spec

#: errors that a sentence names
_SHOWN_FAULTS = 5


class DifferenceLine(NamedTuple):
    """The label of a field, and its values before and after as words; None means not set."""

    field: str
    before: str | None
    after: str | None


class Difference(NamedTuple):
    """An actual or planned change of one resource."""

    action: str
    kind: str
    one: str
    key: str
    lines: list[DifferenceLine]
    secrets: tuple[str, ...]
    #: whether the resource is new, or no longer there
    made: bool = False
    gone: bool = False


def difference(changed: Changed) -> Difference:
    """The difference that a change makes to one resource."""
    lines = between(changed.kind, changed.before, changed.after)
    one, secrets = one_of(changed.kind), labels(changed.kind, changed.secrets)
    made, gone = changed.before is None, changed.after is None
    return Difference(done(changed.action), changed.kind, one, changed.key, lines, secrets, made, gone)


def between(kind: str, before: Spec | None, after: Spec | None) -> list[DifferenceLine]:
    """The fields in which two specs of a kind differ. Of a new or removed resource, those that are set."""
    was, now = (_telling(spec, other) for spec, other in ((before, after), (after, before)))
    words = FieldWords(kind)
    return [
        DifferenceLine(
            words.label(field),
            words.value(field, was[field]) if field in was else None,
            words.value(field, now[field]) if field in now else None,
        )
        for field in {**was, **now}
        if (field in was, was.get(field)) != (field in now, now.get(field))
    ]


def labels(kind: str, names: Iterable[str]) -> tuple[str, ...]:
    """The labels of fields, as of secrets that changed."""
    words = FieldWords(kind)
    return tuple(map(words.label, names))


def _telling(spec: Spec | None, other: Spec | None) -> Spec:
    if spec is None or other is not None:
        return spec or {}
    return {field: value for field, value in spec.items() if value not in ("", [], {}, None)}


def in_a_sentence(refusal: Exception) -> str:
    """The errors of edits as one sentence, which names each resource."""
    if isinstance(refusal, InvalidEdits):
        shown = refusal.faults[:_SHOWN_FAULTS]
        return " ".join(f"{title_of(edit.kind, edit.key)}: {' '.join(it.messages)}." for edit, it in shown)
    return " ".join(refusal.messages) if isinstance(refusal, ValidationError) else str(refusal)
