"""Versions, the audit log and definitions over HTTP."""

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import AsyncClient, Client

from broker_app.models import AuditEntry
from broker_app.web import actions, history
from broker_app.web.actions import Edit, apply
from broker_app.web.api import audit as audit_api
from broker_app.web.resource_types import RESOURCE_TYPES
from tests.web.test_resources import Ask, asking, by_token, john

pytestmark = pytest.mark.django_db

YAML = "application/yaml"


@pytest.fixture(autouse=True)
def no_former_guesses() -> None:
    cache.clear()


@pytest.fixture
def admin() -> Client:
    actions.ensure_admin("administrator")
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    return client


@pytest.fixture
def ask(admin: Client) -> Ask:
    return asking(admin)


def group(name: str, *, gone: bool = False) -> int:
    version = apply(actions.SYSTEM, [Edit("groups", name, None if gone else {})]).version
    assert version is not None
    return version


# ---------------------------------------------------------------------- who may


EVERY = [
    ("GET", "config/versions"),
    ("GET", "config/versions/1"),
    ("GET", "config/versions/0/diff/1"),
    ("POST", "config/rollback"),
    ("GET", "audit"),
    ("GET", "audit/verify"),
    ("GET", "definitions"),
    ("POST", "definitions"),
    ("POST", "definitions/plan"),
]


def test_versions_are_for_administrators_only(ask: Ask) -> None:
    john()
    nobody, user = asking(Client()), by_token("john")
    limited = by_token("admin", [{"rights": ["browse"], "destinations": [">"]}], "limited")
    for method, path in EVERY:
        assert nobody(method, path, {}).problem == (401, "not-authenticated"), (method, path)
        assert user(method, path, {}).problem == (403, "not-allowed"), (method, path)
        assert limited(method, path, {}).problem == (403, "not-allowed"), (method, path)
        wrong = "DELETE" if method == "GET" else "PUT"
        assert ask(wrong, path, {}).problem == (405, "method-not-allowed"), (method, path)
        assert ask(method, f"{path}?colour=red", {}).problem == (400, "invalid"), (method, path)


# ---------------------------------------------------------------------- versions


def test_versions_are_listed_page_by_page_and_filtered(ask: Ask) -> None:
    newest = [group(f"g{number}") for number in range(5)][-1]
    ask("PUT", "rules/r", {}, mom_reason="spring%20cleaning")
    first = ask("GET", "config/versions?limit=2")
    assert first.headers["ETag"] == f'"{newest + 1}"'
    assert first.body["items"][0] == {
        "version": newest + 1,
        "time": first.body["items"][0]["time"],
        "author": "admin",
        "via": "console",
        "address": "127.0.0.1",
        "reason": "spring cleaning",
        "changes": [{"kind": "rules", "name": "r", "action": "created"}],
    }
    seen = [item["version"] for item in first.body["items"]]
    assert 'rel="next"' in first.headers["Link"]
    page = first
    while page.body["next"]:
        page = ask("GET", f"config/versions?limit=2&after={page.body['next']}")
        seen += [item["version"] for item in page.body["items"]]
    assert seen == list(range(newest + 1, 0, -1))
    one = ask("GET", "config/versions?kind=groups&name=g3").body["items"]
    assert [change["name"] for item in one for change in item["changes"]] == ["g3"]
    assert len(ask("GET", "config/versions?author=admin").body["items"]) == 1
    assert ask("GET", "config/versions?kind=group").pointers == ["query/kind"]


def test_one_version_shows_both_sides(ask: Ask) -> None:
    version = group("g")
    seen = ask("GET", f"config/versions/{version}").body
    assert seen["changes"] == [
        {
            "kind": "groups",
            "name": "g",
            "action": "created",
            "before": None,
            "after": {},
            "diff": [],
            "secrets": [],
        }
    ]
    for missing in ("0", str(version + 1), "9" * 30):
        assert ask("GET", f"config/versions/{missing}").problem == (404, "not-found")
        assert ask("GET", f"config/versions/{missing}/diff/{'9' * 30}").problem == (404, "not-found")


def test_two_versions_are_compared(ask: Ask) -> None:
    first = group("g")
    second = group("g", gone=True)
    group("h")
    seen = ask("GET", f"config/versions/{first}/diff/{second}").body
    assert [(change["name"], change["action"]) for change in seen["changes"]] == [("g", "removed")]
    assert "--- groups/g" in seen["text"]
    back = ask("GET", f"config/versions/{second}/diff/{first}").body
    assert [(change["name"], change["action"]) for change in back["changes"]] == [("g", "created")]


def test_a_rollback_is_previewed_and_then_made(ask: Ask) -> None:
    to = group("kept")
    newest = group("mistake")
    tried = ask("POST", "config/rollback", {"to": to, "dry_run": True})
    assert (tried.status, tried.body["dry_run"], tried.body["version"]) == (200, True, newest + 1)
    assert [(change["name"], change["action"]) for change in tried.body["changes"]] == [
        ("mistake", "removed")
    ]
    assert tried.headers["ETag"] == f'"{newest}"'
    done = ask("POST", "config/rollback", {"to": to, "reason": "oops"}, if_match=tried.headers["ETag"])
    assert (done.status, done.body["version"], done.body["kept"]) == (200, newest + 1, [])
    assert list(RESOURCE_TYPES["groups"].read()) == ["kept"]
    assert history.version(newest + 1).reason == f"back to version {to}: oops"
    again = ask("POST", "config/rollback", {"to": to}, if_match=done.headers["ETag"])
    assert (again.body["version"], again.body["changes"]) == (None, [])


def test_a_rollback_names_the_version_it_replaces(ask: Ask) -> None:
    to, newest = group("a"), group("b")
    missing = ask("POST", "config/rollback", {"to": to})
    assert missing.problem == (428, "precondition-required")
    assert missing.body["current"] == f'"{newest}"'
    stale = ask("POST", "config/rollback", {"to": to}, if_match=f'"{to}"')
    assert stale.problem == (412, "precondition-failed")
    assert stale.body["current"] == f'"{newest}"'
    assert ask("POST", "config/rollback", {"to": to}, if_match="*").status == 200


def test_one_resource_is_rolled_back(ask: Ask) -> None:
    to = group("a")
    group("b")
    group("a", gone=True)
    wish = {"to": to, "kind": "groups", "name": "a"}
    done = ask("POST", "config/rollback", wish, if_match="*")
    assert [change["name"] for change in done.body["changes"]] == ["a"]
    assert list(RESOURCE_TYPES["groups"].read()) == ["a", "b"]


INVALID: list[tuple[Any, str]] = [
    ({}, "/to"),
    ({"to": "1"}, "/to"),
    ({"to": True}, "/to"),
    ({"to": -1}, "/to"),
    ({"to": 1, "dry_run": "yes"}, "/dry_run"),
    ({"to": 1, "reason": 1}, "/reason"),
    ({"to": 1, "kind": "groups"}, "/name"),
    ({"to": 1, "kind": "group", "name": "a"}, "/kind"),
    ({"to": 1, "kind": [], "name": "a"}, "/kind"),
    ({"too": 1}, "/too"),
    ([], ""),
]


def test_invalid_requests_are_refused(ask: Ask) -> None:
    for wish, pointer in INVALID:
        refused = ask("POST", "config/rollback", wish, if_match="*")
        assert refused.problem == (400, "invalid"), wish
        assert refused.pointers == [pointer], wish


def test_a_rollback_to_an_unknown_version_is_refused(ask: Ask) -> None:
    assert ask("POST", "config/rollback", {"to": 10**30}, if_match="*").problem == (404, "not-found")


# ---------------------------------------------------------------------- the audit log


def test_the_audit_log_is_listed_page_by_page_and_filtered(ask: Ask) -> None:
    group("a")
    ask("PUT", "rules/r", {"comment": "x"}, traceparent=f"00-{'4b' * 16}-{'a1' * 8}-01")
    newest = ask("GET", "audit?limit=1").body
    (entry,) = newest["items"]
    assert (entry["author"], entry["action"], entry["kind"], entry["name"]) == (
        "admin",
        "created",
        "rules",
        "r",
    )
    assert (entry["before"], entry["after"]["comment"], entry["trace_id"]) == (None, "x", "4b" * 16)
    older = ask("GET", f"audit?limit=1&after={newest['next']}").body["items"]
    assert [item["number"] for item in older] == [entry["number"] - 1]

    def found(query: str) -> set[str]:
        return {item["name"] for item in ask("GET", f"audit?{query}").body["items"]}

    assert found("kind=groups") == {"a"}
    assert found("kind=rules&name=r&action=created&author=admin&via=console") == {"r"}
    assert found(f"from={entry['time']}") == {"r"}
    assert found(f"to={entry['time']}&kind=rules") == set()
    for time in ("yesterday", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00%2B23:59", "2026-11-21T12:00:00"):
        assert ask("GET", f"audit?from={time}").pointers == ["query/from"]
    assert ask("GET", "audit?limit=0").pointers == ["query/limit"]


def test_the_audit_log_reports_whether_it_is_valid(ask: Ask) -> None:
    group("a")
    whole = ask("GET", "audit/verify").body
    assert (whole["valid"], whole["broken_at"], whole["entries"]) == (True, None, AuditEntry.objects.count())
    AuditEntry.objects.filter(number=1).update(author="nobody")
    assert ask("GET", "audit/verify").body["broken_at"] == 1


@pytest.mark.django_db(transaction=True)
async def test_the_audit_log_is_exported_as_lines_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_api, "_RUN", 2)
    await sync_to_async(actions.ensure_admin)("administrator")
    for number in range(5):
        await sync_to_async(group)(f"g{number}")
    client = AsyncClient()
    await client.aforce_login(await User.objects.aget(username="admin"))
    reply: Any = await client.get("/api/v1/audit?kind=groups", headers={"accept": "application/x-ndjson"})
    assert reply["Content-Type"] == "application/x-ndjson"
    lines = b"".join([piece async for piece in reply])
    assert [json.loads(line)["name"] for line in lines.splitlines()] == [f"g{number}" for number in range(5)]
    refused = await client.get("/api/v1/audit?kin=groups", headers={"accept": "application/x-ndjson"})
    assert (refused.status_code, refused["Content-Type"]) == (400, "application/problem+json")
    assert json.loads(refused.content)["errors"][0]["pointer"] == "query/kin"


# ---------------------------------------------------------------------- definitions


def post(admin: Client, path: str, content: str, content_type: str = YAML, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return admin.post(f"/api/v1/{path}", content, content_type, headers=named)


def test_definitions_are_exported_as_json_and_yaml(admin: Client) -> None:
    version = group("staff")
    reply = admin.get("/api/v1/definitions")
    assert (reply["Content-Type"], reply["ETag"]) == ("application/json", f'"{version}"')
    assert reply.json()["groups"] == {"staff": {}}
    assert reply.content.startswith(b'{\n  "mom_definitions": 1,\n')
    written = admin.get("/api/v1/definitions", headers={"accept": YAML})
    assert written["Content-Type"] == YAML
    assert b"groups:\n  staff: {}\n" in written.content
    assert admin.get("/api/v1/definitions", headers={"accept": "text/csv"}).status_code == 406
    refused = admin.get("/api/v1/definitions?a=1", headers={"accept": YAML})
    assert (refused.status_code, refused["Content-Type"]) == (400, "application/problem+json")
    assert refused.json()["errors"][0]["pointer"] == "query/a"


def test_a_plan_is_made_and_exactly_it_is_applied(admin: Client) -> None:
    version = group("old")
    document = "mom_definitions: 1\ngroups: {new: {}}\n"
    planned = post(admin, "definitions/plan?prune=true", document)
    assert planned.status_code == 200, planned.content
    plan = planned.json()
    assert (plan["applied"], plan["created"], plan["removed"], plan["unchanged"]) == (False, 1, 1, 0)
    assert plan["version"] == version
    tag = planned["ETag"]

    assert post(admin, "definitions?prune=true", document).status_code == 428
    other = "mom_definitions: 1\ngroups: {other: {}}\n"
    assert post(admin, "definitions?prune=true", other, if_match=tag).status_code == 412
    assert post(admin, "definitions", document, if_match=tag).status_code == 412
    done = post(admin, "definitions?prune=true", document, if_match=tag, mom_reason="as planned")
    assert done.status_code == 200, done.content
    assert (done.json()["applied"], done.json()["version"]) == (True, version + 1)
    assert (done["ETag"], list(RESOURCE_TYPES["groups"].read())) == (f'"{version + 1}"', ["new"])
    assert history.version(version + 1).reason == "as planned"
    again = post(admin, "definitions?prune=true", document, if_match=tag)
    assert (again.status_code, again.json()["current"]) == (412, f'"{version + 1}.{tag[1:-1].split(".")[1]}"')


def test_errors_of_a_document_are_reported_with_their_position(admin: Client) -> None:
    for path in ("definitions/plan", "definitions"):
        refused = post(admin, path, "mom_definitions: 1\nrules: {r: {efect: deny}}", if_match="*")
        assert refused.status_code == 400
        (error,) = refused.json()["errors"]
        assert error["pointer"] == "/rules/r/efect"
        assert "did you mean effect?" in error["detail"]
    broken = post(admin, "definitions/plan", "mom_definitions: [")
    assert "line" in broken.json()["detail"]
    assert post(admin, "definitions/plan", "{}", "application/json").status_code == 400
    assert post(admin, "definitions/plan", "", "application/json").status_code == 400
    assert post(admin, "definitions/plan", "a,b", "text/csv").status_code == 415
    assert post(admin, "definitions/plan?prune=maybe", "{}", "application/json").status_code == 400


def test_a_plan_shows_conflicts_with_files_and_applying_it_is_refused(admin: Client) -> None:
    apply(actions.SYSTEM, [Edit("rules", "r", {}, origin="zero.config:3")])
    document = json.dumps({"mom_definitions": 1, "rules": {"r": {"effect": "deny"}}})
    planned = post(admin, "definitions/plan", document, "application/json; charset=utf-8")
    assert planned.json()["conflicts"] == [{"kind": "rules", "name": "r", "origin": "zero.config:3"}]
    refused = post(admin, "definitions", document, "application/json", if_match=planned["ETag"])
    assert refused.status_code == 409
    assert "zero.config:3" in refused.json()["detail"]


def test_resources_created_without_their_password_are_reported(admin: Client) -> None:
    planned = post(admin, "definitions/plan", "mom_definitions: 1\nusers: {jane: {}}")
    assert planned.json()["without_secret"] == [{"kind": "users", "name": "jane"}]
