"""A client that sends random and hostile requests for every operation of the interface, and checks only
what no answer may be."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.fuzz.rights import CANARY, SECRET
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient

#: how long an answer is read; streams have no end
READ_S = 0.3
MAX_READ = 4 * 1024 * 1024
#: names that a user may use; administrators leave what is secret alone
OPEN, ADMINS = ("open.a", "open.b", "open.c"), ("adm.a", "adm.b")
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

    def __init__(
        self, random: Random, user: str, password: str, known: list[Operation], *, is_admin: bool
    ) -> None:
        self._random = random
        self._known = known
        self._names = [*ADMINS, *OPEN] if is_admin else [*OPEN, SECRET, "adm.a", *WORDS]
        credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
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


class RestFuzz:
    """The requests of one user, one after the other. `answers` counts the answers with each status."""

    def __init__(
        self, broker: BrokerProcess, user: str, password: str, random: Random, known: list[Operation]
    ) -> None:
        self._broker = broker
        self._user = user
        self._is_admin = user == broker.user
        self._hostile = Hostile(random, user, password, known, is_admin=self._is_admin)
        self.answers: Counter[bytes] = Counter()
        self.broken: list[str] = []

    async def run(self) -> None:
        """Ask for ever, until an answer breaks a law."""
        while not self.broken:
            request = self._hostile.request()
            answer = await self._exchange(request)
            status = answer[9:12]
            self.answers[status] += 1
            if status.startswith(b"5") and status != b"503":
                self.broken.append(f"{self._user}: {answer[:500]!r} to {request[:2_000]!r}")
            if not self._is_admin and CANARY.encode() in answer:
                self.broken.append(f"{self._user} has read the canary by {request[:2_000]!r}")

    async def _exchange(self, request: bytes) -> bytes:
        """As much of the answer as comes within a while."""
        answer = b""
        try:
            reader, writer = await asyncio.open_connection(self._broker.host, self._broker.port)
        except OSError:  # the watch shows whether the broker is there
            await asyncio.sleep(READ_S)
            return answer
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
