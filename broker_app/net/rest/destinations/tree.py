"""Queues and topics as a tree: names fold at their dots where a level has many, a level at a time."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from broker_app.core.destination import QUEUE, TOPIC
from broker_app.engine.client import EngineClient
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.telemetry import Statistics
from broker_app.telemetry.health import IDLE, NEEDS_ATTENTION, RANK

#: a level with more names than these is folded
FOLD_ABOVE = 12
#: destinations that are read at once
_SLICE = 100
#: seconds for which the sorted names are cached
_KEPT_S = 1.0
#: behind every name that begins with what stands before it
_END = chr(0x10FFFF)


class Branch(NamedTuple):
    """The names from `start` to `end` of a sorted list: one of them, or all that begin with `key`."""

    key: str
    start: int
    end: int
    folded: bool


class Tree:
    """Endpoint `destinations/tree`. `names` lists the destinations of each kind."""

    def __init__(
        self,
        engine_client: EngineClient,
        statistics: Statistics,
        names: Mapping[str, Callable[[], Iterable[str]]],
        limits: RestLimits,
    ) -> None:
        self._engine_client = engine_client
        self._statistics = statistics
        self._names = names
        self._limits = limits
        #: by kind: when they were put in order, and the names
        self._sorted: dict[str, tuple[float, list[str]]] = {}

    async def level(self, request: Request) -> Reply:
        """GET destinations/tree: the children of a branch"""
        query = request.query(("kind", "prefix", "after", "limit"))
        kind, prefix = query.get("kind", QUEUE), query.get("prefix", "")
        if kind not in self._names:
            raise invalid("query/kind", f"must be {QUEUE} or {TOPIC}", kind)
        limit = whole_number(query, "limit", 100, 1, self._limits.max_page)
        names = await self._seen_by(request, kind)
        level = names[bisect_left(names, prefix) : bisect_left(names, prefix + _END)]
        branches = list(islice(children(level, prefix, _behind(level, query.get("after"))), limit + 1))
        items = [await self._item(kind, level, branch) for branch in branches[:limit]]
        following = _cursor(branches[limit - 1]) if len(branches) > limit else None
        return json_reply({"prefix": prefix, "count": len(level), "items": items, "next": following})

    async def _seen_by(self, request: Request, kind: str) -> list[str]:
        """The names of a kind that the client may browse, in order."""
        names = await self._in_order(kind)
        if request.access.sees_everything(request.client.identity):
            return names
        seen = await request.access.visible(request.client, [f"/{kind}/{name}" for name in names])
        return [name for name in names if f"/{kind}/{name}" in seen]

    async def _in_order(self, kind: str) -> list[str]:
        """All names of a kind in order, as they were a second ago or later: many ask for them together."""
        asked_at, names = self._sorted.get(kind, (0.0, []))
        now = asyncio.get_running_loop().time()
        if now - asked_at >= _KEPT_S or not names:
            names = await self._engine_client.inspect(lambda: sorted(self._names[kind]()))
            self._sorted[kind] = now, names
        return names

    async def _item(self, kind: str, level: list[str], branch: Branch) -> dict[str, object]:
        depth, worst = 0, IDLE
        for start in range(branch.start, branch.end, _SLICE):
            for name in level[start : min(start + _SLICE, branch.end)]:
                waits, state = self._look(f"/{kind}/{name}")
                depth += waits
                if RANK[state] < RANK[worst]:
                    worst = state
            await asyncio.sleep(0)
        about = {"depth": depth, "state": worst, "needs_attention": worst in NEEDS_ATTENTION}
        if branch.folded:
            return {"prefix": branch.key, "count": branch.end - branch.start, **about}
        return {"name": branch.key, **about}

    def _look(self, address: str) -> tuple[int, str]:
        """The waiting messages of a destination, and its state. It may be deleted by now."""
        statistics = self._statistics
        try:
            return statistics.depth(address), statistics.condition(address).state
        except KeyError:
            return 0, IDLE


def children(level: list[str], prefix: str, at: int = 0) -> Iterator[Branch]:
    """The branches of a level from its name number `at` on; `level` are the sorted names that begin with
    `prefix`. One name alone is not folded, and branches in which there is only another one fold once."""
    folds = len(level) > FOLD_ABOVE
    while at < len(level):
        name = level[at]
        dot = name.find(".", len(prefix))
        end = at + 1
        if folds and dot >= 0:
            end = bisect_left(level, name[: dot + 1] + _END, lo=at)
        if end - at > 1:
            yield Branch(_shared(name, level[end - 1]), at, end, True)
        else:
            yield Branch(name, at, end, False)
        at = end


def _shared(first: str, last: str) -> str:
    """The common prefix of two names, up to a dot."""
    length = next(
        (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None
    )
    return first[: first[:length].rindex(".") + 1]


def _cursor(last: Branch) -> str:
    return f"{'p' if last.folded else 'n'}{last.key}"


def _behind(level: list[str], after: str | None) -> int:
    """The number of the first name of a level behind a cursor."""
    if after is None:
        return 0
    if after[:1] not in ("p", "n"):
        raise invalid("query/after", "is not a cursor of an earlier page of this tree", after)
    return bisect_right(level, after[1:]) if after[0] == "n" else bisect_left(level, after[1:] + _END)
