"""Settings of queues, topics and patterns over HTTP, against a real broker that has to obey them."""

import base64
import subprocess
import sys
from typing import Any

import pytest

from tests.support.broker_process import ROOT, BrokerProcess, Reply

JOHN = "Basic " + base64.b64encode(b"john:correct horse battery").decode()


@pytest.fixture(scope="module", autouse=True)
def john(broker: BrokerProcess) -> None:
    """A user who is no administrator."""
    code = (
        "from broker_app.web import actions\n"
        "actions.create_user(actions.SYSTEM, 'john', 'correct horse battery')"
    )
    shell = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    subprocess.run(shell, cwd=ROOT, env=broker.environment, check=True)


def ask(broker: BrokerProcess, method: str, path: str, body: Any = None, **headers: str) -> Reply:
    return broker.request(method, f"/api/v1{path}", None, json_body=body, **headers)


def problem(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["type"].removeprefix("/docs/problems/")


def version(broker: BrokerProcess, path: str) -> str:
    return ask(broker, "GET", path).headers["etag"]


def publish(broker: BrokerProcess, queue: str, body: bytes = b"1") -> Reply:
    return broker.request("POST", f"/api/v1/queues/{queue}/messages", body)


def test_a_queue_is_declared_changed_and_removed(broker: BrokerProcess) -> None:
    made = ask(broker, "PUT", "/queues/life/one", {"max_messages": 10, "retry_delay_s": 0.5})
    assert made.status == 201, made.body
    assert made.headers["location"] == "/api/v1/queues/life/one"
    assert made.json()["settings"] == {"max_messages": 10, "retry_delay_s": 0.5}
    seen = ask(broker, "GET", "/queues/life/one")
    assert seen.headers["etag"] == made.headers["etag"]
    assert seen.json()["declared"] and seen.json()["settings"]["max_messages"] == {
        "value": 10,
        "source": "own",
    }

    changed = ask(
        broker,
        "PATCH",
        "/queues/life/one",
        {"max_messages": None, "max_bytes": 5},
        if_match=made.headers["etag"],
    )
    assert (changed.status, changed.json()["settings"]) == (200, {"retry_delay_s": 0.5, "max_bytes": 5})
    replaced = ask(broker, "PUT", "/queues?queue=life/one", {}, if_match=changed.headers["etag"])
    assert (replaced.status, replaced.json()["settings"]) == (200, {})

    gone = ask(broker, "DELETE", "/queues/life/one", if_match=replaced.headers["etag"])
    assert (gone.status, gone.body) == (204, b"")
    assert problem(ask(broker, "GET", "/queues/life/one")) == (404, "not-found")


def test_the_broker_applies_a_change_before_it_is_answered(broker: BrokerProcess) -> None:
    assert publish(broker, "obey").status == 201
    etag = version(broker, "/queues/obey")
    assert etag == '"0"'
    for paused, status in (("producers", 503), ("none", 201), ("all", 503), ("consumers", 201)):
        reply = ask(broker, "PATCH", "/queues/obey", {"paused": paused}, if_match="*")
        assert reply.status == 200
        assert publish(broker, "obey").status == status
    taken = ask(broker, "POST", "/queues/obey/receive", {"max": 10})
    assert taken.json()["items"] == []
    ask(broker, "PATCH", "/queues/obey", {"paused": None}, if_match="*")
    assert len(ask(broker, "POST", "/queues/obey/receive", {"max": 10}).json()["items"]) == 3


def test_settings_survive_a_restart(broker: BrokerProcess) -> None:
    ask(broker, "PUT", "/queues/stays", {"paused": "producers"})
    broker.restart()
    facts = ask(broker, "GET", "/queues/stays").json()
    assert (facts["declared"], facts["paused"]) == (True, "producers")
    assert problem(publish(broker, "stays")) == (503, "paused")


def test_patterns_and_topics(broker: BrokerProcess) -> None:
    made = ask(
        broker, "PUT", "/destinations/settings/queue/wild.%3E", {"max_messages": 7, "auto_create": False}
    )
    assert (made.status, made.json()["address"]) == (201, "/queue/wild.>")
    assert problem(publish(broker, "wild.unknown")) == (404, "not-found")
    assert ask(broker, "PUT", "/queues/wild.known", {}).status == 201
    assert publish(broker, "wild.known").status == 201
    settings = ask(broker, "GET", "/queues/wild.known").json()["settings"]
    assert settings["max_messages"] == {"value": 7, "source": "/queue/wild.>"}

    seen = ask(broker, "GET", "/destinations/settings/queue/wild.%3E")
    assert seen.headers["etag"] == made.headers["etag"]
    assert [row["address"] for row in ask(broker, "GET", "/destinations/settings").json()["items"]] == [
        "/queue/wild.>"
    ]
    again = ask(broker, "GET", "/destinations/settings/queue/wild.%3E", if_none_match=made.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert (
        ask(
            broker, "PATCH", "/destinations/settings/queue/wild.%3E", {"max_messages": 8}, if_match="*"
        ).status
        == 200
    )
    assert ask(broker, "DELETE", "/destinations/settings/queue/wild.%3E", if_match="*").status == 204
    assert publish(broker, "wild.unknown").status == 201
    assert ask(broker, "PUT", "/destinations/settings/%3E", {"max_attempts": 3}).status == 201
    assert ask(broker, "GET", "/queues/wild.known").json()["settings"]["max_attempts"] == {
        "value": 3,
        "source": ">",
    }
    assert ask(broker, "DELETE", "/destinations/settings/%3E", if_match="*").status == 204

    assert ask(broker, "PUT", "/topics/news.eu", {"paused": "producers"}).status == 201
    assert ask(broker, "GET", "/topics/news.eu").json()["paused"] == "producers"
    refused = broker.request("POST", "/api/v1/topics/news.eu/messages", b"1")
    assert problem(refused) == (503, "paused")
    assert ask(broker, "PATCH", "/topics/news.eu", {"paused": "none"}, if_match="*").status == 200
    assert ask(broker, "DELETE", "/topics?topic=news.eu", if_match="*").status == 204
    assert problem(ask(broker, "DELETE", "/topics/news.eu", if_match="*")) == (404, "not-found")


def test_a_queue_with_messages_is_removed_by_force(broker: BrokerProcess) -> None:
    publish(broker, "full")
    etag = version(broker, "/queues/full")
    refused = ask(broker, "DELETE", "/queues/full", if_match=etag)
    assert problem(refused) == (409, "conflict")
    assert ask(broker, "DELETE", "/queues/full?force=maybe", if_match=etag).status == 400
    assert ask(broker, "DELETE", "/queues/full?force=true", if_match=etag).status == 204
    assert problem(ask(broker, "DELETE", "/queues/full", if_match='"0"')) == (404, "not-found")


def test_a_refused_removal_leaves_the_settings_as_they_are(broker: BrokerProcess) -> None:
    etag = ask(broker, "PUT", "/queues/kept", {"max_messages": 3}).headers["etag"]
    publish(broker, "kept")
    assert problem(ask(broker, "DELETE", "/queues/kept", if_match=etag)) == (409, "conflict")
    assert version(broker, "/queues/kept") == etag


def test_a_write_without_the_current_version_is_refused(broker: BrokerProcess) -> None:
    first = ask(broker, "PUT", "/queues/seen", {})
    for method in ("PUT", "PATCH", "DELETE"):
        assert problem(ask(broker, method, "/queues/seen", {})) == (428, "precondition-required")
        stale = ask(broker, method, "/queues/seen", {}, if_match='"1", W/"2"')
        assert problem(stale) == (412, "precondition-failed")
        assert stale.json()["current"] == first.headers["etag"]
    assert problem(ask(broker, "PUT", "/queues/seen", {}, if_none_match="*")) == (412, "precondition-failed")
    assert ask(broker, "PUT", "/queues/unseen", {}, if_none_match="*").status == 201


@pytest.mark.parametrize("path", ["/queues/who", "/topics/who", "/destinations/settings/queue/who.%3E"])
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_only_administrators_write(broker: BrokerProcess, method: str, path: str) -> None:
    nobody = ask(broker, method, path, {}, authorization="Bearer mom_x", if_match="*")
    assert problem(nobody) == (401, "not-authenticated") and "www-authenticate" in nobody.headers
    refused = ask(broker, method, path, {}, authorization=JOHN, if_match="*")
    assert problem(refused) == (403, "not-allowed")
    assert refused.json()["right"] == "administer"


def test_every_authenticated_user_reads(broker: BrokerProcess) -> None:
    ask(broker, "PUT", "/destinations/settings/queue/read.%3E", {})
    ask(broker, "PUT", "/queues/read.one", {})
    for path in (
        "/queues/read.one",
        "/queues",
        "/topics",
        "/destinations/settings",
        "/destinations/settings/queue/read.%3E",
    ):
        assert ask(broker, "GET", path, authorization=JOHN).status == 200
        assert problem(ask(broker, "GET", path, authorization="Bearer x")) == (401, "not-authenticated")


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/queues/bad", {"max_mesages": 1}, "invalid"),
        ("/queues/bad", {"max_messages": "1"}, "invalid"),
        ("/queues/bad", [], "invalid"),
        ("/queues/bad", "text", "invalid"),
        ("/queues/bad", {"\ud800": 1}, "invalid"),
        ("/queues/bad?colour=1", {}, "invalid"),
        ("/queues/bad?queue=bad", {}, "invalid"),
        ("/queues", {}, "invalid"),
        ("/queues/%01", {}, "bad-destination"),
        ("/queues/bad.%3E", {}, "bad-destination"),
        ("/queues/bad%3E", {}, "bad-destination"),
        ("/queues/$mom", {}, "bad-destination"),
        ("/queues/" + "x" * 256, {}, "bad-destination"),
        ("/topics/a.*.b", {}, "bad-destination"),
        ("/destinations/settings/queue/a", {}, "bad-destination"),
        ("/destinations/settings/nowhere/a.%3E", {}, "bad-destination"),
    ],
)
def test_invalid_settings_are_refused(broker: BrokerProcess, path: str, body: Any, name: str) -> None:
    assert problem(ask(broker, "PUT", path, body)) == (400, name)


def test_bodies_that_are_no_settings_are_refused(broker: BrokerProcess) -> None:
    def put(body: bytes, content_type: str = "application/json") -> tuple[int, str]:
        return problem(broker.request("PUT", "/api/v1/queues/bad", body, content_type=content_type))

    assert put(b"{") == (400, "invalid")
    assert put(b"[" * 100_000) == (400, "invalid")
    assert put(b'{"max_messages": NaN}') == (400, "invalid")
    assert put(b"\xff") == (400, "invalid")
    assert put(b"{}", "text/plain") == (415, "unsupported-type")
    assert put(b" " * 1_100_000 + b"{}") == (413, "too-large")


@pytest.mark.parametrize("path", ["/queues/wrong", "/topics/wrong", "/queues", "/topics"])
def test_other_methods_are_not_possible(broker: BrokerProcess, path: str) -> None:
    reply = ask(broker, "POST", path, {})
    assert problem(reply) == (405, "method-not-allowed")
    assert set(reply.headers["allow"].split(", ")) == {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "PUT"}
    assert ask(broker, "POST", "/destinations/settings", {}).status == 405


@pytest.mark.parametrize("path", ["/queues/tried", "/topics/tried", "/destinations/settings/queue/tried.%3E"])
def test_a_write_has_a_dry_run(broker: BrokerProcess, path: str) -> None:
    [change] = ask(broker, "PUT", f"{path}?dry_run=true", {"max_bytes": 5}).json()["changes"]
    assert (change["kind"], change["action"], change["after"]) == (
        "destinations",
        "created",
        {"max_bytes": 5},
    )
    assert ask(broker, "PUT", path, {"max_bytes": 5}).status == 201
    tried = ask(broker, "PATCH", f"{path}?dry_run=true", {"max_bytes": None}, if_match="*").json()
    assert tried["changes"][0]["diff"] == [{"pointer": "/max_bytes", "before": 5}]
    tried = ask(broker, "DELETE", f"{path}?dry_run=true", if_match="*").json()
    assert tried["changes"][0]["action"] == "removed"
    assert ask(broker, "PATCH", path, {}, if_match="*").json()["settings"] == {"max_bytes": 5}


def test_patterns_come_page_by_page(broker: BrokerProcess) -> None:
    for number in range(3):
        ask(broker, "PUT", f"/destinations/settings/queue/page.{number}.%3E", {})
    first = ask(broker, "GET", "/destinations/settings?q=page&limit=2&fields=address")
    assert first.json()["items"] == [{"address": "/queue/page.0.>"}, {"address": "/queue/page.1.>"}]
    following = first.headers["link"].partition(">")[0].removeprefix("</api/v1")
    last = ask(broker, "GET", following).json()
    assert ([item["address"] for item in last["items"]], last["next"]) == (["/queue/page.2.>"], None)


def test_a_narrow_token_of_an_administrator_changes_no_settings(broker: BrokerProcess) -> None:
    grants = [{"rights": ["send"], "destinations": [">"]}]
    made = ask(broker, "POST", "/tokens", {"name": "narrow", "grants": grants}).json()
    refused = ask(broker, "PUT", "/queues/narrow", {}, authorization=f"Bearer {made['token']}")
    assert (problem(refused), refused.json()["right"]) == ((403, "not-allowed"), "administer")
