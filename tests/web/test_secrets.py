"""Secrets are seen where they are needed, and nowhere else: a whole broker is driven and then searched."""

from __future__ import annotations

import base64
import http.client
import os
import re
import socket
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_app.net.rest import openapi
from broker_app.web import api
from tests.cli.conftest import CommandLine
from tests.support.authority import Authority
from tests.support.broker_process import BrokerProcess, Reply
from tests.support.polling import poll

pytestmark = pytest.mark.process

#: what a user typed, received, or set; by what it is
SECRETS = {
    name: f"sekret-{number}-{name.replace(' ', '-')}-7f3a"
    for number, name in enumerate(
        (
            "administrator's password", "key password", "client secret", "user's password", "next password",
            "short", "wrong password", "bridge password", "second bridge password", "bearer", "misspelt",
            "of a wrong type", "in a definition", "stomp passcode", "idempotency",
            "authorization of a callback",
        ),
        start=10,
    )
}  # fmt: skip
#: so many queries of a page of the console are read; `make soak` follows the links to more of them
LOOKS = 150 if "SOAK" in os.environ else 2
DOCUMENT = openapi.document(api.document())


class Driven:
    """A broker through which all secrets went, and everything that it has answered since."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        #: secrets that the broker has made up
        self.made: dict[str, str] = {}
        self.replies: list[tuple[str, bytes]] = []

    @property
    def secrets(self) -> dict[str, str]:
        return {**SECRETS, **self.made}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        reply = self.broker.request(method, f"/api/v1/{path}", None, json_body=body, **headers)
        self.replies.append((f"{method} {path} → {reply.status}", repr(reply.headers).encode() + reply.body))
        return reply

    def told(self, text: str | bytes) -> list[str]:
        """The secrets that a text contains, as they are or in base64."""
        data = text.encode() if isinstance(text, str) else text
        return [
            name
            for name, secret in self.secrets.items()
            if secret.encode() in data or base64.b64encode(secret.encode()).rstrip(b"=")[:-1] in data
        ]


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    folder = tmp_path_factory.mktemp("secrets")
    authority = Authority(folder)
    settings = authority.server(password=SECRETS["key password"])
    environment = {
        "MOM_ADMIN_PASSWORD": SECRETS["administrator's password"],
        "MOM_TLS_CERT": str(settings["tls_cert"]),
        "MOM_TLS_KEY": str(settings["tls_key"]),
        "MOM_TLS_KEY_PASSWORD": SECRETS["key password"],
        "MOM_OIDC_ISSUER": "http://127.0.0.1:1/nobody",
        "MOM_OIDC_CLIENT_ID": "console",
        "MOM_OIDC_CLIENT_SECRET": SECRETS["client secret"],
        "MOM_LOG_LEVEL": "debug",
    }
    broker = BrokerProcess(
        folder / "data", environment=environment, tls=authority.trusted(), program=subprocess.Popen
    )
    broker.password = SECRETS["administrator's password"]
    broker.start()
    found = Driven(broker)
    try:
        drive(found)
        yield found
    finally:
        broker.kill()


def drive(driven: Driven) -> None:
    """Every secret goes the way that it should, and some that it should not."""
    change_users(driven)
    make_tokens(driven)
    change_bridges(driven)
    change_callbacks(driven)
    send_what_is_wrong(driven)
    talk_stomp(driven)
    log_in(driven)


def change_users(driven: Driven) -> None:
    ask = driven.ask
    assert ask("PUT", "users/jane", {"password": SECRETS["user's password"]}).status == 201
    assert ask("PATCH", "users/jane", {"password": SECRETS["next password"]}, if_match="*").status == 200
    assert ask("PATCH", "users/jane", {"password": SECRETS["short"][:5]}, if_match="*").status == 400
    assert ask("GET", "users", authorization=basic("jane", SECRETS["wrong password"])).status == 401
    assert ask("GET", "tokens", authorization=basic("jane", SECRETS["next password"])).status == 200
    assert ask("PUT", "users/jim?dry_run=true", {"password": SECRETS["user's password"]}).status == 200


def make_tokens(driven: Driven) -> None:
    key = {"idempotency_key": SECRETS["idempotency"]}
    made = driven.broker.request("POST", "/api/v1/tokens", None, json_body={"name": "laptop"}, **key)
    assert made.status == 201, made.body
    driven.made["token"] = made.json()["token"]
    assert driven.ask("POST", "tokens", {"name": "laptop"}, **key).status in (200, 201, 409)
    assert driven.ask("GET", "tokens", authorization=f"Bearer {driven.made['token']}").status == 200
    assert driven.ask("GET", "tokens", authorization=f"Bearer mom_{SECRETS['bearer']}").status == 401
    assert driven.ask("GET", "queues", authorization=f"Bearer mom_{SECRETS['bearer']}").status == 401


def change_callbacks(driven: Driven) -> None:
    said = {"name": "hook", "url": "https://hooks.example/a", "queue": "a"}
    said["authorization"] = f"Bearer {SECRETS['authorization of a callback']}"
    made = driven.broker.request("POST", "/api/v1/callbacks", None, json_body=said)
    assert made.status == 201, made.body
    driven.made["callback secret"] = made.json()["secret"]
    rotated = driven.broker.request("POST", "/api/v1/callbacks/hook/rotate", None)
    assert rotated.status == 201, rotated.body
    driven.made["rotated secret"] = rotated.json()["secret"]
    assert driven.ask("PATCH", "callbacks/hook", {"comment": "x"}, if_match="*").status == 200
    assert driven.ask("POST", "callbacks/hook/test").status == 200


def change_bridges(driven: Driven) -> None:
    ask, said = driven.ask, {"hostname": "far.example", "user": "mom"}
    assert ask("PUT", "bridges/far", {**said, "password": SECRETS["bridge password"]}).status == 201
    change = {"port": 61614, "password": SECRETS["second bridge password"]}
    assert ask("PATCH", "bridges/far", change, if_match="*").status == 200
    assert ask("PATCH", "bridges/far?dry_run=true", change, if_match="*").status == 200
    version = ask("GET", "config/versions?limit=1").json()["items"][0]["version"]
    assert ask("POST", "config/rollback", {"to": version - 1}, if_match="*").status == 200
    assert ask("DELETE", "bridges/far", if_match="*").status == 204
    assert ask("POST", "config/rollback", {"to": version}, if_match="*").status == 200
    assert ask("PATCH", "bridges/far", change, if_match="*").status == 200


def send_what_is_wrong(driven: Driven) -> None:
    wrong = SECRETS["of a wrong type"]
    for path, body in (
        ("users/joe", {"password": [wrong]}),
        ("users/joe", {"password": {"is": wrong}}),
        ("users/joe", {"pasword": SECRETS["misspelt"]}),
        ("bridges/near", {"hostname": "near", "password": [wrong]}),
        ("bridges/near", {"hostname": "near", "pass": SECRETS["misspelt"]}),
    ):
        assert driven.ask("PUT", path, body).status == 400
    secret = SECRETS["in a definition"]
    for text in (
        {"mom_definitions": 1, "users": {"joe": {"password": secret}}},
        {"mom_definitions": 1, "bridges": {"near": {"hostname": "near", "password": secret}}},
        {"mom_definitions": 1, "tokens": {"joe/x": {"digest": secret}}},
    ):
        assert driven.ask("POST", "definitions/plan", text).status == 400
        assert driven.ask("POST", "definitions", text, if_match="*").status == 400


def talk_stomp(driven: Driven) -> None:
    broker = driven.broker
    for passcode in (SECRETS["next password"], SECRETS["stomp passcode"]):
        with socket.create_connection((broker.host, broker.stomp_port), timeout=10) as stomp:
            stomp.sendall(
                f"CONNECT\naccept-version:1.2\nhost:/\nlogin:jane\npasscode:{passcode}\n\n\0".encode()
            )
            answer = b""
            while b"\0" not in answer:
                answer += stomp.recv(65536)
            driven.replies.append(("STOMP CONNECT", answer))


def log_in(driven: Driven) -> None:
    """One-time links, of which two were not used yet, and the form."""
    used, unused, _ = links = driven.broker.login_links(3)
    names = ("used link", "unused link", "link for the pages")
    driven.made |= {name: link.rsplit("/", 1)[1] for name, link in zip(names, links, strict=True)}
    for link, purpose in ((used, ""), (used, ""), (unused, "prefetch")):
        path = link.removeprefix(driven.broker.url)
        reply = driven.broker.request("GET", path, authorization="", sec_purpose=purpose)
        driven.replies.append((f"GET {path[:12]} → {reply.status}", reply.body))
    for password in (SECRETS["wrong password"], SECRETS["next password"]):
        page = driven.broker.request("GET", "/login/", authorization="")
        token = re.search(rb'name="csrfmiddlewaretoken" value="(\w+)"', page.body)
        cookie = re.search(r"mom_csrf=\w+", str(page.headers))
        assert token is not None and cookie is not None
        form = f"csrfmiddlewaretoken={token[1].decode()}&username=jane&password={password}"
        reply = driven.broker.request(
            "POST", "/login/", form.encode(), authorization="", cookie=cookie[0], referer=driven.broker.url,
            content_type="application/x-www-form-urlencoded",
        )  # fmt: skip
        driven.replies.append((f"POST /login/ → {reply.status}", reply.body))


# ---------------------------------------------------------------------- where they are not


def test_no_response_contains_a_secret(driven: Driven) -> None:
    assert {about: told for about, answer in driven.replies if (told := driven.told(answer))} == {}


def test_no_readable_resource_contains_a_secret(driven: Driven) -> None:
    newest = driven.ask("GET", "config/versions?limit=1").json()["items"][0]["version"]
    values = {
        "/users/{name}": "jane", "/groups/{name}": "none", "/bridges/{name}": "far", "/rules/{name}": "none",
        "/brokers/{name}": "none", "/tokens/{name}": "1",
    }  # fmt: skip
    driven.replies.clear()
    for path, methods in DOCUMENT["paths"].items():
        if "get" in methods and not path.endswith(("/stream", "/events", "/tail")):
            name = next((value for end, value in values.items() if path.endswith(end)), "1")
            driven.ask("GET", re.sub(r"\{\w+\}", name, path.removeprefix("/api/v1/")))
    for version in range(1, newest + 1):
        driven.ask("GET", f"config/versions/{version}")
        driven.ask("GET", f"config/versions/0/diff/{version}")
    driven.ask("GET", "definitions", accept="application/yaml")
    driven.ask("GET", "audit", accept="application/x-ndjson")
    assert len(driven.replies) > 50
    assert sum("→ 200" in about for about, _ in driven.replies) > 40
    test_no_response_contains_a_secret(driven)


def test_pages_of_the_console_contain_no_secret(driven: Driven) -> None:
    cookie = session_of(driven, f"{driven.broker.url}/login/once/{driven.made['link for the pages']}")
    driven.replies.clear()
    seen: set[str] = set()
    looks: Counter[str] = Counter()  # of one page, which has links to many of its own
    wanted = ["/console/", "/admin/"]
    while wanted and len(seen) < 150:
        path = wanted.pop()
        page = path.partition("?")[0]
        if path in seen or looks[page] == LOOKS:
            continue
        seen.add(path)
        looks[page] += 1
        reply = driven.broker.request("GET", path, authorization="", cookie=cookie)
        driven.replies.append((f"GET {path} → {reply.status}", reply.body))
        found = re.findall(rb'href="(/(?:console|admin)/[^"#]*)"', reply.body)
        wanted += [link.decode().replace("&amp;", "&") for link in found]
    assert len(looks) > 20
    test_no_response_contains_a_secret(driven)


def session_of(driven: Driven, link: str) -> str:
    """The cookie of the session that a one-time link begins."""
    assert driven.broker.tls is not None
    connection = http.client.HTTPSConnection(
        driven.broker.host, driven.broker.port, timeout=30, context=driven.broker.tls
    )
    connection.request("GET", link.removeprefix(driven.broker.url))
    cookies = connection.getresponse().headers.get_all("set-cookie") or []
    connection.close()
    found = re.search(r"mom_session=\w+", "; ".join(cookies))
    assert found is not None
    return found[0]


def test_output_of_the_command_line_contains_no_secret(driven: Driven, tmp_path: Path) -> None:
    mom = CommandLine(tmp_path)
    broker = driven.broker
    mom.environment |= {
        "MOM_URL": broker.url,
        "MOM_TOKEN": driven.made["token"],
        "SSL_CERT_FILE": str(broker.data.parent / "ca.pem"),
    }
    for command in (
        ("config", "show", "--sources", "-o", "json"), ("config", "history"), ("config", "diff", "0", "1"),
        ("definitions", "export"), ("audit", "export"), ("user", "ls"), ("bridge", "show", "far"),
    ):  # fmt: skip
        done = mom(*command)
        assert done.code == 0, done.err
        assert driven.told(done.out + done.err) == [], command


def test_the_log_contains_no_secret(driven: Driven) -> None:
    log = driven.broker.log
    # The output for the user who starts a broker: a link, which is none of those here.
    assert "MOM is ready" in log and "/login/once/…" in log
    assert driven.told(log) == []


def test_the_process_list_contains_no_secret(driven: Driven) -> None:
    arguments = subprocess.run(["ps", "-eo", "args", "-ww"], check=True, capture_output=True).stdout
    assert b"manage.py broker" in arguments
    assert driven.told(arguments) == []


def test_the_files_of_the_broker_hold_no_secret_but_what_it_must_know(driven: Driven) -> None:
    for path in driven.broker.data.rglob("*"):
        if path.is_file() and not path.name.startswith("config.sqlite3"):
            assert driven.told(path.read_bytes()) == [], path
    database = sqlite3.connect(f"file:{driven.broker.data / 'config.sqlite3'}?mode=ro", uri=True)
    found = set()
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        rows = database.execute(f'SELECT * FROM "{table}"')
        columns = [column[0] for column in rows.description]
        for row in rows:
            for column, value in zip(columns, row, strict=True):
                text = value if isinstance(value, bytes) else str(value).encode()
                found |= {(table, column, name) for name in driven.told(text)}
    database.close()
    for path in driven.broker.data.glob("config.sqlite3*"):  # pages that were given back, and the log
        assert set(driven.told(path.read_bytes())) <= {"idempotency"}, path
    assert found == {
        # A client names its own request.
        ("broker_app_keptanswer", "key", "idempotency"),
    }


def test_error_pages_contain_no_secret(driven: Driven) -> None:
    """The last one: a table of users that cannot be read makes everything fail."""
    driven.replies.clear()
    for path in ("/nothing/here", "/console/nothing", "/api/v1/nothing", "/docs/problems/nothing"):
        reply = driven.broker.request("GET", path)
        assert reply.status == 404
        driven.replies.append((f"GET {path}", reply.body))
    page = driven.broker.request("GET", "/login/", authorization="")
    database = sqlite3.connect(driven.broker.data / "config.sqlite3", timeout=10)
    database.execute("ALTER TABLE auth_user RENAME TO hidden")
    database.close()
    token = re.search(rb'name="csrfmiddlewaretoken" value="(\w+)"', page.body)
    cookie = re.search(r"mom_csrf=\w+", str(page.headers))
    assert token is not None and cookie is not None
    form = f"csrfmiddlewaretoken={token[1].decode()}&username=jane&password={SECRETS['next password']}"
    for method, path, body, headers in (
        ("POST", "/login/", form, {"content_type": "application/x-www-form-urlencoded", "cookie": cookie[0]}),
        ("GET", f"/login/once/{driven.made['unused link']}", "", {}),
        ("PUT", "/api/v1/users/jane", '{"password": "' + SECRETS["next password"] + '"}', {}),
        ("GET", "/api/v1/users", "", {"authorization": f"Bearer {driven.made['token']}"}),
        ("GET", "/api/v1/users", "", {"authorization": basic("jane", SECRETS["next password"])}),
    ):
        given = {
            "authorization": "",
            "content_type": "application/json",
            "referer": driven.broker.url,
            **headers,
        }
        reply = driven.broker.request(method, path, body.encode(), **given)
        # Its own address is known to its user.
        driven.replies.append((f"{method} {path} → {reply.status}", reply.body.replace(path.encode(), b"")))
    assert sum("→ 500" in about or "→ 503" in about for about, _ in driven.replies) >= 3
    test_no_response_contains_a_secret(driven)
    poll(lambda: "OperationalError" in driven.broker.log or "no such table" in driven.broker.log)
    test_the_log_contains_no_secret(driven)
