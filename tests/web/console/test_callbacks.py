"""Pages of callbacks, with a fake node."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.base.refused import Refused
from broker_app.features.callbacks.webhooks.verdict import OUTCOMES
from broker_app.models import AuditEntry, Callback
from broker_app.templatetags.console_assets import icon
from broker_app.web.actions import SYSTEM, Edit, apply
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.resource_types.callbacks import callbacks
from tests.support.answering_node import answering
from tests.support.no_alerts import NO_ALERTS
from tests.web.console.forms import sent

pytestmark = pytest.mark.django_db

URL = "https://hooks.example.org/orders"
FORM = {
    "url": URL, "queue": "orders", "mode": "deliver", "content": "binary", "owner": "admin",
    "max_in_flight": "5", "timeout_s": "15", "retry_s": "5", "max_retry_s": "3600", "desired": "running",
}  # fmt: skip


def a_push(**facts: Any) -> dict[str, Any]:
    return {
        "at": "2026-01-31T12:00:00.000Z", "id": "01JD", "attempt": 2, "outcome": "failed", "status": 500,
        "seconds": 0.25, "detail": "it answered 500: <b>", **facts,
    }  # fmt: skip


def a_breaker(state: str, pause: str = "") -> dict[str, Any]:
    until = "2026-01-31T12:07:00.000Z"
    return {"host": "hooks.example.org:443", "state": state, "pause": pause, "until": until}


def a_callback(**facts: Any) -> dict[str, Any]:
    return {
        "name": "hook", "owner": "admin", "source": "/queue/orders", "url": URL, "mode": "deliver",
        "desired": "running", "state": "running", "health": "failing", "reason": "", "failures_in_row": 4,
        "breaker": a_breaker("open"),
        "pending": 1204, "in_flight": 3, "pushes": dict.fromkeys(OUTCOMES, 0) | {"accepted": 7, "failed": 4},
        "push_seconds": 1.0, "coalesced": 0, "p50_s": 0.012, "p95_s": 0.25,
        "accepted_at": "2026-01-31T12:00:00.000Z", "last": a_push(), **facts,
    }  # fmt: skip


class AnsweringNode:
    """A node on a loop in another thread, as pages ask it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.operations = self
        self.known: dict[str, dict[str, Any]] = {}
        self.pushed: list[str] = []
        self.test: dict[str, Any] = {}
        self.stomp_port = 61613
        self.alerts = NO_ALERTS
        self.mirror = None
        self.cluster_consoles = list[str]

    async def wait_policy(self, version: int) -> None:
        """Everything is applied at once."""

    async def list_callbacks(self) -> list[dict[str, Any]]:
        return list(self.known.values())

    async def find_callback(self, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        return (self.known[name], [a_push()]) if name in self.known else None

    async def push_callback(self, name: str) -> bool:
        self.pushed.append(name)
        return True

    async def test_callback(self, name: str) -> dict[str, Any]:
        if not self.test:
            raise Refused("busy", "8 callbacks are being tested already")
        return self.test


@pytest.fixture
def node() -> Iterator[AnsweringNode]:
    with answering(AnsweringNode) as made:
        yield made


@pytest.fixture
def hook(admin: User) -> None:
    apply(SYSTEM, [Edit("callbacks", "hook", {"url": URL, "queue": "orders", "owner": "admin"})])


def page_of(inside: Client, address: str) -> str:
    reply = inside.get(address)
    assert reply.status_code == 200
    return " ".join(reply.content.decode().split())


@pytest.mark.usefixtures("hook")
def test_the_list_shows_configuration_and_status(inside: Client, node: AnsweringNode) -> None:
    node.known["hook"] = a_callback(state="unverified", reason="it answered 404")
    page = page_of(inside, "/console/callbacks/")
    badge = f"{icon('circle-x')} failing · the URL does not agree</span>"
    for text in (URL, "/queue/orders", badge, "it answered 404", "open", "until 12:07:00"):
        assert text in page, text
    assert 'class="num">1204<' in page and 'class="num">7<' in page


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize(
    ("pause", "text"),
    [
        ("retry-after", "paused until 12:07:00 UTC, as the receiver asked"),
        ("no-worker", "paused until 12:07:00 UTC: no worker takes requests"),
    ],
)
def test_a_pause_is_not_shown_as_the_work_of_the_breaker(
    inside: Client, node: AnsweringNode, pause: str, text: str
) -> None:
    node.known["hook"] = a_callback(breaker=a_breaker("closed", pause))
    for place in ("", "one?name=hook"):
        assert text in page_of(inside, f"/console/callbacks/{place}")


@pytest.mark.usefixtures("hook")
def test_without_a_node_the_pages_report_an_unknown_status(inside: Client) -> None:
    for place in ("", "one?name=hook"):
        assert "does not know the status of callbacks" in page_of(inside, f"/console/callbacks/{place}")
    assert "does not know the status of callbacks" in sent(inside, "/console/callbacks/test?name=hook")
    reply = sent(inside, "/console/callbacks/control?name=hook", "push")
    assert "does not know the status of callbacks" in reply


@pytest.mark.usefixtures("hook")
def test_a_callback_is_shown_with_its_pushes(inside: Client, node: AnsweringNode) -> None:
    node.known["hook"] = a_callback()
    page = page_of(inside, "/console/callbacks/one?name=hook")
    for text in ("breaker of hooks.example.org:443", "12 ms, 250 ms", "01JD", "2026-01-31 12:00:00 UTC"):
        assert text in page, text
    assert "it answered 500: &lt;b&gt;" in page and "whsec_" not in page


@pytest.mark.usefixtures("hook", "node")
def test_the_settings_of_a_callback_are_shown_as_words(inside: Client) -> None:
    german = {"Accept-Language": "de"}
    page = inside.get("/console/callbacks/one?name=hook", headers=german).content.decode()
    assert "<dt>Längster Abstand</dt><dd>1 h</dd>" in page
    assert "<dt>Inhaltsmodus</dt><dd>Attribute in Headern</dd>" in page
    assert "max_retry_s" not in page and "binary" not in page


@pytest.mark.usefixtures("node")
def test_a_new_callback_without_a_secret_shows_the_one_that_was_made_once(inside: Client) -> None:
    page = sent(inside, "/console/callbacks/add", name="hook", headers="X-Team: shop", **FORM)
    secret = callbacks()["hook"].secret
    assert secret in page and "The secret is shown only once." in page
    assert RESOURCE_TYPES["callbacks"].read()["hook"]["headers"] == {"X-Team": "shop"}
    assert secret not in page_of(inside, "/console/callbacks/one?name=hook")
    edit = page_of(inside, "/console/callbacks/edit?name=hook")
    assert "X-Team: shop" in edit and secret not in edit


def test_the_form_shows_what_is_wrong_at_its_field(inside: Client) -> None:
    page = sent(inside, "/console/callbacks/add", name="hook", **{**FORM, "url": "ftp://x", "headers": "x"})
    assert "“x” is not Name: value" in page
    page = sent(inside, "/console/callbacks/add", name="hook", **{**FORM, "topic": "a"})
    assert "either queue or topic must be set" in page
    assert not Callback.objects.exists()


@pytest.mark.usefixtures("hook")
def test_the_preview_of_a_new_callback_has_no_secret(inside: Client) -> None:
    page = sent(inside, "/console/callbacks/add", "preview", name="other", **FORM)
    assert "whsec_" not in re.sub(r"whsec_… that signs|whsec_…", "", page)
    assert Callback.objects.count() == 1


@pytest.mark.usefixtures("hook", "node")
def test_a_callback_is_paused_and_resumed(inside: Client) -> None:
    page = sent(inside, "/console/callbacks/control?name=hook", "pause")
    assert "Callback hook was changed." in page
    assert RESOURCE_TYPES["callbacks"].read()["hook"]["desired"] == "paused"
    sent(inside, "/console/callbacks/control?name=hook", "resume")
    assert RESOURCE_TYPES["callbacks"].read()["hook"]["desired"] == "running"


@pytest.mark.usefixtures("hook", "node")
def test_a_rotated_secret_is_shown_once(inside: Client) -> None:
    former = callbacks()["hook"].secret
    page = sent(inside, "/console/callbacks/control?name=hook", "rotate")
    found = callbacks()["hook"]
    assert found.secret in page and found.secret != former
    assert found.former_secret == former
    assert AuditEntry.objects.first().secrets == ["secret"]  # type: ignore[union-attr]


@pytest.mark.usefixtures("hook")
def test_push_now_and_tests_are_audited(inside: Client, node: AnsweringNode) -> None:
    node.known["hook"] = a_callback()
    sent(inside, "/console/callbacks/control?name=hook", "push")
    assert node.pushed == ["hook"]
    assert "8 callbacks are being tested already" in sent(inside, "/console/callbacks/test?name=hook")
    node.test = {
        "ok": False, "outcome": "failed", "detail": "it answered 500: <i>", "seconds": 0.2,
        "request": {"method": "POST", "url": URL, "headers": {"ce-type": "mom.test"}, "body": "{}"},
        "response": {"status": 500, "headers": {"server": "x"}, "body": "<i>"},
    }  # fmt: skip
    page = sent(inside, "/console/callbacks/test?name=hook")
    assert "The receiver did not accept the test" in page and "ce-type: mom.test" in page
    assert "&lt;i&gt;" in page and "<i>" not in page
    actions = list(AuditEntry.objects.order_by("number").values_list("action", flat=True))
    assert actions[-2:] == ["retried", "tested"]
