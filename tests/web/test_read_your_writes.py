"""A created resource works with the very next request, on any plane, also on a busy machine.

In `make test` other tests keep the machine busy; in `make soak`, which has no others beside it, these do.
"""

from __future__ import annotations

import base64
import http.client
import os
import re
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import closing

import pytest

import mom_client
from mom_client import Refused
from tests.support.broker_process import BrokerProcess
from tests.support.chance import rounds
from tests.support.children import Child

PASSWORD = "correct horse battery"
ROUNDS = len(rounds(4, 100))


@pytest.fixture(scope="module", autouse=True)
def burners() -> Iterator[None]:
    """Keep the processors busy."""
    if "SOAK" not in os.environ:
        yield
        return
    spin = "while True: pass"
    burning = [Child([sys.executable, "-c", spin]) for _ in range(2)]
    yield
    for process in burning:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def john(broker: BrokerProcess) -> str:
    make(broker, "users/john", password=PASSWORD)
    return "john"


def make(broker: BrokerProcess, path: str, **said: object) -> None:
    reply = broker.request("PUT", f"/api/v1/{path}", json_body=said, if_none_match="*")
    assert reply.status == 201, reply.body


def basic(user: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()


def send(broker: BrokerProcess, authorization: str, queue: str = "a") -> int:
    return broker.request(
        "POST", f"/api/v1/queues/{queue}/messages", b"x", authorization=authorization
    ).status


async def stomp(broker: BrokerProcess, way: str, login: str, passcode: str, queue: str = "a") -> None:
    """Log in and send; raises Refused."""
    places = {"tcp": f"stomp://127.0.0.1:{broker.stomp_port}", "ws": f"ws://127.0.0.1:{broker.port}/ws"}
    async with mom_client.connect(places[way], login=login, passcode=passcode, reconnect=False) as mom:
        await mom.send(f"/queue/{queue}", b"x")


class Browser:
    """A session of the console."""

    def __init__(self, broker: BrokerProcess, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._cookies: dict[str, str] = {}
        self.get("/login/")
        self.post("/login/", username=broker.user, password=broker.password)

    def get(self, path: str) -> str:
        return self._ask("GET", path, None)

    def post(self, path: str, **fields: str) -> str:
        return self._ask("POST", path, {**fields, "csrfmiddlewaretoken": self._cookies["mom_csrf"]})

    def _ask(self, method: str, path: str, fields: dict[str, str] | None) -> str:
        cookie = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}
        body = urllib.parse.urlencode(fields) if fields else None
        self._connection.request(method, path, body, headers)
        reply = self._connection.getresponse()
        for name, value in reply.getheaders():
            if name.lower() == "set-cookie":
                key, _, rest = value.partition("=")
                self._cookies[key] = rest.partition(";")[0]
        text = reply.read().decode()
        assert reply.status < 400, text
        return text


async def test_a_token_made_in_the_console_works_at_once_on_all_planes(broker: BrokerProcess) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", broker.port, timeout=60)) as connection:
        await make_tokens(broker, Browser(broker, connection))


async def make_tokens(broker: BrokerProcess, browser: Browser) -> None:
    form = {"limited": "yes", "grants": "1", "grant0-rights": "send", "grant0-destinations": "/queue/a"}
    form |= {"expires": "90"}
    for number in range(ROUNDS):
        page = browser.post("/console/tokens/add", name=f"console {number}", **form)
        found = re.search(r"mom_[\w-]{30,}", page)
        assert found is not None, page
        secret = found[0]
        if number % 4 == 0:
            assert send(broker, f"Bearer {secret}") == 201
        elif number % 4 == 1:
            await stomp(broker, "tcp", "token", secret)
        elif number % 4 == 2:
            await stomp(broker, "ws", "token", secret)
        else:
            shown = broker.request("GET", "/api/v1/tokens", authorization=f"Bearer {secret}")
            assert shown.status == 200
        assert send(broker, f"Bearer {secret}", "others") == 403


async def test_a_token_made_over_http_works_at_once_and_not_after_it_was_revoked(
    broker: BrokerProcess,
) -> None:
    for number in range(ROUNDS):
        name = f"http{number}"
        made = broker.request("POST", "/api/v1/tokens", json_body={"name": name}).json()
        assert send(broker, f"Bearer {made['token']}") == 201
        ended = broker.request("DELETE", f"/api/v1/tokens/{made['id']}", if_match="*")
        assert ended.status == 204
        assert send(broker, f"Bearer {made['token']}") == 401


async def test_a_user_and_a_new_password_work_at_once(broker: BrokerProcess) -> None:
    for number in range(ROUNDS // 4):
        make(broker, f"users/u{number}", password=PASSWORD)
        await stomp(broker, "tcp", f"u{number}", PASSWORD)
        change = {"password": "another good password"}
        changed = broker.request("PATCH", f"/api/v1/users/u{number}", json_body=change, if_match="*")
        assert changed.status == 200
        assert send(broker, basic(f"u{number}")) == 401


async def test_a_rule_holds_at_once_and_so_does_its_end(broker: BrokerProcess, john: str) -> None:
    for number in range(ROUNDS):
        queue = f"q{number}"
        denies = {"effect": "deny", "conditions": f"/event/queue == {queue}", "users": [john]}
        make(broker, f"rules/r{number}", **denies)
        assert send(broker, basic(john), queue) == 403
        if number % 4 == 0:
            with pytest.raises(Refused):
                await stomp(broker, "tcp", john, PASSWORD, queue)
        allows = broker.request(
            "PATCH", f"/api/v1/rules/r{number}", json_body={"effect": "allow"}, if_match="*"
        )
        assert allows.status == 200
        assert send(broker, basic(john), queue) == 201
        assert broker.request("DELETE", f"/api/v1/rules/r{number}", if_match="*").status == 204


async def test_a_setting_of_a_queue_holds_at_once(broker: BrokerProcess) -> None:
    admin = "Basic " + base64.b64encode(f"{broker.user}:{broker.password}".encode()).decode()
    for number in range(ROUNDS):
        queue = f"short{number}"
        limits = {"max_messages": 1, "limit_behavior": "REJECT_NEWEST"}
        make(broker, f"queues/{queue}", **limits)
        assert send(broker, admin, queue) == 201
        assert send(broker, admin, queue) != 201
