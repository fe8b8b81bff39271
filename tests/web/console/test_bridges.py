"""Pages of bridges, with a fake node."""

import asyncio
import os
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIRequest
from django.test import Client

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.features.bridge.remote import Remote
from broker_app.models import AuditEntry, Bridge
from broker_app.templatetags.console_assets import icon
from broker_app.web.actions import SYSTEM, Edit, apply
from broker_app.web.files import FileWatcher
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.resource_types.bridges import remotes
from broker_app.zero.writer import PASSWORD
from tests.support.answering_node import answering
from tests.support.no_alerts import NO_ALERTS
from tests.web.console.forms import sent
from tests.zero.support import load

pytestmark = pytest.mark.django_db

SOURCE = "/queue/storeAndForward:west/queue/orders"
ORPHAN: dict[str, Any] = {
    "bridge": "gone", "queue": "bills", "source": "/queue/storeAndForward:gone/queue/bills", "depth": 7,
    "error": {"code": "NO_BRIDGE", "detail": "no connection is configured for gone"},
}  # fmt: skip
COUNTS = {
    "in_flight": 1, "sent": 10, "accepted": 7, "refused": 2, "unanswered": 0, "duplicate": 3, "gap": 0,
    "dead_lettered": 0, "bytes": 100, "arrived_rate": 0.0, "sent_rate": 8.5, "accepted_rate": 8.0,
    "oldest_s": 660.0, "progress_at": "2026-01-31T12:00:00.000Z",
}  # fmt: skip


def a_flow(**spec: Any) -> dict[str, Any]:
    flow = {
        "queue": "orders",
        "source": SOURCE,
        "state": "running",
        "paused": False,
        "error": None,
        "depth": 5,
    }
    return {**flow, **COUNTS, **spec}


def a_bridge(*flows: dict[str, Any], **spec: Any) -> dict[str, Any]:
    bridge = {
        "name": "west", "address": "stomp://w:61613", "desired": "running", "drained": False,
        "state": "running", "health": "running",
        "error": None, "attempts": 0, "connected_at": "2026-01-31T12:00:00.000Z", "server": "MOM/1",
        "delivery": "exactly-once", "backlog": 1204, "flow_count": len(flows), **COUNTS,
    }  # fmt: skip
    return {**bridge, "flows": list(flows), "events": [], **spec}


class AnsweringNode:
    """A node with the bridges of one test."""

    stomp_port = 61613
    alerts = NO_ALERTS
    mirror = None
    cluster_consoles = list

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.operations = self
        self.known: dict[str, dict[str, Any]] = {}
        self.orphans: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self.trial: dict[str, Any] = {}
        self.tried: list[tuple[Remote, str | None]] = []
        self.retried: list[tuple[str, str | None]] = []
        self.removed: list[str] = []

    async def wait_policy(self, version: int) -> None:
        return None

    async def list_bridges(self) -> dict[str, Any]:
        return {"bridges": list(self.known.values()), "orphans": self.orphans, "incoming": self.marks}

    async def find_bridge(self, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        return (self.known[name], self.known[name]["events"]) if name in self.known else None

    async def retry_bridge(self, name: str, queue: str | None) -> bool:
        self.retried.append((name, queue))
        return True

    async def test_remote(self, remote: Remote, queue: str | None) -> dict[str, Any]:
        self.tried.append((remote, queue))
        if not self.trial:
            raise Refused("busy", "8 connections are being tested already")
        return self.trial

    async def delete_queue(self, address: str, *, force: bool) -> None:
        assert force, "the page has shown what is lost"
        self.removed.append(address)


@pytest.fixture
def node() -> Iterator[AnsweringNode]:
    with answering(AnsweringNode) as made:
        yield made


@pytest.fixture
def west(admin: User) -> None:
    edit = Edit("bridges", "west", {"hostname": "w", "user": "east"}, secrets={"password": "of the bridge"})
    apply(SYSTEM, [edit])


def page_of(inside: Client, address: str) -> str:
    reply = inside.get(address)
    assert reply.status_code == 200
    return " ".join(reply.content.decode().split())


@pytest.mark.usefixtures("west")
def test_the_list_shows_configuration_and_status(inside: Client, node: AnsweringNode) -> None:
    node.known["west"] = a_bridge(a_flow(state="stalled"), health="stalled")
    node.orphans, node.marks = (
        [ORPHAN],
        [
            {
                "sender": "south~1f",
                "source": "bills",
                "accepted": 812,
                "count": 400,
                "at": "2026-01-31T12:00:00Z",
            }
        ],
    )
    page = page_of(inside, "/console/bridges/")
    for text in ("stomp://w:61613", "stalled", "1204", "11 min", "8.5", "ago"):
        assert text in page, text
    assert ORPHAN["source"] in page and "bills at gone" in page and "/console/bridges/add?name=gone" in page
    assert "south~1f" in page and "812" in page


@pytest.mark.usefixtures("west")
def test_without_a_node_the_pages_report_an_unknown_status(inside: Client) -> None:
    assert "does not know the status of bridges" in page_of(inside, "/console/bridges/")
    assert "does not know the status of bridges" in page_of(inside, "/console/bridges/one?name=west")
    assert "does not know the status of bridges" in sent(inside, "/console/bridges/test?name=west")
    reply = sent(inside, "/console/bridges/control?name=west", "retry")
    assert "does not know the status of bridges" in reply


@pytest.mark.usefixtures("west")
def test_a_bridge_is_shown_with_its_flows_and_events(inside: Client, node: AnsweringNode) -> None:
    event = {
        "at": "2026-01-31T12:00:00.000Z", "first_at": "2026-01-31T11:00:00.000Z", "event": "refused",
        "queue": "orders", "code": "AUTH_SYNC_QUEUE", "detail": "east may not", "times": 4,
    }  # fmt: skip
    trouble = {"code": "AUTH_SYNC_QUEUE", "detail": "east may not <b>", "at": "2026-01-31T12:00:00Z"}
    flows = (
        a_flow(),
        a_flow(queue="bills", state="suspended", paused=True, dead_lettered=2, gap=3, error=trouble),
    )
    node.known["west"] = a_bridge(*flows, events=[event])
    page = page_of(inside, "/console/bridges/one?name=west")
    assert "storeAndForward:west/queue/orders</a> → orders" in page
    assert "exactly-once" in page and "east may not &lt;b&gt;" in page
    assert "10 sent</span> = <span" in page and "do not add up" not in page
    assert "Dead letters: 2" in page and "paused" in page
    assert f'data-tone="bad">{icon("circle-x")} 3</b>' in page, "a gap is red"
    assert "2026-01-31 12:00:00 UTC" in page and "4 times" in page
    assert "of the bridge" not in page


@pytest.mark.usefixtures("west")
@pytest.mark.parametrize(
    ("state", "health", "badge"),
    [
        ("running", "running", f'good">{icon("circle-check")} running</span>'),
        ("suspended", "running", f'good">{icon("circle-check")} running · idle</span>'),
        ("retrying", "failing", f'bad">{icon("circle-x")} failing · retrying</span>'),
        ("running", "stalled", f'bad">{icon("hourglass")} stalled</span>'),
    ],
)
def test_the_badge_of_a_bridge_is_its_health_and_green_only_if_it_works(
    inside: Client, node: AnsweringNode, state: str, health: str, badge: str
) -> None:
    node.known["west"] = a_bridge(state=state, health=health)
    for place in ("", "one?name=west"):
        assert f'class="state" data-tone="{badge}' in page_of(inside, f"/console/bridges/{place}")


@pytest.mark.usefixtures("west")
def test_inconsistent_counts_are_marked(inside: Client, node: AnsweringNode) -> None:
    node.known["west"] = a_bridge(a_flow(accepted=6))
    assert "The counts do not add up." in page_of(inside, "/console/bridges/one?name=west")


@pytest.mark.usefixtures("west", "node")
def test_a_bridge_and_each_flow_are_paused_drained_and_resumed(inside: Client) -> None:
    def spec() -> dict[str, Any]:
        return RESOURCE_TYPES["bridges"].read()["west"]

    page = sent(inside, "/console/bridges/control?name=west", "pause")
    assert "Bridge west was changed." in page and spec()["desired"] == "paused"
    sent(inside, "/console/bridges/control?name=west", "drain")
    assert spec()["desired"] == "draining"
    sent(inside, "/console/bridges/control?name=west", "resume")
    sent(inside, "/console/bridges/control?name=west", "pause", queue="orders")
    sent(inside, "/console/bridges/control?name=west", "pause", queue="bills")
    assert (spec()["desired"], spec()["paused_queues"]) == ("running", ["orders", "bills"])
    sent(inside, "/console/bridges/control?name=west", "resume", queue="orders")
    assert spec()["paused_queues"] == ["bills"]
    sent(inside, "/console/bridges/control?name=west", "explode")
    sent(inside, "/console/bridges/control?name=west", "drain", queue="bills")
    page = sent(inside, "/console/bridges/control?name=west", "pause", queue="q" * 80)
    assert "No changes were made" in page
    assert (spec()["desired"], spec()["paused_queues"]) == ("running", ["bills"])


@pytest.mark.usefixtures("west")
def test_a_retry_is_immediate_and_audited(inside: Client, node: AnsweringNode) -> None:
    assert "The bridge is retrying now." in sent(inside, "/console/bridges/control?name=west", "retry")
    sent(inside, "/console/bridges/control?name=west", "retry", queue="orders")
    assert node.retried == [("west", None), ("west", "orders")]
    assert AuditEntry.objects.filter(kind="bridges", key="west", action="retried").count() == 2


@pytest.mark.usefixtures("west")
def test_a_connection_is_tested_step_by_step(inside: Client, node: AnsweringNode) -> None:
    step = {
        "name": "tcp",
        "ok": False,
        "detail": "no listener",
        "fix": "start the broker",
        "seconds": 0.1,
    }
    others = [
        {"name": "dns", "ok": True, "detail": "w is 10.0.0.1", "fix": "", "seconds": 0.0},
        {"name": "login", "ok": None, "detail": "not tried", "fix": "", "seconds": 0.0},
    ]
    node.trial = {
        "ok": False,
        "server": "",
        "delivery": None,
        "seconds": 0.2,
        "steps": [others[0], step, others[1]],
    }
    page = sent(inside, "/console/bridges/test?name=west", queue="orders")
    for text in ("The connection does not work", "w is 10.0.0.1", "no listener", "Start the broker."):
        assert text in page, text
    [(remote, queue)] = node.tried
    assert (remote.password, queue) == ("of the bridge", "orders")
    assert "of the bridge" not in page
    assert AuditEntry.objects.filter(kind="bridges", key="west", action="tested").count() == 1
    node.trial = {}
    assert "being tested already" in sent(inside, "/console/bridges/test?name=west")
    assert inside.get("/console/bridges/test?name=west").status_code == 302


@pytest.mark.usefixtures("west", "node")
def test_a_cloned_bridge_is_paused(inside: Client) -> None:
    assert "Bridge west2 was created." in sent(inside, "/console/bridges/clone?name=west", new="west2")
    clone = Bridge.objects.get(name="west2")
    assert (clone.values["desired"], remotes()[clone.name].password) == ("paused", "of the bridge")
    assert "a bridge named west2 already exists" in sent(
        inside, "/console/bridges/clone?name=west", new="west2"
    )
    for wrong in ("", "a/b", "x" * 21):
        assert "The bridge was not created" in sent(inside, "/console/bridges/clone?name=west", new=wrong)


def test_a_queue_without_a_bridge_is_removed_after_its_loss_is_shown(
    inside: Client, node: AnsweringNode
) -> None:
    node.orphans = [ORPHAN]
    address = f"/console/bridges/orphan/remove?source={ORPHAN['source']}"
    assert "7 messages for queue bills of broker gone are deleted" in page_of(inside, address)
    apply(SYSTEM, [Edit("brokers", "mom", {"environment": "production"})])
    assert "type the name" in sent(inside, address) and not node.removed
    sent(inside, address, typed="bills", reason="gone for good")
    assert node.removed == [ORPHAN["source"]]
    assert AuditEntry.objects.get(action="removed", kind="queues").reason == "gone for good"
    assert inside.get("/console/bridges/orphan/remove?source=/queue/orders").status_code == 404


def test_an_invalid_file_is_reported_by_the_list_and_by_the_page_of_files(
    inside: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "zero.config"
    line = '/config/connection/messaging/b = {"hostname": "h", "bridgeCredentials": {"password": "s3cret"}'
    file.write_text("# nothing yet\n")
    watch = FileWatcher(file, Config(config_file=file))
    watch.start()
    monkeypatch.setattr(WSGIRequest, "scope", {"mom.files": watch}, raising=False)
    assert "cannot be used" not in page_of(inside, "/console/bridges/")
    file.write_text(f"\n\n\n{line}\n")
    os.utime(file, ns=(1, 1))
    assert watch.check() is None and watch.check() is not None
    for address in ("/console/bridges/", "/console/configuration/files"):
        page = page_of(inside, address)
        assert (
            ("is invalid" in page or "are invalid" in page)
            and "zero.config:" in page
            and "s3cret" not in page
        )
    assert "1 rejected" in page_of(inside, "/console/configuration/files")


def test_a_new_bridge_is_shown_as_file_content_without_its_password(inside: Client) -> None:
    spec = {
        "name": "north", "hostname": "n", "protocol": "stomps", "host": "/", "path": "/ws", "user": "east",
        "password": "s3cret", "desired": "running", "retry_s": "7", "idle_s": "60", "scan_s": "1",
        "stalled_s": "60", "window": "500", "dead_letter_after": "0",
    }  # fmt: skip
    page = inside.post("/console/bridges/add", {**spec, "operation": "preview"}).content.decode()
    text = unescape(page.partition('id="file-text" tabindex="0">')[2].partition("</pre>")[0])
    assert "s3cret" not in page and not Bridge.objects.exists(), "nothing is saved, and it is not shown"
    document = load(text.replace(PASSWORD, "s3cret")).documents["bridges"]["north"]
    reply = inside.post("/console/bridges/add", {**spec, "operation": "save"})
    assert (reply.status_code, reply.headers["location"]) == (302, "/console/bridges/one?name=north")
    saved = RESOURCE_TYPES["bridges"].read()["north"]
    assert RESOURCE_TYPES["bridges"].complete("north", document.spec, None) == saved
    assert document.secrets == {"password": "s3cret"}
