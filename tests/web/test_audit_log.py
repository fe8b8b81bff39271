"""Entries of the audit log that no edit made, and their deletion."""

import asyncio
import base64
import contextlib
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

from broker_app.base.audit_actions import MESSAGES_PURGED
from broker_app.models import AuditChain, AuditEntry, Change
from broker_app.net.operator_audit import Operator, OperatorAction, OperatorActions
from broker_app.web import actions, audit_sources
from broker_app.web.actions import audit
from tests.support.patience import patient

pytestmark = pytest.mark.django_db

ANN = Operator("ann", "laptop", "console", "192.0.2.7", "too many", "4b" * 16)
NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)
PASSWORD = "correct horse battery"


def entries() -> list[AuditEntry]:
    return list(AuditEntry.objects.order_by("number"))


@pytest.fixture
def john() -> User:
    cache.clear()
    user = actions.create_user(actions.SYSTEM, "john", PASSWORD)
    audit.prune(timezone.now() + timedelta(days=1))
    return user


def test_actions_of_the_data_plane_are_entries_with_their_author_and_time() -> None:
    action = OperatorAction(NOON.timestamp(), ANN, "purged", "queues", "/queue/orders", {"messages": 3})
    assert audit_sources.write([action, action])
    first, _ = entries()
    assert (first.author, first.token, first.via, first.address) == ("ann", "laptop", "console", "192.0.2.7")
    assert (first.reason, first.trace_id, first.time) == ("too many", "4b" * 16, NOON)
    assert (first.action, first.kind, first.key) == ("purged", "queues", "/queue/orders")
    assert (first.before, first.after, first.change) == (None, {"messages": 3}, None)
    assert audit.verify().broken_at is None


def test_actions_wait_while_the_database_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(actions: Any) -> None:
        raise DatabaseError("disk I/O error")

    monkeypatch.setattr(audit, "record_all", fails)
    assert not audit_sources.write([])


@pytest.mark.django_db(transaction=True)
async def test_the_writer_stores_new_actions_and_the_remaining_ones_when_it_stops() -> None:
    actions = OperatorActions()
    keeping = asyncio.create_task(audit_sources.keep(actions, interval_s=0.01))
    actions.note(ANN, MESSAGES_PURGED, "/queue/first")
    async with asyncio.timeout(patient(10)):
        while not await AuditEntry.objects.filter(key="/queue/first").aexists():
            await asyncio.sleep(0.01)
    actions.note(ANN, MESSAGES_PURGED, "/queue/last")
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping
    keys = [entry.key async for entry in AuditEntry.objects.order_by("number")]
    assert keys == ["/queue/first", "/queue/last"]


@pytest.mark.django_db(transaction=True)
async def test_a_writer_that_stops_without_actions_leaves_the_database_alone() -> None:
    keeping = asyncio.create_task(audit_sources.keep(OperatorActions(), interval_s=60))
    await asyncio.sleep(0)
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping
    assert not await AuditChain.objects.aexists()


async def test_what_is_being_written_when_the_writer_stops_is_written_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, going_on = threading.Event(), threading.Event()
    written: list[str] = []

    def write(actions: list[OperatorAction]) -> bool:
        begun.set()
        assert going_on.wait(patient(10))
        written.extend(action.key for action in actions)
        return True

    monkeypatch.setattr(audit_sources, "write", write)
    actions = OperatorActions()
    actions.note(ANN, MESSAGES_PURGED, "/queue/first")
    keeping = asyncio.create_task(audit_sources.keep(actions, interval_s=0))
    assert await asyncio.to_thread(begun.wait, patient(10))
    keeping.cancel()
    actions.note(ANN, MESSAGES_PURGED, "/queue/last")
    asyncio.get_running_loop().call_soon(going_on.set)
    with contextlib.suppress(asyncio.CancelledError):
        await keeping
    assert written == ["/queue/first", "/queue/last"]


def test_a_login_to_the_console_is_recorded(john: User, client: Client) -> None:
    client.post("/login/", {"username": "john", "password": PASSWORD})
    (entry,) = entries()
    assert (entry.author, entry.action, entry.kind, entry.key) == ("john", "logged in", "users", "john")
    assert (entry.via, entry.address) == ("console", "127.0.0.1")


def test_a_one_time_link_is_a_login_too(john: User, client: Client) -> None:
    client.get(f"/login/once/{actions.create_login_link(john)}")
    assert [entry.action for entry in entries()] == ["logged in"]


def test_a_failed_login_is_recorded_without_the_password(john: User, client: Client) -> None:
    client.post("/login/", {"username": "john", "password": "marker of a wrong password"})
    (entry,) = entries()
    assert (entry.author, entry.action, entry.key, entry.via) == ("", "login failed", "john", "console")
    assert "marker" not in str(vars(entry))


def test_a_wrong_password_of_the_api_is_recorded_as_that(john: User, client: Client) -> None:
    credentials = base64.b64encode(b"john:wrong").decode()
    assert client.get("/api/v1/users", headers={"authorization": f"Basic {credentials}"}).status_code == 401
    assert [(entry.action, entry.key, entry.via) for entry in entries()] == [("login failed", "john", "api")]


def test_requests_of_logged_in_users_are_not_logins(john: User, client: Client) -> None:
    credentials = base64.b64encode(f"john:{PASSWORD}".encode()).decode()
    client.get("/api/v1/tokens", headers={"authorization": f"Basic {credentials}"})
    secret = actions.create_token(actions.SYSTEM, john, "laptop").secret
    client.get("/api/v1/tokens", headers={"authorization": f"Bearer {secret}"})
    assert [entry.action for entry in entries()] == ["created"]


def test_a_flood_of_wrong_passwords_does_not_fill_the_log(
    john: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_sources, "MAX_FAILED", 3)
    monkeypatch.setattr("broker_app.web.audit_sources.time.time", lambda: 1_000_000.0)
    for number in range(6):
        client.post("/login/", {"username": f"nobody{number}", "password": "x"})
    assert [entry.action for entry in entries()] == ["login failed"] * 3 + ["logins fail"]


@pytest.mark.parametrize("name", ["", "x" * 10_000, "\ud800", "a\0b", "<script>"])
def test_any_name_that_is_tried_can_be_recorded(john: User, client: Client, name: str) -> None:
    credentials = base64.b64encode(f"{name}:x".encode(errors="surrogatepass")).decode()
    reply = client.get("/api/v1/tokens", headers={"authorization": f"Basic {credentials}"})
    assert reply.status_code == 401
    assert audit.verify().broken_at is None


def test_expired_entries_are_deleted_and_the_rest_verifies(
    john: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        actions.apply(actions.SYSTEM, [actions.Edit("groups", f"g{number}", {})])
    old = timezone.now() - timedelta(days=settings.MOM.audit_days + 1)
    audit_sources.write([OperatorAction(old.timestamp(), ANN, "purged", "queues", "/queue/old", {})])
    audit.prune(timezone.now() + timedelta(days=1))
    audit_sources.write([OperatorAction(old.timestamp(), ANN, "purged", "queues", "/queue/older", {})] * 3)
    audit_sources.write(
        [OperatorAction(timezone.now().timestamp(), ANN, "purged", "queues", "/queue/new", {})]
    )
    monkeypatch.setattr(audit_sources, "_VERSIONS", 10)
    audit_sources.prune()
    assert [entry.key for entry in entries()] == ["/queue/new"]
    assert audit.verify().broken_at is None
    assert list(Change.objects.order_by("number").values_list("number", flat=True)) == list(range(12, 22))
