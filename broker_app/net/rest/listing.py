"""Lists of what there is: filtered, sorted and cut into pages, by what the query says."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import nsmallest
from typing import Any, Generic, NamedTuple, TypeVar

from broker_app.net.rest.refusals import Refusal, invalid, unknown
from broker_app.net.rest.requests import truth, whole_number

_Thing = TypeVar("_Thing")
_NAME = "name"
_PAGE = ("limit", "after", "sort", "fields")


class _Descending:
    """Sorts backwards."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and other.value == self.value


class Page(NamedTuple):
    """The rows of one page, the cursor of the next one if there is one, and how many rows there are."""

    items: list[dict[str, Any]]
    next: str | None
    approx_total: int


class Listing(Generic[_Thing]):
    """One kind of list. `facts` are the members of a row, by name and how they are found; by every one of
    them, or by `sortable` alone, can be sorted, and `sort` is how it is otherwise; `last`, behind all else,
    makes the order definite. `filters` are yes-or-no questions that a query may put, `matches` questions
    about a text of it.

    A cursor holds the sort key of the last row, so that a page goes on there even if that row has gone."""

    def __init__(
        self,
        facts: Mapping[str, Callable[[_Thing], Any]],
        filters: Mapping[str, Callable[[_Thing], bool]],
        max_page: int,
        *,
        matches: Mapping[str, Callable[[_Thing, str], bool]] | None = None,
        sortable: Collection[str] | None = None,
        sort: str = _NAME,
        last: str = _NAME,
    ) -> None:
        self._facts = facts
        self.filters = filters
        self.matches = matches or {}
        self._sortable = facts if sortable is None else sortable
        self._sort = sort
        self._last = last
        self._max_page = max_page
        self.parameters = (*_PAGE, "q", *filters, *self.matches)

    def page(self, things: Iterable[_Thing], query: dict[str, str]) -> Page:
        """The page that `query` asks for; its keys are among `parameters`. Raises Refusal."""
        limit = whole_number(query, "limit", 100, 1, self._max_page)
        columns = self._columns(query.get("sort", self._sort))
        fields = self._fields(query)
        key = self._key(columns)
        passes = self._conditions(query)
        wanted = [thing for thing in things if all(holds(thing) for holds in passes)]
        total = len(wanted)
        if "after" in query:
            last = _behind(columns, query["after"])
            try:
                wanted = [thing for thing in wanted if last < key(thing)]
            except TypeError:  # a cursor of another sort
                raise _no_cursor(query["after"]) from None
        found = nsmallest(limit + 1, wanted, key=key)
        rows = [{name: self._facts[name](thing) for name in fields} for thing in found[:limit]]
        following = self._cursor(columns, found[limit - 1]) if len(found) > limit else None
        return Page(rows, following, total)

    def row(self, thing: _Thing) -> dict[str, Any]:
        """All facts of one thing."""
        return {name: fact(thing) for name, fact in self._facts.items()}

    # ------------------------------------------------------------------ what the query says

    def _conditions(self, query: dict[str, str]) -> list[Callable[[_Thing], bool]]:
        found: list[Callable[[_Thing], bool]] = []
        if "q" in query:
            part, name = query["q"], self._facts.get(_NAME, self._facts[self._last])
            found.append(lambda thing: part in name(thing))
        found += [self._match(name, query[name]) for name in self.matches.keys() & query.keys()]
        asked = self.filters.keys() & query.keys()
        return found + [self._condition(parameter, truth(query, parameter)) for parameter in asked]

    def _match(self, name: str, text: str) -> Callable[[_Thing], bool]:
        matches = self.matches[name]
        return lambda thing: matches(thing, text)

    def _condition(self, name: str, wanted: bool) -> Callable[[_Thing], bool]:
        holds = self.filters[name]
        return lambda thing: holds(thing) == wanted

    def _columns(self, text: str) -> list[tuple[str, bool]]:
        """(name, whether descending) of what is sorted by."""
        columns = []
        for part in text.split(","):
            name = part.removeprefix("-")
            if name not in self._sortable:
                raise unknown("query/sort", name, self._sortable, "member to sort by")
            columns.append((name, part.startswith("-")))
        if all(name != self._last for name, _ in columns):
            columns.append((self._last, False))
        return columns

    def _fields(self, query: dict[str, str]) -> Iterable[str]:
        if "fields" not in query:
            return self._facts
        fields = query["fields"].split(",")
        for name in fields:
            if name not in self._facts:
                raise unknown("query/fields", name, self._facts, "member")
        return fields

    # ------------------------------------------------------------------ order

    def _key(self, columns: list[tuple[str, bool]]) -> Callable[[_Thing], tuple[Any, ...]]:
        made = [(self._facts[name], descending) for name, descending in columns]
        return lambda thing: tuple(
            _Descending(fact(thing)) if descending else fact(thing) for fact, descending in made
        )

    def _cursor(self, columns: list[tuple[str, bool]], thing: _Thing) -> str:
        values = [self._facts[name](thing) for name, _ in columns]
        return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _behind(columns: list[tuple[str, bool]], cursor: str) -> tuple[Any, ...]:
    """The sort key in a cursor."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        values = json.loads(text)
    except (ValueError, binascii.Error, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != len(columns):
        raise _no_cursor(cursor)
    return tuple(
        _Descending(value) if descending else value
        for value, (_, descending) in zip(values, columns, strict=True)
    )


def _no_cursor(text: str) -> Refusal:
    return invalid("query/after", "is no cursor of an earlier page of this list", text)
