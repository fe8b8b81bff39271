"""The page of the audit log."""

import json

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from broker_app.models import AuditEntry
from broker_app.web import actions
from broker_app.web.actions import SYSTEM, Edit, apply

pytestmark = pytest.mark.django_db


def entries(client: Client, **filters: str) -> str:
    return client.get("/console/audit/", filters).content.decode().partition("<tbody>")[2]


def test_the_audit_log_is_filtered_by_its_address(inside: Client, john: User) -> None:
    apply(actions.Actor("mary", actions.CLI, "10.1.2.3", reason="in a hurry"), [Edit("rules", "first", {})])
    page = inside.get("/console/audit/").content.decode()
    assert "chain verified" in page and "mary" in page and "10.1.2.3" in page
    assert "Rule first created" in entries(inside, author="mary") and "User john" not in entries(
        inside, author="mary"
    )
    assert "User john" in entries(inside, kind="users", key="OH") and "Rule " not in entries(
        inside, kind="users"
    )
    assert "first" in entries(inside, words="hurry") and "first" not in entries(inside, until="2001-01-01")
    assert "first" in entries(inside, since="2001-01-01", before="99999")
    assert "No entry matches" in inside.get("/console/audit/?author=nobody").content.decode()
    assert inside.get("/console/audit/?since=yesterday&kind=x&before=x").status_code == 200


def test_a_modified_entry_breaks_the_chain(inside: Client) -> None:
    AuditEntry.objects.filter(number=1).update(author="somebody else")
    assert "chain broken at entry 1" in inside.get("/console/audit/").content.decode()


@pytest.mark.django_db(transaction=True)
async def test_the_audit_log_is_downloaded_with_its_filter() -> None:
    await sync_to_async(actions.ensure_admin)("administrator")
    await sync_to_async(apply)(SYSTEM, [Edit("rules", "first", {}), Edit("groups", "ops", {})])
    client = AsyncClient()
    await client.aforce_login(await User.objects.aget(username="admin"))
    reply = await client.get("/console/audit/export?kind=rules")
    assert reply["Content-Type"] == "application/x-ndjson" and ".ndjson" in reply["Content-Disposition"]
    [line] = [json.loads(part) async for part in reply.streaming_content]  # type: ignore[attr-defined]
    assert (line["kind"], line["name"], line["action"]) == ("rules", "first", "created")
    reply = await client.get("/console/audit/export?kind=nothing")
    assert reply["Location"] == "/console/audit/?kind=nothing"
