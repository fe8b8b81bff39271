"""The router: from method and raw path to an endpoint and the name in the path.

Names may hold `/`: the first and the last segments are fixed words, everything between them is the name.
It is split before percent-decoding, so a name that looks like an address is sent with `%2F`. A path
without a name takes it from the query (`/queues/messages?queue=a`). A resource of another resource has two
names: `/bridges/OWNER/queues/NAME/messages`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from broker_app.base.refused import Refused
from broker_app.net.http.refusals import RefusedWithHeaders, invalid
from broker_app.net.http.replies import Reply
from broker_app.net.http.requests import Request, Scope

PREFIX = "/api/v1/"
_UNPREFIXED = ("/health/live", "/health/ready", "/failover-list", "/metrics", "/metrics/detailed")
Endpoint = Callable[[Request], Awaitable[Reply | None]]


class Route(NamedTuple):
    """One path: the segments before and behind the name, and the query parameter that may hold the name
    instead. `named` is False for paths without a name. `within` is a word between the name of an
    owner, which is one segment, and the name."""

    before: tuple[bytes, ...]
    behind: tuple[bytes, ...] = ()
    named: bool = False
    parameter: str | None = None
    open: bool = False  # needs no login
    within: bytes = b""


class Match(NamedTuple):
    route: Route
    endpoint: Endpoint
    name: str
    owner: str = ""


class Router:
    """All routes of the API and their methods."""

    MAX_CACHED = 4_096
    MAX_CACHED_BYTES = 1_024

    def __init__(self, prefix: str = PREFIX) -> None:
        self._prefix = prefix.encode()
        self._routes: dict[Route, dict[str, Endpoint]] = {}
        self._words: set[bytes] = set()
        self._cache: dict[tuple[str, bytes], Match] = {}

    def add(self, method: str, route: Route, endpoint: Endpoint) -> None:
        """`endpoint` answers `method` (a GET also HEAD) at `route`. The first route that matches wins."""
        methods = self._routes.setdefault(route, {})
        methods[method] = endpoint
        self._words.add(route.before[0])

    def delegate(self, methods: Iterable[str], route: Route) -> None:
        """Leave these methods of `route`, which has others here, to the control plane."""
        for method in methods:
            self.add(method, route, delegated)

    def owns(self, method: str, raw_path: bytes) -> bool:
        """True if the data plane answers a request, if only with a refusal."""
        before, _, path = raw_path.partition(self._prefix)
        if before or path.partition(b"/")[0] not in self._words:
            return False
        try:
            return self.find(method, raw_path).endpoint is not delegated
        except Refused:
            return True

    def find(self, method: str, raw_path: bytes) -> Match:
        """Raises Refused: not-found, or method-not-allowed with Allow."""
        match = self._cache.get((method, raw_path))
        if match is None:
            match = self._find(method, raw_path)
            if len(raw_path) <= self.MAX_CACHED_BYTES:
                if len(self._cache) >= self.MAX_CACHED:
                    self._cache.clear()
                self._cache[method, raw_path] = match
        return match

    def methods(self, raw_path: bytes) -> list[str]:
        """The methods of a path, for OPTIONS."""
        route, _ = self._route(raw_path)
        return _allowed(self._routes[route])

    def _find(self, method: str, raw_path: bytes) -> Match:
        route, segments = self._route(raw_path)
        methods = self._routes[route]
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            allowed = ", ".join(_allowed(methods))
            raise RefusedWithHeaders(
                "method-not-allowed",
                f"{method} is not allowed here; allowed: {allowed}",
                [(b"allow", allowed.encode())],
            )
        try:
            owner = unquote_to_bytes(segments.pop(0)).decode() if route.within else ""
            name = unquote_to_bytes(b"/".join(segments)).decode()
        except UnicodeDecodeError as error:
            raise invalid("path", "the name is not UTF-8 in percent encoding") from error
        return Match(route, endpoint, name, owner)

    def _route(self, raw_path: bytes) -> tuple[Route, list[bytes]]:
        """The route of a path, and the undecoded segments of its name; before them, that of its owner."""
        segments = raw_path[len(self._prefix) :].split(b"/")
        for route in self._routes:
            before, behind = len(route.before), len(route.behind)
            middle = segments[before : len(segments) - behind]
            owner: list[bytes] = []
            if route.within:
                if len(middle) < 2 or not middle[0] or middle[1] != route.within:
                    continue
                owner, middle = middle[:1], middle[2:]
            if (
                tuple(segments[:before]) == route.before
                and (not behind or tuple(segments[-behind:]) == route.behind)
                and len(segments) >= before + behind
                and (bool(middle) == route.named or (route.parameter is not None and not middle))
                and middle != [b""]
            ):
                return route, owner + middle
        raise Refused(
            "not-found", f"there is nothing at {raw_path[:200].decode('latin-1')}; see {PREFIX}openapi.json"
        )


async def delegated(request: Request) -> Reply:
    """The endpoint of methods that the control plane answers; it is never called."""
    raise AssertionError("the site asks `owns` first")


def _allowed(methods: dict[str, Endpoint]) -> list[str]:
    return sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])})


def raw_path_of(scope: Scope) -> bytes:
    """The path as the client sent it, without the query."""
    raw: bytes | None = scope.get("raw_path")
    if raw is None:
        return quote(scope["path"]).encode()
    return raw.partition(b"?")[0]


def unprefixed(scope: Scope) -> None:
    """Serve the paths that proxies and clients ask without a version as those of the API."""
    if scope["path"] in _UNPREFIXED:
        scope["path"] = PREFIX + scope["path"][1:]
        scope["raw_path"] = scope["path"].encode()
