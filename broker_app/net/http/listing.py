"""Lists: filtered, sorted and cut into pages by the query."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from broker_app.base import wildcards
from broker_app.base.refused import Refused
from broker_app.net.http.refusals import invalid
from broker_app.net.http.requests import boolean, several, whole_number

_Thing = TypeVar("_Thing")
_NAME = "name"
_PAGE = ("limit", "after", "sort", "fields")
#: seconds of one step over rows; then other tasks run
_SLICE_S = 0.004
#: characters of a pattern that names are compared with, and wildcards in it
_MAX_PATTERN = 256
_MAX_WILDCARDS = 8
#: characters of other texts in a comparison
_MAX_TEXT = 1024
#: the name of a member, and whether the largest comes first
_Column = tuple[str, bool]
_Key = tuple[Any, ...]


class _Descending:
    """Sorts backwards."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and other.value == self.value


class ListingPage(NamedTuple):
    """The rows of one page, the cursor of the next one if there is one, and how many rows there are."""

    items: list[dict[str, object]]
    next: str | None
    approx_total: int


class Listing(Generic[_Thing]):
    """One type of list:

    - `facts`: the members of a row, as functions by name; `on_request` are those that only `fields` includes;
    - `sortable`: members to sort by (default: all), `sort`: the default order, `last`: the tie-breaker;
    - `ranks`: values that are compared instead of some members;
    - `searched`: the text that `q` is compared with (default: the name, or `last`);
    - `filters`: conditions of a query that are true or false, `matches`: those that have a text.

    A cursor holds the sort key of the last row, so that the next page begins there, even if it is gone."""

    def __init__(
        self,
        facts: Mapping[str, Callable[[_Thing], Any]],
        filters: Mapping[str, Callable[[_Thing], bool]],
        max_page: int,
        *,
        matches: Mapping[str, Callable[[_Thing, str], bool]] | None = None,
        sortable: Collection[str] | None = None,
        ranks: Mapping[str, Callable[[_Thing], Any]] | None = None,
        searched: Callable[[_Thing], str] | None = None,
        on_request: Collection[str] = (),
        sort: str = _NAME,
        last: str = _NAME,
    ) -> None:
        self._facts = facts
        self._compared = {**facts, **(ranks or {})}
        self._searched = searched or facts.get(_NAME, facts[last])
        self._on_request = on_request
        self.filters = filters
        self.matches = matches or {}
        self._sortable = facts if sortable is None else sortable
        self._sort = sort
        self._last = last
        self._max_page = max_page
        self.parameters = (*_PAGE, "q", *filters, *self.matches)

    def page(self, things: Iterable[_Thing], query: dict[str, str]) -> ListingPage:
        """The page that `query` asks for; its keys are among `parameters`. Raises Refused."""
        paging = self._paging(query)
        paging.take(iter(things))
        return paging.page([self._row(thing, paging.fields) for thing in paging.found()])

    async def page_of_many(self, things: Iterable[_Thing], query: dict[str, str]) -> ListingPage:
        """The same in slices of a few milliseconds, so that other tasks run in between. Each row is as it was
        when it was read."""
        paging = self._paging(query)
        rest = iter(things)
        while not paging.take(rest, time.monotonic() + _SLICE_S):
            await asyncio.sleep(0)
        rows: list[dict[str, object]] = []
        until_s = time.monotonic() + _SLICE_S
        for thing in paging.found():
            rows.append(self._row(thing, paging.fields))
            if time.monotonic() >= until_s:
                await asyncio.sleep(0)
                until_s = time.monotonic() + _SLICE_S
        return paging.page(rows)

    def row(self, thing: _Thing) -> dict[str, object]:
        """All members of one row."""
        return {name: fact(thing) for name, fact in self._facts.items()}

    def _paging(self, query: dict[str, str]) -> _Paging[_Thing]:
        return _Paging(
            limit=whole_number(query, "limit", 100, 1, self._max_page),
            columns=(columns := self._columns(query.get("sort", self._sort))),
            fields=self._fields(query),
            key=self._key(columns),
            passes=self._conditions(query),
            after=query.get("after"),
        )

    def _row(self, thing: _Thing, fields: Sequence[str]) -> dict[str, object]:
        return {name: self._facts[name](thing) for name in fields}

    # ------------------------------------------------------------------ the query

    def _conditions(self, query: dict[str, str]) -> list[Callable[[_Thing], bool]]:
        found: list[Callable[[_Thing], bool]] = []
        if "q" in query:
            fits, searched = _pattern(query["q"]), self._searched
            found.append(lambda thing: fits(searched(thing)))
        found += [self._match(name, query[name]) for name in self.matches.keys() & query.keys()]
        given = self.filters.keys() & query.keys()
        return found + [self._condition(parameter, boolean(query, parameter)) for parameter in given]

    def _match(self, name: str, text: str) -> Callable[[_Thing], bool]:
        if len(text) > _MAX_TEXT:
            raise invalid(f"query/{name}", f"may have {_MAX_TEXT} characters", text)
        matches = self.matches[name]
        return lambda thing: matches(thing, text)

    def _condition(self, name: str, wanted: bool) -> Callable[[_Thing], bool]:
        holds = self.filters[name]
        return lambda thing: holds(thing) == wanted

    def _columns(self, text: str) -> list[_Column]:
        """The sort key."""
        parts = text.split(",")
        names = several(
            "query/sort", (part.removeprefix("-") for part in parts), self._sortable, "member to sort by"
        )
        columns = [(name, part.startswith("-")) for name, part in zip(names, parts, strict=True)]
        if self._last not in names:
            columns.append((self._last, False))
        return columns

    def _fields(self, query: dict[str, str]) -> Sequence[str]:
        if "fields" not in query:
            return [name for name in self._facts if name not in self._on_request]
        return several("query/fields", query["fields"].split(","), self._facts, "member")

    def _key(self, columns: list[_Column]) -> Callable[[_Thing], _Key]:
        made = [(self._compared[name], descending) for name, descending in columns]
        return lambda thing: tuple(
            _Descending(fact(thing)) if descending else fact(thing) for fact, descending in made
        )


class _Paging(Generic[_Thing]):
    """A page in progress: objects are added in any order, at once or in slices, and the first matching ones
    are kept."""

    def __init__(
        self,
        *,
        limit: int,
        columns: list[_Column],
        fields: Sequence[str],
        key: Callable[[_Thing], _Key],
        passes: list[Callable[[_Thing], bool]],
        after: str | None,
    ) -> None:
        self.fields = fields
        self._limit = limit
        #: how many fit, on this page or another
        self._total = 0
        #: up to one more than the page has, with their sort keys
        self._first: list[tuple[_Key, _Thing]] = []
        self._key = key
        self._passes = passes
        self._after = after
        self._behind = _behind(columns, after) if after is not None else None

    def take(self, things: Iterator[_Thing], until_s: float = math.inf) -> bool:
        """Read objects until a time; return True if none is left. Raises Refused for a cursor of another
        list."""
        passes, key, behind = self._passes, self._key, self._behind
        clock = time.monotonic
        found = self._first
        taken = False
        for thing in things:
            if all(holds(thing) for holds in passes):
                self._total += 1
                place = key(thing)
                if behind is None or self._is_behind(behind, place):
                    found.append((place, thing))
            if clock() >= until_s:
                break
        else:
            taken = True
        self._first = nsmallest(self._limit + 1, found, key=itemgetter(0))
        return taken

    def found(self) -> list[_Thing]:
        """The content of the page."""
        return [thing for _, thing in self._first[: self._limit]]

    def page(self, rows: list[dict[str, object]]) -> ListingPage:
        """The page with its rows."""
        more = len(self._first) > self._limit
        return ListingPage(rows, cursor_of(self._first[self._limit - 1][0]) if more else None, self._total)

    def _is_behind(self, behind: _Key, place: _Key) -> bool:
        try:
            return behind < place
        except TypeError:  # a cursor of another sort
            raise _no_cursor(self._after or "") from None


def _pattern(text: str) -> Callable[[str], bool]:
    """True if a name has all words of a text, or matches its pattern with `*`; case is ignored."""
    if len(text) > _MAX_PATTERN or text.count(wildcards.ANY) > _MAX_WILDCARDS:
        detail = f"may have {_MAX_PATTERN} characters and {_MAX_WILDCARDS} {wildcards.ANY}"
        raise invalid("query/q", detail, text)
    text = text.casefold()
    if wildcards.ANY in text:
        fits = wildcards.matcher(text)
        return lambda name: fits(name.casefold())
    words = text.split()

    def has_all(name: str) -> bool:
        folded = name.casefold()
        return all(word in folded for word in words)

    return has_all


def cursor_of(key: _Key) -> str:
    """The cursor behind the row with this sort key."""
    values = [part.value if isinstance(part, _Descending) else part for part in key]
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _behind(columns: list[_Column], cursor: str) -> _Key:
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


def _no_cursor(text: str) -> Refused:
    return invalid("query/after", "is not a cursor of an earlier page of this list", text)
