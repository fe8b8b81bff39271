"""Pages of reflexes, with a fake node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client

from broker_app.base.events import BRIDGE_RETRYING, LIBRARY_FAILED, REFLEX_REFUSED
from broker_app.base.refused import Refused
from broker_app.models import AuditEntry, Reflex
from broker_app.net.rest.features.reflex_trials import StoredTrialRequest
from broker_app.telemetry.event_log import EventLog
from broker_app.templatetags.console_assets import icon
from broker_app.web.actions import SYSTEM, Edit, apply, version_of
from broker_app.web.console import event_log
from broker_app.web.resource_types import RESOURCE_TYPES
from tests.support.answering_node import answering
from tests.support.no_alerts import NO_ALERTS
from tests.web.console.forms import sent

pytestmark = pytest.mark.django_db

SPEC: dict[str, Any] = {
    "kind": "arrival", "service": "orders.>", "event": "new", "library": "mom", "function": "limit_rate",
    "options": {"rate": 10},
}  # fmt: skip
FORM = {
    "kind": "arrival", "service": "orders.>", "event": "*", "library": "mom", "function": "limit_rate",
    "options": '{"rate": 10}', "time_limit_s": "1", "on_failure": "refuse", "enabled": "on", "position": "10",
}  # fmt: skip


def a_status(name: str = "slow", **facts: Any) -> dict[str, Any]:
    return {
        "name": name, **SPEC, "time_limit_s": 1.0, "on_failure": "refuse", "enabled": True, "origin": None,
        "state": "running", "health": "running", "error": None, "calls": 1204,
        "refusals": 37, "failures": 5, "failures_in_row": 0, "unpublished": 0,
        "p50_ms": 0.2, "p99_ms": 12.5, "last_failure": "KeyError: <i>",
        "last_failure_at": "2026-01-31T12:00:00.000Z", **facts,
    }  # fmt: skip


class AnsweringNode:
    """A node on a loop in another thread, as pages ask it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.operations = self
        self.known: list[dict[str, Any]] = []
        self.libraries: list[dict[str, Any]] = []
        self.asked: list[str | None] = []
        self.restarted: list[str] = []
        self.tried: list[tuple[str, str, dict[str, str], bytes, str]] = []
        self.tried_stored: list[tuple[StoredTrialRequest, str]] = []
        self.refusal: Refused | None = None
        self.stomp_port = 61613
        self.alerts = NO_ALERTS
        self.mirror = None
        self.cluster_consoles = list[str]

    async def wait_policy(self, version: int) -> None:
        """Everything is applied at once."""

    async def list_reflexes(self, address: str | None = None) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append(address)
        return {"items": self.known, "libraries": self.libraries}

    async def test_reflexes(
        self, kind: str, address: str, headers: dict[str, str], body: bytes, user: str
    ) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.tried.append((kind, address, headers, body, user))
        step: dict[str, Any] = {
            "name": "slow", "library": "mom", "function": "limit_rate", "result": "refused",
            "reason": "too fast", "failure": None, "headers": {"seen": "1"}, "messages": [], "marks": [],
            "micros": 17,
        }  # fmt: skip
        return {"accepted": False, "reflex": "slow", "reason": "too fast", "headers": {}, "steps": [step]}

    async def test_reflexes_with_stored(self, asked: StoredTrialRequest, user: str) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.tried_stored.append((asked, user))
        row: dict[str, Any] = {
            "id": "m-1", "time": "2026-01-31T12:00:00.000Z", "reflex": "slow", "reason": "too <fast>",
            "failure": None, "headers": {},
        }  # fmt: skip
        changed = {**row, "id": "m-2", "reflex": None, "reason": None, "headers": {"seen": "1", "old": None}}
        return {
            "messages": 100, "refused": 4, "changed": 1, "kept": 94, "not_asked": 1, "failures": 2,
            "further": 3, "stopped": "time", "first": {"refused": [row], "changed": [changed], "kept": []},
        }  # fmt: skip

    async def restart_library(self, name: str) -> bool:
        self.restarted.append(name)
        return name == "lib"


@pytest.fixture
def node() -> Iterator[AnsweringNode]:
    with answering(AnsweringNode) as made:
        yield made


@pytest.fixture
def slow(admin: User) -> None:
    apply(SYSTEM, [Edit("reflexes", "slow", SPEC)])


def page_of(inside: Client, address: str) -> str:
    reply = inside.get(address)
    assert reply.status_code == 200
    return " ".join(reply.content.decode().split())


@pytest.mark.usefixtures("slow")
def test_the_list_shows_declarations_and_status_in_order(inside: Client, node: AnsweringNode) -> None:
    wrong = {"state": "unusable", "health": "failing", "error": "there is no library lib", "refusals": 0}
    node.known = [a_status("b.cnf:2", origin="b.cnf:2", **wrong), a_status()]
    page = page_of(inside, "/console/reflexes/")
    assert page.index("name=b.cnf%3A2") < page.index("name=slow")
    badge = f'data-tone="bad">{icon("circle-x")} failing · unusable</span>'
    for text in (badge, "there is no library lib", "limit_rate of mom", "rate=10", "0.2 ms, 12.5 ms"):
        assert text in page, text
    assert all(f'class="num">{figure}<' in page for figure in (1, 2, 1204, 37, 5))
    page = page_of(inside, "/console/reflexes/?filter=slow")
    assert "b.cnf:2" not in page and 'class="num">2<' in page, "it keeps its place in the order"


@pytest.mark.usefixtures("slow")
def test_without_a_node_pages_show_declarations_and_no_status(inside: Client) -> None:
    for place in ("", "one?name=slow"):
        page = page_of(inside, f"/console/reflexes/{place}")
        assert "does not know the status of reflexes" in page and "orders.&gt;" in page
    page = sent(inside, "/console/reflexes/restart?name=slow", "restart", library="lib")
    assert "does not know the status of reflexes" in page


@pytest.mark.usefixtures("slow")
def test_a_busy_node_is_reported(inside: Client, node: AnsweringNode) -> None:
    node.refusal = Refused("busy", "the node has not answered in time")
    assert "the node has not answered in time" in page_of(inside, "/console/reflexes/one?name=slow")


@pytest.mark.usefixtures("slow")
def test_the_page_of_a_reflex_shows_figures_failure_and_library(
    inside: Client, node: AnsweringNode, settings: Any, tmp_path: Path
) -> None:
    settings.MOM = replace(settings.MOM, reflex_path=tmp_path)
    node.known = [a_status(library="lib")]
    with pytest.raises(ValidationError, match="there is no library lib"):
        apply(SYSTEM, [Edit("reflexes", "slow", {**SPEC, "library": "lib"})])
    (tmp_path / "lib.py").write_text("def limit_rate(message): return 1")
    apply(SYSTEM, [Edit("reflexes", "slow", {**SPEC, "library": "lib"})])
    node.libraries = [
        {
            "name": "lib", "state": "failed", "pid": None, "starts": 3, "functions": ["a", "b"],
            "failures_in_row": 3, "error": "it crashed",
        }
    ]  # fmt: skip
    page = page_of(inside, "/console/reflexes/one?name=slow")
    for text in ("KeyError: &lt;i&gt;", "2026-01-31 12:00:00 UTC", "started 3 times", "a, b", "version 2"):
        assert text in page, text
    assert "<i>" not in page
    page = sent(inside, "/console/reflexes/restart?name=slow", "restart", library="lib")
    assert "Library lib is starting again." in page and node.restarted == ["lib"]
    assert AuditEntry.objects.order_by("number").last().action == "restarted"  # type: ignore[union-attr]
    page = sent(inside, "/console/reflexes/restart?name=slow", "restart", library="<x>")
    assert "There is no library &lt;x&gt; with a process." in page


def test_a_reflex_of_a_file_is_shown_and_not_edited(inside: Client, node: AnsweringNode) -> None:
    node.known = [a_status("b.cnf:2", origin="b.cnf:2")]
    page = page_of(inside, "/console/reflexes/one?name=b.cnf:2")
    assert "Declared in b.cnf:2." in page
    assert "/console/reflexes/edit" not in page and "Disable" not in page
    assert inside.get("/console/reflexes/one?name=b.cnf:3").status_code == 404
    assert inside.post("/console/reflexes/control?name=b.cnf:2").status_code == 404


@pytest.mark.usefixtures("slow", "node")
def test_a_reflex_is_disabled_and_enabled(inside: Client) -> None:
    page = sent(inside, "/console/reflexes/control?name=slow", "disable")
    assert "Reflex slow was changed." in page and ">Enable<" in page
    assert RESOURCE_TYPES["reflexes"].read()["slow"]["enabled"] is False
    sent(inside, "/console/reflexes/control?name=slow", "enable")
    assert RESOURCE_TYPES["reflexes"].read()["slow"]["enabled"] is True


@pytest.mark.usefixtures("node")
def test_a_reflex_is_added_edited_and_removed(inside: Client) -> None:
    sent(inside, "/console/reflexes/add", name="fast", **FORM)
    assert RESOURCE_TYPES["reflexes"].read()["fast"]["options"] == {"rate": 10}
    edit = page_of(inside, "/console/reflexes/edit?name=fast")
    assert "{ &quot;rate&quot;: 10 }" in edit
    version = str(version_of("reflexes", "fast"))
    sent(inside, "/console/reflexes/edit?name=fast", version=version, **{**FORM, "options": '{"rate": 20}'})
    assert RESOURCE_TYPES["reflexes"].read()["fast"]["options"] == {"rate": 20}
    sent(inside, "/console/reflexes/remove?name=fast")
    assert not Reflex.objects.exists()


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("options", "{", "This is not valid JSON: Expecting property name"),
        ("options", "[1]", "Enter a JSON object"),
        ("options", "{}", "option rate is missing"),
        ("service", "a.>.b", "has &#x27;&gt;&#x27; or &#x27;#&#x27; before its end"),
        ("function", "limit", "library mom has no function limit"),
        ("kind", "service", "limit_rate is for arrival and registration only"),
        ("kind", "other", "Select a valid choice"),
    ],
)
def test_the_form_shows_what_is_wrong_at_its_field(
    inside: Client, field: str, value: str, error: str
) -> None:
    given = {**FORM, "service": "stock", field: value}
    page = sent(inside, "/console/reflexes/add", name="fast", **given)
    assert f'id="id_{field}_error"' in page and error in page
    assert not Reflex.objects.exists()


def test_events_of_reflexes_are_found_and_lead_to_their_pages(
    inside: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(lambda: 0.0)
    log.report(BRIDGE_RETRYING, "west", code="REFUSED", detail="no listener")
    log.report(REFLEX_REFUSED, "slow", code="FILTERED", detail="message from anna: too fast")
    log.report(LIBRARY_FAILED, "lib", detail="it crashed")
    monkeypatch.setattr(event_log, "node_of", lambda request: SimpleNamespace(events=log))
    page = page_of(inside, "/console/events/?kind=reflexes")
    assert "no listener" not in page and "FILTERED: message from anna: too fast" in page
    assert "/console/reflexes/one?name=slow" in page and "/console/reflexes/?filter=lib" in page
    assert "too fast" in page_of(inside, "/console/events/?filter=anna&trouble=1")


def test_a_destination_shows_the_reflexes_that_see_its_messages(
    inside: Client, node: AnsweringNode, client: Client, john: User
) -> None:
    node.known = [a_status("first"), a_status("second", kind="delivery")]
    page = page_of(inside, "/console/queues/one?name=orders.new&tab=routing")
    assert page.index("name=first") < page.index("name=second")
    assert node.asked == ["/queue/orders.new"]
    node.known = []
    assert "No reflex sees the messages" in page_of(inside, "/console/topics/one?name=t&tab=routing")
    client.force_login(john)
    assert "reflex" not in page_of(client, "/console/queues/one?name=orders.new&tab=routing").lower()


@pytest.mark.usefixtures("slow")
def test_a_message_is_tried_on_the_page_of_a_reflex(inside: Client, node: AnsweringNode) -> None:
    node.known = [a_status(event="new", service="orders")]
    assert "type=new</textarea>" in page_of(inside, "/console/reflexes/one?name=slow")
    form = {"kind": "arrival", "destination": "orders.new", "headers": "type=new", "body": "{}"}
    page = inside.post("/console/reflexes/test?name=slow", form).content.decode()
    assert node.tried == [("arrival", "/queue/orders.new", {"type": "new"}, b"{}", "admin")]
    for text in (" refused</span>", "by slow: too fast", "<code>seen=1</code>", "17 µs", "\n{}</textarea>"):
        assert text in page, text
    wrong = inside.post("/console/reflexes/test?name=slow", {**form, "headers": "type"}).content.decode()
    assert "type is not name=value" in wrong and len(node.tried) == 1
    node.known, node.refusal = [], Refused("bad-destination", "no such place")
    assert "no such place" in inside.post("/console/reflexes/test?name=slow", form).content.decode()
    assert inside.get("/console/reflexes/test?name=slow").status_code == 302


def test_the_form_offers_libraries_and_functions(inside: Client, settings: Any, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def check_order(message): ...\ndef _helper(): ...\n")
    settings.MOM = replace(settings.MOM, reflex_path=tmp_path)
    page = page_of(inside, "/console/reflexes/add")
    for option in (
        'value="shop"',
        'value="mom"',
        'value="check_order">shop<',
        'value="limit_rate">mom: refuses',
    ):
        assert option in page, option
    assert "_helper" not in page
    assert 'name="library" list="libraries"' in page


@pytest.mark.usefixtures("slow")
def test_stored_messages_are_tried_on_the_page_and_in_the_form(inside: Client, node: AnsweringNode) -> None:
    node.known = [a_status(service="orders")]
    page = page_of(inside, "/console/reflexes/one?name=slow")
    assert 'name="stored" value=""' in page, "the service is a pattern"
    page = inside.post("/console/reflexes/test?name=slow", {"stored": "orders.new"}).content.decode()
    shown = " ".join(page.split())
    for text in (
        "Of the last 100 messages: 4 refused, 1 changed, 94 unchanged, 1 not asked about", "too &lt;fast&gt;",
        "<code>seen=1</code>", "<code>old=\u2013</code>", "The function failed for 2 of them.",
        "it took too long", "3 further messages would be published.", 'value="orders.new"',
    ):  # fmt: skip
        assert text in shown, text
    read = AuditEntry.objects.latest("number")
    assert (read.action, read.key, read.after) == ("read", "/queue/orders.new", {"messages": 100})

    draft = {**FORM, "options": '{"rate": 3}', "name": "fast", "stored": "orders.new"}
    page = sent(inside, "/console/reflexes/add", "test", **draft)
    assert "Of the last 100 messages:" in page and 'value="fast"' in page
    assert not Reflex.objects.filter(name="fast").exists(), "nothing is saved"
    (of_page, _), (of_form, user) = node.tried_stored
    assert (of_page.reflex, of_page.declaration, of_page.destination) == ("slow", None, "orders.new")
    assert of_form.declaration is not None
    assert (of_form.declaration.options, of_form.declaration.service, user) == (
        {"rate": 3},
        "orders.>",
        "admin",
    )
    node.refusal = Refused("not-found", "there is no queue <a>")
    page = sent(inside, "/console/reflexes/edit?name=slow", "test", **draft)
    assert "there is no queue &lt;a&gt;" in page
    page = sent(inside, "/console/reflexes/add", "test", **{**draft, "options": "{"})
    assert "This is not valid JSON" in page and len(node.tried_stored) == 2
