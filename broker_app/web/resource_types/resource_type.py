"""Resource types: how a resource is specified, checked, read from its model and written to it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from django.core.exceptions import ValidationError

from broker_app.base import units
from broker_app.base.spec_members import SpecMember
from broker_app.base.suggestions import suggestion

#: the spec of a resource: in the API, in files, diffs, the history and the audit log
Spec = dict[str, Any]


class ResourceType(ABC):
    """One type of resource. All methods but the checks use the database; only `web.actions` calls those
    that write.

    Secrets are passed separately from the spec, by name, and are never read back.
    """

    #: the plural, as in URLs of the API and in definitions: "rules"
    name: ClassVar[str]
    #: the singular, for sentences: "rule"
    one: ClassVar[str]
    #: names of the members that cannot be read back
    secrets: ClassVar[tuple[str, ...]] = ()
    #: fields by which operators control a resource: they may change them although the resource belongs to a
    #: file, and those that the file does not contain keep their value
    runtime_fields: ClassVar[tuple[str, ...]] = ()
    #: fields that keep the value with which a resource is created
    fixed_fields: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def read(self, keys: Iterable[str] | None = None) -> dict[str, Spec]:
        """The existing resources of `keys`, or all, by key."""

    @abstractmethod
    def write(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        """Create or replace one. `spec` has passed `complete` and `check`."""

    @abstractmethod
    def remove(self, key: str) -> None:
        """Delete one that exists."""

    @abstractmethod
    def check(self, key: str, spec: Spec) -> None:
        """Raises ValidationError, by field, for an invalid key or spec."""

    def complete(self, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
        """`spec` with the defaults of missing members; `before` is the former spec."""
        return dict(spec)

    def with_positions(self, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """The specs of one document; the type may derive missing members from their order."""
        return dict(specs)

    def check_secrets(self, key: str, spec: Spec, secrets: Mapping[str, Any]) -> None:
        """Raises ValidationError for an unknown or invalid secret."""
        if strange := sorted(set(secrets) - set(self.secrets)):
            raise ValidationError({name: unknown(name, self.secrets) for name in strange})

    def combined_error(self, changes: Sequence[tuple[Spec | None, Spec | None]]) -> str:
        """The error of all changes (before, after) together, after they are written; or empty."""
        return ""

    def changed_secrets(self, key: str, secrets: Mapping[str, Any]) -> Mapping[str, Any]:
        """The secrets that differ from the stored ones."""
        return secrets

    def warnings(self, spec: Spec) -> Iterable[str]:
        """Probable mistakes in `spec`, which is accepted nevertheless."""
        return ()

    def dependents(self, key: str) -> Iterable[tuple[str, str]]:
        """(kind, key) of the resources that are deleted with this one."""
        return ()


def completed(kind: ResourceType, key: str, spec: Mapping[str, Any], before: Spec | None) -> Spec:
    """The complete spec, with numbers for texts such as 2s in members …_s, and 5MB in members …_bytes. Raises
    ValidationError."""
    numbers, wrong = units.in_numbers(spec)
    if wrong:
        raise ValidationError(wrong)
    return kind.complete(key, numbers, before)


def check_storable(key: str, spec: Any) -> None:
    """Raises ValidationError unless all is JSON that a database can store: no NUL, no lone surrogates."""
    if not _storable(key):
        raise ValidationError("a name must be a text without NUL and without halves of surrogates")
    if not _storable(spec):
        raise ValidationError("the spec must be JSON, with texts without NUL and finite numbers")


def _storable(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and _storable(name) and _storable(value[name]) for name in value)
    if isinstance(value, list):
        return all(_storable(item) for item in value)
    return value is None or isinstance(value, int)


def check_fields(spec: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]) -> None:
    """Raises ValidationError for fields that are unknown, missing or of a wrong type. True is no number."""
    wrong = {name: unknown(name, types) for name in spec if name not in types}
    for name, kind in types.items():
        if name not in spec:
            wrong[name] = "is missing"
        elif not isinstance(spec[name], kind) or (isinstance(spec[name], bool) and not _may_be_bool(kind)):
            wrong[name] = f"must be {_named(kind)}"
    if wrong:
        raise ValidationError(wrong)


def check_members(spec: Mapping[str, Any], members: Mapping[str, tuple[SpecMember, Any]]) -> None:
    """Raises ValidationError for an invalid value of a declared member."""
    for name, (member, _default) in members.items():
        if fault := member.fault(spec[name]):
            raise ValidationError({name: fault})


def check_texts(name: str, texts: Any, most: int = 1000, longest: int = 300) -> None:
    """Raises ValidationError unless `texts` is a list of up to `most` texts of up to `longest` characters."""
    right = isinstance(texts, list) and all(
        isinstance(text, str) and 1 <= len(text) <= longest for text in texts
    )
    if not right or len(texts) > most or len(set(texts)) < len(texts):
        raise ValidationError(
            {name: f"must be a list of at most {most} different texts of 1 to {longest} characters"}
        )


def unknown(name: str, known: Iterable[str]) -> str:
    """The error of an unknown field."""
    return f"there is no such field{suggestion(name, known)}"


def no_such(one: str, name: str, known: Iterable[str]) -> str:
    """The error of an unknown name, with the nearest one."""
    return f"there is no {one} {name}{suggestion(name, known)}"


def _may_be_bool(kind: type | tuple[type, ...]) -> bool:
    return kind is bool or (isinstance(kind, tuple) and bool in kind)


_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
_NAMES[type(None)] = "null"


def _named(kind: type | tuple[type, ...]) -> str:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(_NAMES[one] for one in kinds)
