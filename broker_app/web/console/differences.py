"""Differences: what a change does to one thing, field by field, for people to read."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from broker_app.web.actions import Changed
from broker_app.web.console.labels import done, one_of
from broker_app.web.resource_types import Said


class Line(NamedTuple):
    """A field and what it said before and after; None is nothing."""

    field: str
    before: str | None
    after: str | None


class Difference(NamedTuple):
    """What happened, or would happen, to one thing."""

    act: str
    kind: str
    one: str
    key: str
    lines: list[Line]
    secrets: tuple[str, ...]


def difference(changed: Changed) -> Difference:
    """What a change does to one thing."""
    lines = between(changed.before, changed.after)
    one = one_of(changed.kind)
    return Difference(done(changed.act), changed.kind, one, changed.key, lines, tuple(changed.secrets))


def between(before: Said | None, after: Said | None) -> list[Line]:
    """The fields in which two sayings differ. Of what is new or gone, those that say something."""
    was, now = (_telling(said, other) for said, other in ((before, after), (after, before)))
    return [
        Line(
            field,
            in_words(was[field]) if field in was else None,
            in_words(now[field]) if field in now else None,
        )
        for field in {**was, **now}
        if (field in was, was.get(field)) != (field in now, now.get(field))
    ]


def _telling(said: Said | None, other: Said | None) -> Said:
    if said is None or other is not None:
        return said or {}
    return {field: value for field, value in said.items() if value not in ("", [], {}, None)}


def in_words(value: Any) -> str:
    """A value as people read it: texts as they are, lists by comma, all else as JSON."""
    match value:
        case "":
            return _("(empty)")
        case str():
            return value
        case []:
            return _("(none)")
        case list() if all(isinstance(one, str) for one in value):
            return ", ".join(value)
        case None:
            return _("(none)")
        case bool():
            return _("yes") if value else _("no")
        case _:
            return json.dumps(value, ensure_ascii=False)


def in_a_sentence(refusal: Exception) -> str:
    """What is wrong with edits, for people."""
    return " ".join(refusal.messages) if isinstance(refusal, ValidationError) else str(refusal)
