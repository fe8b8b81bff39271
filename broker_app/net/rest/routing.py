"""Routing: from method and raw path to an endpoint and the name in the address.

Names may hold `/`: the first and the last segments are fixed words, everything between them is the name.
It is split before percent-decoding, so a name that looks like an address is sent with `%2F`. A path
without a name takes it from the query (`/queues/messages?queue=a`). What is within something else has two
names: `/bridges/OWNER/queues/NAME/messages`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from broker_app.net.rest.refusals import Refusal, invalid
from broker_app.net.rest.replies import Reply
from broker_app.net.rest.requests import Request, Scope

PREFIX = "/api/v1/"
Endpoint = Callable[[Request], Awaitable[Reply | None]]


class Place(NamedTuple):
    """One address: the segments before and behind the name, and the query parameter that may hold the
    name instead. `named` is False for addresses without a name. `within` is a word between the name of an
    owner, which is one segment, and the name."""

    before: tuple[bytes, ...]
    behind: tuple[bytes, ...] = ()
    named: bool = False
    parameter: str | None = None
    open: bool = False  # needs no login
    within: bytes = b""


class Match(NamedTuple):
    place: Place
    endpoint: Endpoint
    name: str
    owner: str = ""


class Router:
    """All addresses of the plane and what can be done with them."""

    MAX_CACHED = 4_096
    MAX_CACHED_BYTES = 1_024

    def __init__(self, prefix: str = PREFIX) -> None:
        self._prefix = prefix.encode()
        self._places: dict[Place, dict[str, Endpoint]] = {}
        self._words: set[bytes] = set()
        self._cache: dict[tuple[str, bytes], Match] = {}

    def add(self, method: str, place: Place, endpoint: Endpoint) -> None:
        """`endpoint` answers `method` (a GET also HEAD) at `place`. The first place that fits wins."""
        methods = self._places.setdefault(place, {})
        methods[method] = endpoint
        self._words.add(place.before[0])

    def leave(self, methods: Iterable[str], place: Place) -> None:
        """The control plane answers these methods at `place`, which has others here."""
        for method in methods:
            self.add(method, place, left)

    def owns(self, method: str, raw_path: bytes) -> bool:
        """True if the data plane answers a request, be it with a refusal."""
        before, _, path = raw_path.partition(self._prefix)
        if before or path.partition(b"/")[0] not in self._words:
            return False
        try:
            return self.find(method, raw_path).endpoint is not left
        except Refusal:
            return True

    def find(self, method: str, raw_path: bytes) -> Match:
        """Raises Refusal: not-found, or method-not-allowed with Allow."""
        match = self._cache.get((method, raw_path))
        if match is None:
            match = self._find(method, raw_path)
            if len(raw_path) <= self.MAX_CACHED_BYTES:
                if len(self._cache) >= self.MAX_CACHED:
                    self._cache.clear()
                self._cache[method, raw_path] = match
        return match

    def methods(self, raw_path: bytes) -> list[str]:
        """The methods of an address, for OPTIONS."""
        place, _ = self._place(raw_path)
        return _allowed(self._places[place])

    def _find(self, method: str, raw_path: bytes) -> Match:
        place, segments = self._place(raw_path)
        methods = self._places[place]
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            allowed = ", ".join(_allowed(methods))
            raise Refusal(
                "method-not-allowed",
                f"{method} is not possible here; what is: {allowed}",
                headers=[(b"allow", allowed.encode())],
            )
        try:
            owner = unquote_to_bytes(segments.pop(0)).decode() if place.within else ""
            name = unquote_to_bytes(b"/".join(segments)).decode()
        except UnicodeDecodeError as error:
            raise invalid("path", "the name is not UTF-8 in percent encoding") from error
        return Match(place, endpoint, name, owner)

    def _place(self, raw_path: bytes) -> tuple[Place, list[bytes]]:
        """The place of an address, and the undecoded segments of its name; before them, that of its owner."""
        segments = raw_path[len(self._prefix) :].split(b"/")
        for place in self._places:
            before, behind = len(place.before), len(place.behind)
            middle = segments[before : len(segments) - behind]
            owner: list[bytes] = []
            if place.within:
                if len(middle) < 2 or not middle[0] or middle[1] != place.within:
                    continue
                owner, middle = middle[:1], middle[2:]
            if (
                tuple(segments[:before]) == place.before
                and (not behind or tuple(segments[-behind:]) == place.behind)
                and len(segments) >= before + behind
                and (bool(middle) == place.named or (place.parameter is not None and not middle))
                and middle != [b""]
            ):
                return place, owner + middle
        raise Refusal(
            "not-found", f"there is nothing at {raw_path[:200].decode('latin-1')}; see {PREFIX}openapi.json"
        )


async def left(request: Request) -> Reply:
    """Stands for what the control plane answers."""
    raise AssertionError("the site asks `owns` first")


def _allowed(methods: dict[str, Endpoint]) -> list[str]:
    return sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])})


def raw_path_of(scope: Scope) -> bytes:
    """The path as the client sent it, without the query."""
    raw: bytes | None = scope.get("raw_path")
    if raw is None:
        return quote(scope["path"]).encode()
    return raw.partition(b"?")[0]
