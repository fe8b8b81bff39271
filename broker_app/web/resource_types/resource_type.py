"""Resource types: how a resource is specified, checked, read from its model and written to it."""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from django.core.exceptions import ValidationError

#: the spec of a resource: in the API, in files, diffs, the history and the audit log
Said = dict[str, Any]


class Kind(ABC):
    """One sort of thing. All methods but the checks touch the database; those that write are called by
    `web.actions` alone.

    Secrets travel beside what is said, by name, and are never read back.
    """

    #: of the API's addresses and of definitions: "rules"
    name: ClassVar[str]
    #: one of them, for sentences: "rule"
    one: ClassVar[str]
    #: names of what cannot be read back
    secrets: ClassVar[tuple[str, ...]] = ()
    #: fields by which people operate a thing: they may change them although a file says the rest, and what
    #: the file leaves out of them stays as it is
    operated: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def read(self, keys: Iterable[str] | None = None) -> dict[str, Said]:
        """Those that are there of `keys`, or all, by key."""

    @abstractmethod
    def write(self, key: str, said: Said, secrets: Mapping[str, Any]) -> None:
        """Make or change one. `said` has passed `complete` and `check`."""

    @abstractmethod
    def remove(self, key: str) -> None:
        """End one that is there."""

    @abstractmethod
    def check(self, key: str, said: Said) -> None:
        """Raises ValidationError, by field, for an invalid key or spec."""

    def complete(self, key: str, said: Mapping[str, Any], before: Said | None) -> Said:
        """`said` with the defaults of missing members; `before` is the former spec."""
        return dict(said)

    def in_order(self, things: Mapping[str, Said]) -> dict[str, Said]:
        """Things that are said together, each with what its place among them says of it."""
        return dict(things)

    def check_secrets(self, key: str, said: Said, secrets: Mapping[str, Any]) -> None:
        """Raises ValidationError for a secret that will not do."""
        if strange := sorted(set(secrets) - set(self.secrets)):
            raise ValidationError({name: unknown(name, self.secrets) for name in strange})

    def wrong_together(self, changes: Sequence[tuple[Said | None, Said | None]]) -> str:
        """Errors of the resources of this type after all changes (before, after) are written."""
        return ""

    def new_secrets(self, key: str, secrets: Mapping[str, Any]) -> Mapping[str, Any]:
        """Those of the secrets that are others than those that are kept."""
        return secrets

    def warnings(self, said: Said) -> Iterable[str]:
        """Probable mistakes in `said`, which is accepted nevertheless."""
        return ()

    def hangs_on(self, key: str) -> Iterable[tuple[str, str]]:
        """(kind, key) of what goes when this one goes."""
        return ()


def check_storable(key: str, said: Any) -> None:
    """Raises ValidationError for what is no JSON, or what no database keeps: halves of surrogates, NUL."""
    if not _storable(key):
        raise ValidationError("a name must be a text without NUL and without halves of surrogates")
    if not _storable(said):
        raise ValidationError("the spec must be JSON, with texts without NUL and finite numbers")


def _storable(said: Any) -> bool:
    if isinstance(said, str):
        return "\0" not in said and not any("\ud800" <= sign <= "\udfff" for sign in said)
    if isinstance(said, float):
        return math.isfinite(said)
    if isinstance(said, Mapping):
        return all(isinstance(name, str) and _storable(name) and _storable(said[name]) for name in said)
    if isinstance(said, list):
        return all(_storable(item) for item in said)
    return said is None or isinstance(said, int)


def check_fields(said: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]) -> None:
    """Raises ValidationError for fields that are unknown, missing or of another type. True is no number."""
    wrong = {name: unknown(name, types) for name in said if name not in types}
    for name, kind in types.items():
        if name not in said:
            wrong[name] = "is missing"
        elif not isinstance(said[name], kind) or (isinstance(said[name], bool) and not _may_be_bool(kind)):
            wrong[name] = f"must be {_named(kind)}"
    if wrong:
        raise ValidationError(wrong)


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
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"there is no such field{f'; did you mean {near[0]}?' if near else ''}"


def no_such(one: str, name: str, known: Iterable[str]) -> str:
    """The error of an unknown name, with the nearest one."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"there is no {one} {name}{f'; did you mean {near[0]}?' if near else ''}"


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
