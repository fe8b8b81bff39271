"""Inputs that Django gets: forms of the console, and resources, from the ordinary user where one may and from
the administrator elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx

from tests.laws.attacks.senders import (
    CONNECT,
    MIB,
    PASSWORD,
    USER,
    Attack,
    Attacks,
    Broker,
    client,
    filled,
    over_tcp,
)
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient

#: the name of the administrator
ADMIN = BrokerProcess.user
SENDS = filled(lambda n: b"SEND\ndestination:/queue/a\n\n{}\0")
#: types of forms, and the part of one
FIELDS, PARTS = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
PART = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n'
FORM = "/console/tokens/add"
#: what fits into a body of the control plane
ALMOST = MIB - 1_000
#: a condition about as long as one may be
CONDITION = " || ".join(f"/event/queue == orders.{n:04}" for n in range(260))


def asked(method: str, path: str, content: Callable[[], object], user: str = ADMIN) -> Attack:
    """One request with JSON."""

    async def attack(broker: Broker) -> str:
        return await _ask(broker, method, path, content(), user)

    return attack


async def _ask(broker: Broker, method: str, path: str, content: object, user: str = ADMIN) -> str:
    async with client(broker, user) as http:
        known = {"if-match": "*"} if path == "/definitions" else {}
        reply = await http.request(method, path, json=content, headers=known)
        assert reply.status_code < 500, reply.text
        return f"{reply.status_code} {reply.text[:60]}"


def defined(**kinds: dict[str, object]) -> dict[str, object]:
    """A document of definitions."""
    return {"mom_definitions": 1, **kinds}


def rules() -> dict[str, object]:
    """1 MiB of rules, the last of which gives the user its rights."""
    count = MIB // len(CONDITION)
    found = {f"r{n}": {"conditions": CONDITION, "users": [USER], "position": n + 1} for n in range(count)}
    return {**found, "last": {"conditions": "", "users": [USER], "position": count + 1}}


async def send_under_rules(broker: Broker) -> str:
    came = await _ask(broker, "POST", "/definitions", defined(rules=rules()))
    return f"{came[:3]} {await over_tcp(broker, SENDS)}"


async def send_with_grants(broker: Broker) -> str:
    """Send with a token whose grants are 1 MiB."""
    grants = [{"rights": ["send"], "destinations": [f"/queue/b{n:0100}" for n in range(MIB // 120)]}]
    grants[0]["destinations"].append("/queue/a")
    async with client(broker) as http:
        reply = await http.post("/tokens", json={"name": "t", "grants": grants})
    if reply.status_code != 201:
        return f"{reply.status_code} {reply.text[:60]}"
    token = reply.json()["token"].encode()
    connect = CONNECT.replace(b"login:ann\npasscode:pw-of-ann-9", b"login:token\npasscode:" + token)
    return await over_tcp(broker, SENDS, connect)


async def send_through_reflexes(broker: Broker) -> str:
    """Send small messages, and one of 1 MiB, through functions of which one runs in a process."""
    kind = {"kind": "arrival", "time_limit_s": 60}  # which a busy machine keeps
    declared = {
        "headers": {**kind, "library": "mom", "function": "set_headers", "options": {"set": {"x": "y"}}},
        "schema": {**kind, "library": "mom-schema", "function": "check_schema", "options": {"schema": {}}},
    }
    came = [await _ask(broker, "PUT", f"/reflexes/{name}", spec) for name, spec in declared.items()]
    large = b"SEND\ndestination:/queue/a\n\n[%b1]\0" % (b"1," * (MIB // 2))
    return f"{[one[:60] for one in came]} {await over_tcp(broker, SENDS)} {await over_tcp(broker, large)}"


def form(
    path: str, body: Callable[[], bytes], content_type: str = "application/x-www-form-urlencoded"
) -> Attack:
    """A form of 1 MiB of a user who is logged in to the console."""

    async def attack(broker: Broker) -> str:
        async with httpx.AsyncClient(base_url=broker.url, timeout=patient(60)) as http:
            await http.get("/login/")
            login = {"username": USER, "password": PASSWORD, "csrfmiddlewaretoken": http.cookies["mom_csrf"]}
            entered = await http.post("/login/", data=login)
            assert entered.status_code == 302, entered.text
            headers = {"content-type": content_type, "x-csrftoken": http.cookies["mom_csrf"]}
            reply = await http.post(path, content=body(), headers=headers)
            assert reply.status_code < 500, reply.text
            return f"{reply.status_code} {len(reply.content)} bytes"

    return attack


PAGES: Attacks = {
    ("console", "a form with one field"): form(FORM, lambda: b"name=" + b"x" * ALMOST),
    ("console", "a form of fields"): form(FORM, lambda: b"a=&" * (ALMOST // 3)),
    ("console", "a form of escapes"): form(FORM, lambda: b"name=" + b"%41" * (ALMOST // 3)),
    ("console", "a form of parts"): form(FORM, lambda: PART * (ALMOST // len(PART)) + b"--b--\r\n", PARTS),
    ("console", "a form of a part"): form(FORM, lambda: PART[:-3] + b"x" * ALMOST + b"\r\n--b--\r\n", PARTS),
    ("console", "the login"): form("/login/", lambda: b"username=" + b"x" * ALMOST + b"&password=x"),
    ("control plane", "a token with grants"): asked(
        "POST",
        "/tokens",
        lambda: {
            "name": "t",
            "grants": [{"rights": ["send"], "destinations": ["/queue/a"]}] * (ALMOST // 60),
        },
        USER,
    ),
    ("control plane", "SEND with a token of many grants"): send_with_grants,
    ("control plane", "a callback with headers"): asked(
        "PUT",
        "/callbacks/x",
        lambda: {
            "queue": "a",
            "url": "https://h.example",
            "headers": {f"h{n}": "x" for n in range(ALMOST // 16)},
        },
        USER,
    ),
    ("control plane", "nesting"): asked("POST", "/tokens", lambda: {"name": _nested(900)}, USER),
    ("control plane", "what users may not"): asked(
        "POST", "/definitions", lambda: defined(queues={"a": {}}, x={"x": "x" * ALMOST}), USER
    ),
    ("rules", "a condition"): asked("PUT", "/rules/a", lambda: {"conditions": "a == b || " * (ALMOST // 10)}),
    ("rules", "1 MiB, and SEND"): send_under_rules,
    ("rules", "explain"): asked(
        "GET", "/explain?user=ann&action=POST&destination=queue:" + "a." * 1_000, lambda: None
    ),
    ("reflexes", "a declaration"): asked(
        "PUT",
        "/reflexes/a",
        lambda: {"kind": "arrival", "library": "mom", "function": "audit", "options": {"x": "x" * ALMOST}},
    ),
    ("reflexes", "a trial"): asked("POST", "/reflex-test", lambda: {"service": "a", "body": "x" * ALMOST}),
    ("reflexes", "SEND"): send_through_reflexes,
    ("import", "rules"): asked("POST", "/definitions", lambda: defined(rules=rules())),
    ("import", "settings of destinations"): asked(
        "POST",
        "/definitions",
        lambda: defined(destinations={f"/queue/q{n}": {"max_messages": n + 1} for n in range(ALMOST // 40)}),
    ),
    ("import", "nesting"): asked("POST", "/definitions", lambda: defined(rules={"a": _nested(900)})),
    ("import", "a plan"): asked("POST", "/definitions/plan", lambda: defined(rules=rules())),
    ("import", "a zero.config"): asked(
        "POST", "/config/check", lambda: {"text": "/config/mom/a = 1\n" * (ALMOST // 20)}
    ),
    ("import", "a nested zero.config"): asked(
        "POST", "/config/check", lambda: {"text": "/a = " + "[" * ALMOST}
    ),
}


def _nested(depth: int) -> object:
    found: object = 1
    for _ in range(depth):
        found = [found]
    return found


def prepare(broker: BrokerProcess) -> None:
    """Make the ordinary user."""
    document = {"password": PASSWORD}
    made = broker.request("PUT", f"/api/v1/users/{USER}", json_body=document, if_none_match="*")
    assert made.status == 201, json.dumps(str(made.body))
