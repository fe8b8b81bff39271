"""Every operation of the OpenAPI document, of both planes, refuses what is asked for wrongly."""

import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from broker_app.net.rest import openapi
from broker_app.web import api
from tests.support.broker_process import BrokerProcess
from tests.support.samples import sample

pytestmark = pytest.mark.process

DOCUMENT = openapi.document(api.document())
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: what is done to destinations is decided by rules, or visible to all users; the rest is administration
EVERYBODYS = frozenset(
    "queues topics messages leases jobs bulk subscriptions connections stats node limits health tokens"
    " explain callbacks webhooks services profiles seeds sites subscribers".split()
)


class Operation(NamedTuple):
    """One operation of the document, at an address of it."""

    method: str
    template: str
    said: dict[str, Any]

    @property
    def path(self) -> str:
        found = self.template
        for parameter in self.said.get("parameters", ()):
            if parameter["in"] == "path":
                name = "queue/nothing.%3E" if "/settings/" in found else "nothing"
                found = found.replace(f"{{{parameter['name']}}}", name)
        return found

    @property
    def open(self) -> bool:
        """Return whether it needs no login."""
        return self.said.get("security") == [] or {} in self.said.get("security", ())

    @property
    def types(self) -> list[str]:
        """The media types of its body."""
        return list(self.said.get("requestBody", {}).get("content", {}))

    @property
    def administrative(self) -> bool:
        described = self.said["tags"][0] not in EVERYBODYS and not self.open
        settings = self.template.endswith(("queues/{name}", "topics/{name}")) and self.method != "GET"
        reads = self.method == "GET" and ("/destinations/" in self.template or "/forwarding" in self.template)
        # Of a bridge, all users see and uses the queues to which they have the right.
        queues = "/bridges/{bridge}/queues/" in self.template
        stands = self.template.endswith(("/bridges/{name}/status", "/bridges/{name}/events"))
        return (described or settings) and not (reads or queues or stands)


OPERATIONS = [
    Operation(method.upper(), path, said)
    for path, methods in DOCUMENT["paths"].items()
    for method, said in methods.items()
]
PATHS = {operation.template: operation.path for operation in OPERATIONS}


def each(operations: list[Operation]) -> pytest.MarkDecorator:
    """A third of the operations, others with each seed, by their names."""
    chosen = sample(operations, len(operations) // 3)
    ids = [operation.said["operationId"] for operation in chosen]
    return pytest.mark.parametrize("operation", chosen, ids=ids)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Caller:
    """Requests to one broker, each on a connection of its own."""

    def __init__(self, broker: BrokerProcess, secret: str, others: dict[str, str]) -> None:
        self._broker = broker
        self.secret = secret
        self.others = others

    def ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection(self._broker.host, self._broker.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            named = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, named, reply.read())
        finally:
            connection.close()

    def refused(
        self, method: str, path: str, body: bytes | None = None, secret: str | None = None, **headers: str
    ) -> Reply:
        """The reply, which is a problem with all that every problem has."""
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        all_headers = {
            "authorization": f"Bearer {self.secret if secret is None else secret}",
            "if-match": "*",
            "traceparent": trace,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        reply = self.ask(method, path, body, all_headers)
        assert reply.headers["request-id"]
        assert reply.headers["traceparent"] == trace
        if method == "HEAD":
            return reply
        assert reply.headers["content-type"] == "application/problem+json", reply
        problem = json.loads(reply.body)
        assert problem["status"] == reply.status
        assert problem["trace_id"] in trace
        assert problem["type"] in DOCUMENT["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
        return reply


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Tokens of an administrator, of another user, and of an administrator for messages alone."""
    environment = {"MOM_MAX_BODY_BYTES": "1MiB"}
    broker = BrokerProcess(tmp_path_factory.mktemp("broker") / "data", environment=environment)
    broker.start()
    made = broker.request("PUT", "/api/v1/users/john", json_body={})
    assert made.status == 201, made.body
    bridge = {"hostname": "127.0.0.1", "desired": "paused"}
    assert broker.request("PUT", "/api/v1/bridges/nothing", json_body=bridge).status == 201
    grants = [{"rights": ["send", "receive", "browse", "read", "manage"], "destinations": [">"]}]
    wanted: dict[str, dict[str, Any]] = {
        "admin": {"name": "t"},
        "john": {"name": "t", "user": "john"},
        "a part of admin": {"name": "part", "grants": grants},
    }
    secrets = {
        who: broker.request("POST", "/api/v1/tokens", json_body=token).json()["token"]
        for who, token in wanted.items()
    }
    yield Caller(broker, secrets.pop("admin"), secrets)
    broker.kill()


@each([operation for operation in OPERATIONS if not operation.open])
def test_anonymous_requests_get_a_login_challenge(caller: Caller, operation: Operation) -> None:
    for secret in ("mom_unheard-of", ""):
        reply = caller.refused(operation.method, operation.path, secret=secret)
        assert reply.status == 401
        assert reply.headers["www-authenticate"]


@pytest.mark.parametrize("who", ["john", "a part of admin"])
@each([operation for operation in OPERATIONS if operation.administrative])
def test_administration_is_for_administrators(caller: Caller, operation: Operation, who: str) -> None:
    reply = caller.refused(operation.method, operation.path, b"{}", caller.others[who])
    assert reply.status == 403
    rights = {
        "/api/v1/journal/": "journal:read",
        "/api/v1/pipeline/cursors": "journal:read",
        "/api/v1/metrics": "metrics:read",
    }
    own = (right for path, right in rights.items() if operation.template.startswith(path))
    assert json.loads(reply.body)["right"] == next(own, "administer")


@pytest.mark.parametrize("template", sample(PATHS, len(PATHS) // 3))
def test_methods_that_are_not_described_are_not_possible(caller: Caller, template: str) -> None:
    described = {operation.method for operation in OPERATIONS if operation.template == template}
    # The settings of queues, topics and others may be written with the name in the query.
    unnamed = {"PUT", "PATCH", "DELETE"} if f"{template}/{{name}}" in PATHS else set()
    for method in set(METHODS) - described - unnamed:
        reply = caller.refused(method, PATHS[template], b"{}", content_type="application/json")
        assert reply.status == 405, (method, reply)
        assert described <= set(reply.headers["allow"].split(", "))
        assert method not in reply.headers["allow"].split(", ")


@each([operation for operation in OPERATIONS if "application/json" in operation.types])
def test_other_media_types_are_not_understood(caller: Caller, operation: Operation) -> None:
    reply = caller.refused(operation.method, operation.path, b"a,b", content_type="text/csv")
    assert reply.status == 415


@each([operation for operation in OPERATIONS if "application/json" in operation.types])
def test_the_error_of_an_invalid_body_names_the_field(caller: Caller, operation: Operation) -> None:
    for body in (b"5", b'"text"', b"{", b"[[", b"\xff", b'{"hue": "red"}', b'{"\\ud800": 1}'):
        reply = caller.refused(operation.method, operation.path, body, content_type="application/json")
        assert reply.status == 400, (body, reply)
        assert json.loads(reply.body)["errors"][0]["detail"]


BOUNDED = {"application/json", "*/*"}


@each([operation for operation in OPERATIONS if BOUNDED & set(operation.types)])
def test_bodies_are_bounded(caller: Caller, operation: Operation) -> None:
    too_long = b" " * (8 * 1024 * 1024 + 1)
    content_type = "application/json" if "application/json" in operation.types else "text/plain"
    reply = caller.refused(operation.method, operation.path, too_long, content_type=content_type)
    assert reply.status == 413, reply
    assert json.loads(reply.body)["limit"] < len(too_long)


@each([operation for operation in OPERATIONS if not operation.open])
def test_an_unknown_query_parameter_is_refused(caller: Caller, operation: Operation) -> None:
    path = f"{operation.path}?colour=red"
    reply = caller.refused(operation.method, path, b"{}", content_type="application/json")
    assert reply.status == 400
    assert json.loads(reply.body)["errors"][0]["pointer"] == "query/colour"
