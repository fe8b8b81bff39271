"""Random and hostile requests for every operation of the interface, by four users of different rights at
once, against a real broker.

The broker must stay up and answer nothing with 5xx but 503. Its loop must never be held up for long, its
memory stay bounded, and no client reads or changes what it has no right to. STORM_SEED repeats a run,
FUZZ_SECONDS makes it longer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.fuzz.broker_watch import SEED, Watch
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.patience import patient

pytestmark = [pytest.mark.fuzz, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(0)]

SECONDS = patient(float(os.environ.get("FUZZ_SECONDS", "3")))
#: how long an answer is read; streams have no end
READ_S = 0.3
MAX_READ = 4 * 1024 * 1024

PASSWORD = "correct horse battery"
CANARY = "what only the administrator may read"
SECRET = "secret.queue"
#: names that a user may use; administrators leave what is secret alone
OPEN, ADMINS = ("open.a", "open.b", "open.c"), ("adm.a", "adm.b")
#: what four users may: everything, send and receive in `open.`, look at it, and nothing
USERS = ("admin", "worker", "viewer", "nobody")
RULES = {
    "worker": "/event/queue =~ open\\..* || /event/topic =~ open\\..*",
    "viewer": "(/event/queue =~ open\\..* || /event/topic =~ open\\..*) && /event/method == GET",
}
#: what would take from under the run what it stands on
LEFT_OUT = ("users", "rules", "definitions", "groups", "tokens", "files", "config")

STARS = ["*", "a*" * 8, "a*" * 40 + "!", "*" * 5_000, "**", "%*", "?" * 300]
BOMBS = ["(a+)+$", "(a|a)*b" * 20, "x" * 50_000, "%_" * 120 + "b", "((((((((((a*)*)*)*)*)*)*)*)*)*"]
WORDS = [
    "",
    " ",
    "\0",
    "é",
    "ß" * 200,
    "İ" * 100,
    "\ud83d\ude00",
    "\u202e",
    "%00",
    "../..",
    "a/b",
    "$mom.x",
    ">",
]
NUMBERS = [
    "0",
    "-1",
    "1e308",
    "9" * 400,
    "NaN",
    "Infinity",
    "0x10",
    "1.5",
    "2147483648",
    "18446744073709551616",
]
SELECTORS = [
    "a = 'b'",
    "a LIKE '" + "%_a" * 80 + "'",
    "a IN (" + ",".join(f"'{n}'" for n in range(900)) + ")",
    "(" * 200 + "a" + ")" * 200,
    "NOT " * 500 + "a",
    " AND ".join(["a LIKE '%_aaaaaaaaaaaaaaaaaaaaaaaaab%'"] * 30),
]
QUERIES = [
    "reason:x header.a:b",
    '"' * 2_000,
    "header.a:" * 500,
    'a:"' * 500,
    "age_gt_s:nan",
    "q:" + "x" * 3_000,
]


class Operation(NamedTuple):
    method: str
    path: str
    parameters: list[dict[str, Any]]
    takes_body: bool


def operations(document: dict[str, Any]) -> list[Operation]:
    """Those of an OpenAPI document, but for those that are left out."""
    found = []
    for path, item in document["paths"].items():
        if path.removeprefix("/api/v1").strip("/").split("/")[0] in LEFT_OUT:
            continue
        shared = item.get("parameters", [])
        for method, said in item.items():
            if method in ("get", "put", "post", "patch", "delete", "head", "options"):
                parameters = [*shared, *said.get("parameters", [])]
                parameters = [one for one in parameters if "name" in one]
                found.append(Operation(method.upper(), path, parameters, "requestBody" in said))
    return found


class Hostile:
    """Requests of one user, drawn from a seed."""

    def __init__(self, random: random.Random, user: str, known: list[Operation]) -> None:
        self._random = random
        self._known = known
        self._names = [*ADMINS, *OPEN] if user == "admin" else [*OPEN, SECRET, "adm.a", *WORDS]
        credentials = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
        self._login = f"authorization: Basic {credentials}\r\n"

    def request(self) -> bytes:
        """A whole request, as it goes over the wire."""
        pick = self._random
        operation = pick.choice(self._known)
        path, query = operation.path, []
        for parameter in operation.parameters:
            name = parameter["name"]
            if parameter["in"] == "path":
                path = path.replace("{" + name + "}", quote(self._name(), safe=""))
            elif parameter["in"] == "query" and pick.random() < 0.4:
                query += [(name, self._value(parameter)) for _ in range(pick.choice([1, 1, 1, 1, 1, 2, 30]))]
        while "{" in path:  # a parameter that is not described
            path = path[: path.index("{")] + quote(self._name(), safe="") + path[path.index("}") + 1 :]
        if pick.random() < 0.05:
            query += [("x" * pick.randint(1, 3_000), "y")] * pick.randint(1, 200)
        said = "&".join(f"{quote(name)}={quote(self._text(value))}" for name, value in query)
        head = f"{operation.method} {path}{'?' if said else ''}{said} HTTP/1.1\r\nhost: localhost\r\n"
        head += f"connection: close\r\n{self._login}"
        body = self._body() if operation.takes_body or pick.random() < 0.1 else b""
        head += "".join(f"{name}: {value}\r\n" for name, value in self._headers(bool(body)))
        return head.encode("latin-1", "replace") + f"content-length: {len(body)}\r\n\r\n".encode() + body

    def _name(self) -> str:
        return self._text(self._random.choice(self._names))

    def _text(self, text: str) -> str:
        return text.encode("utf-8", "replace").decode()

    def _value(self, parameter: dict[str, Any]) -> str:
        pick = self._random
        schema = parameter.get("schema", {})
        choice = pick.random()
        if choice < 0.2 and schema.get("enum"):
            return str(pick.choice(schema["enum"]))
        if choice < 0.4 and schema.get("type") in ("integer", "number"):
            return str(pick.randint(0, 500))
        if parameter["name"] in ("selector", "where", "filter") and choice < 0.8:
            return pick.choice(SELECTORS + QUERIES)
        if parameter["name"] in ("queue", "topic", "name", "destinations"):
            return self._name()
        return pick.choice([*STARS, *BOMBS, *WORDS, *NUMBERS, *SELECTORS, *QUERIES, "name," * 3_000, "true"])

    def _headers(self, body: bool) -> Iterator[tuple[str, str]]:
        pick = self._random
        if body:
            kinds = ["application/json", "application/x-ndjson", "text/plain", "application/merge-patch+json"]
            kinds += ["application/cloudevents+json", "application/cloudevents-batch+json", "a/b;" * 50]
            yield "content-type", pick.choice(kinds)
        for name in (
            "mom-priority",
            "mom-expires",
            "mom-delay",
            "idempotency-key",
            "range",
            "if-match",
            "mom-h",
        ):
            if pick.random() < 0.1:
                value = pick.choice([*NUMBERS, "a" * 5_000, "bytes=0-" + "9" * 30, "*"])
                yield name, value
        if pick.random() < 0.02:
            yield from ((f"mom-header-h{n}", "v" * 100) for n in range(pick.randint(1, 250)))

    def _body(self) -> bytes:
        pick = self._random
        kind = pick.random()
        if kind < 0.1:
            return b"[" * pick.randint(1, 100_000)
        if kind < 0.2:
            return b'{"a":' * pick.randint(1, 50_000) + b"1" + b"}" * 10
        if kind < 0.3:
            return pick.randbytes(pick.randint(0, 200_000))
        if kind < 0.4:
            return b"[" + b",".join([b'{"body":"x","headers":{"a":"b"}}'] * pick.randint(1, 2_000)) + b"]"
        return json.dumps(self._json(3)).encode()

    def _json(self, depth: int) -> Any:
        pick = self._random
        names = (
            "op source target filter limit rate_per_s body headers reason receipts ids lease_s max credit ack"
        )
        names += " selector q where wait_s within_s name atomic persistent expires priority delay_s"
        leaf: list[Any] = [
            *STARS,
            *BOMBS,
            *WORDS,
            *SELECTORS,
            *QUERIES,
            *self._names,
            10**400,
            -1,
            0.5,
            None,
            True,
            [],
            "move",
        ]
        if depth == 0 or pick.random() < 0.3:
            value = pick.choice(leaf)
            return self._text(value) if isinstance(value, str) else value
        if pick.random() < 0.2:
            return [self._json(depth - 1) for _ in range(pick.randint(0, 20))]
        return {pick.choice(names.split()): self._json(depth - 1) for _ in range(pick.randint(0, 8))}


class Attack:
    """The requests of all users against one broker, and what is wrong with the answers."""

    def __init__(self, broker: BrokerProcess, known: list[Operation]) -> None:
        self.broker = broker
        self.known = known
        #: how many answers had each status
        self.answers: Counter[bytes] = Counter()
        self.faults: list[str] = []

    async def run(self, user: str) -> None:
        """One request after the other, until the time is over."""
        hostile = Hostile(random.Random(f"{SEED} {user}"), user, self.known)
        loop = asyncio.get_running_loop()
        ends = loop.time() + SECONDS
        while loop.time() < ends and not self.faults:
            request = hostile.request()
            answer = await self._exchange(request)
            status = answer[9:12]
            self.answers[status] += 1
            if status.startswith(b"5") and status != b"503":
                self.faults.append(f"{user}: {answer[:500]!r} to {request[:2_000]!r}")
            if user != "admin" and CANARY.encode() in answer:
                self.faults.append(f"{user} has read the canary by {request[:2_000]!r}")

    async def _exchange(self, request: bytes) -> bytes:
        """As much of the answer as comes within a while."""
        answer = b""
        reader, writer = await asyncio.open_connection(self.broker.host, self.broker.port)
        try:
            writer.write(request)
            async with asyncio.timeout(patient(30)):
                answer = await reader.read(65536)
            async with asyncio.timeout(READ_S):
                while len(answer) < MAX_READ and (part := await reader.read(65536)):
                    answer += part
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()
        return answer


def prepare(broker: BrokerProcess) -> None:
    """Users, rules, and something that is secret."""
    for user in USERS[1:]:
        made = broker.request(
            "PUT", f"/api/v1/users/{user}", json_body={"password": PASSWORD}, if_none_match="*"
        )
        assert made.status == 201, made.body
    for position, (user, conditions) in enumerate(RULES.items(), 1):
        said = {"conditions": conditions, "users": [user], "position": position}
        made = broker.request("PUT", f"/api/v1/rules/{user}", json_body=said, if_none_match="*")
        assert made.status == 201, made.body
    for name in (SECRET, "open.a", "open.b"):
        body = CANARY if name == SECRET else "a" * 100
        messages = [{"body": f"{body} {number}", "headers": {"h": "a" * 1_000}} for number in range(100)]
        sent = broker.request("POST", f"/api/v1/queues/{name}/messages/batch", json_body=messages)
        assert sent.status == 200, sent.body


async def test_hostile_requests_neither_stop_nor_stall_the_broker_nor_go_beyond_rights(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(environment={"MOM_ADMIN_PASSWORD": PASSWORD, "MOM_FULL_WAIT": "1"})
    broker.password = PASSWORD
    prepare(broker)
    known = operations(broker.request("GET", "/api/v1/openapi.json").json())
    assert len(known) > 80
    attack, watch = Attack(broker, known), Watch(broker)
    watching = asyncio.create_task(watch.look())
    attacks = [asyncio.create_task(attack.run(user)) for user in USERS for _ in range(2)]
    await asyncio.wait(attacks, return_when=asyncio.FIRST_EXCEPTION, timeout=SECONDS + 120)
    for task in (watching, *attacks):
        task.cancel()
    results = await asyncio.gather(watching, *attacks, return_exceptions=True)
    problems = [result for result in results if isinstance(result, Exception)]
    print(f"{dict(attack.answers)}; {watch.worst}")
    assert [*problems, *watch.broken, *attack.faults] == []
    assert attack.answers[b"200"], "some requests are right"
    names = {row["name"] for row in broker.request("GET", "/api/v1/queues?limit=500").json()["items"]}
    strange = {name for name in names if not name.startswith(("open.", "adm.", "secret.", "DLQ", "$seed"))}
    assert not strange, "made without a right"
    secret = broker.request("GET", f"/api/v1/queues/{SECRET}").json()
    assert (secret["depth"], secret["unsettled"]) == (100, 0)
