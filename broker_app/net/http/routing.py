"""The router: from method and raw path to an endpoint and the name in the path.

Names may hold `/`: the first and the last segments are fixed words, everything between them is the name.
It is split before percent-decoding, so a name that looks like an address is sent with `%2F`. A path
without a name takes it from the query (`/queues/messages?queue=a`). A resource of another resource has two
names: `/bridges/OWNER/queues/NAME/messages`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from broker_app.base.refused import Refused
from broker_app.net.http.refusals import RefusedWithHeaders, invalid
from broker_app.net.http.replies import Reply
from broker_app.net.http.requests import Request, Scope
from broker_app.net.policy.roles import SAFE_METHODS

PREFIX = "/api/v1/"
_UNPREFIXED = ("/health/live", "/health/ready", "/failover-list", "/metrics", "/metrics/detailed")
#: words before a name that the query may have instead, and its parameter there
_PARAMETERS: Final = {"queues": "queue", "topics": "topic"}

#: the member of a described operation with the states of the broker in which programs are refused it
REFUSED_WHILE: Final = "x-refused-while"
#: the member of a described operation that changes nothing, whatever its method is
CHANGES_NOTHING: Final = "x-changes-nothing"

Endpoint = Callable[[Request], Awaitable[Reply | None]]
#: endpoints by the id of the operation that they answer
Handlers = Mapping[str, Endpoint]
#: the paths of an OpenAPI document
Paths = Mapping[str, Mapping[str, Any]]


class Route(NamedTuple):
    """One path: the segments before and behind the name, and the query parameter that may hold the name
    instead. `named` is False for paths without a name. `within` is a word between the name of an
    owner, which is one segment, and the name."""

    before: tuple[bytes, ...]
    behind: tuple[bytes, ...] = ()
    named: bool = False
    parameter: str | None = None
    within: bytes = b""

    @classmethod
    @cache  # a standby has them when it takes over: those of its own description are the same
    def of(cls, path: str) -> Route:
        """The route of a path of a description, such as `queues/{name}/messages`."""
        words = path.split("/")
        names = [i for i, word in enumerate(words) if word.startswith("{")]
        encoded = tuple(word.encode() for word in words)
        if not names:
            return cls(encoded)
        first, last = names[0], names[-1]
        within = encoded[last - 1] if first != last else b""
        parameter = _PARAMETERS.get(words[last - 1])
        return cls(encoded[:first], encoded[last + 1 :], True, parameter, within)

    @property
    def words(self) -> bytes:
        """Its fixed words, which no other route has."""
        return b"/".join((*self.before, self.within, *self.behind))

    @property
    def precedence(self) -> tuple[int, int, int]:
        """Sorts routes: the more words are fixed, the earlier it is tried."""
        within = bool(self.within)
        return (-len(self.before) - len(self.behind) - within, -within, -len(self.before))


class Operation(NamedTuple):
    """The endpoint of one method of a route. An `open` one needs no login; an `idempotent` one makes
    something, and repeats with the same key make nothing more. Programs are refused it while the broker is in
    a state of `refused_while`, monitors if it `changes` something."""

    endpoint: Endpoint
    open: bool = False
    idempotent: bool = False
    refused_while: tuple[str, ...] = ()
    changes: bool = True


class Match(NamedTuple):
    route: Route
    operation: Operation
    name: str
    owner: str = ""


class Router:
    """The routes of the operations that a description has.

    `paths` are of an OpenAPI document, `handlers` answer its operations, and `others` are paths of which
    another program answers the operations. Operations without a handler do not exist here.
    """

    MAX_CACHED = 4_096
    MAX_CACHED_BYTES = 1_024

    def __init__(
        self, paths: Paths, handlers: Handlers, others: Paths | None = None, prefix: str = PREFIX
    ) -> None:
        self._prefix = prefix.encode()
        routes: dict[Route, dict[str, Operation]] = {}
        known = set()
        for path, methods in paths.items():
            route = Route.of(path.removeprefix(prefix))
            for method, described in methods.items():
                known.add(described["operationId"])
                endpoint = handlers.get(described["operationId"])
                if endpoint is not None:
                    verb = method.upper()
                    routes.setdefault(route, {})[verb] = _operation(verb, described, endpoint)
        if unknown := handlers.keys() - known:
            raise ValueError(f"no path is described for {', '.join(sorted(unknown))}")
        self._words = {route.before[0] for route in routes}
        for path, methods in (others or {}).items():
            self._leave(routes, Route.of(path.removeprefix(prefix)), [method.upper() for method in methods])
        self._routes = {route: routes[route] for route in sorted(routes, key=lambda route: route.precedence)}
        self._cache: dict[tuple[str, bytes], Match] = {}

    def _leave(self, routes: dict[Route, dict[str, Operation]], route: Route, methods: list[str]) -> None:
        """Leave operations to the other program, also where the query has the name."""
        if route.before[0] not in self._words:
            return
        by_query = [Route(route.before)] if route.named and not route.behind and not route.within else []
        for place in (route, *by_query):
            for method in methods:
                routes.setdefault(place, {}).setdefault(method, _LEFT)

    def covers(self, raw_path: bytes) -> bool:
        """True if a path begins as all paths here do."""
        return raw_path.startswith(self._prefix)

    def owns(self, method: str, raw_path: bytes) -> bool:
        """True if the data plane answers a request, if only with a refusal."""
        before, _, path = raw_path.partition(self._prefix)
        if before or path.partition(b"/")[0] not in self._words:
            return False
        try:
            return self.find(method, raw_path).operation is not _LEFT
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
        operation = methods.get("GET" if method == "HEAD" else method)
        if operation is None:
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
        return Match(route, operation, name, owner)

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


async def _left(request: Request) -> Reply:
    raise AssertionError("the site asks `owns` first")


#: an operation that another program answers
_LEFT = Operation(_left)


def _operation(method: str, described: Mapping[str, Any], endpoint: Endpoint) -> Operation:
    keyed = any(parameter["name"] == "Idempotency-Key" for parameter in described.get("parameters", ()))
    refused_while = tuple(described.get(REFUSED_WHILE, ()))
    changes = method not in SAFE_METHODS and CHANGES_NOTHING not in described
    return Operation(endpoint, described.get("security") == [], keyed, refused_while, changes)


def _allowed(methods: dict[str, Operation]) -> list[str]:
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
