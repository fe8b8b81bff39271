"""Pages: their readers, and the headers for browsers."""

import json
import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client

from broker_app.net.problems import PROBLEMS
from broker_app.web import actions, api
from broker_app.web.console import overview

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "path", ["/login/", "/docs/problems/", "/api/v1/openapi.json", "/nowhere", "/admin/login/"]
)
def test_every_reply_carries_the_security_headers(client: Client, path: str) -> None:
    reply = client.get(path)
    policy = dict(part.strip().split(" ", 1) for part in reply["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in reply["Content-Security-Policy"]
    assert reply["X-Content-Type-Options"] == "nosniff"
    assert reply["X-Frame-Options"] == "DENY"
    assert reply["Referrer-Policy"] == "same-origin"
    assert reply["Cross-Origin-Opener-Policy"] == "same-origin"


def test_the_console_requires_a_login(client: Client, admin: User) -> None:
    assert client.get("/").headers["Location"] == "/console/"
    assert client.get("/console/").headers["Location"] == "/login/?next=/console/"
    reply = client.post("/login/?next=/console/", {"username": "admin", "password": "administrator"})
    assert reply.headers["Location"] == "/console/"
    cookie = client.cookies["mom_session"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"
    assert client.get("/console/").status_code == 200
    assert client.post("/logout/").headers["Location"] == "/login/"
    assert client.get("/console/").status_code == 302


def test_a_form_without_its_secret_is_refused(admin: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/login/", {"username": "admin", "password": "administrator"}).status_code == 403


@pytest.mark.parametrize("name", ["", "\0", "x" * 10_000, "jöhn doe"])
def test_unusual_user_names_are_refused_as_wrong_logins(client: Client, name: str) -> None:
    assert client.post("/login/", {"username": name, "password": "wrong"}).status_code == 200


def test_a_one_time_link_opens_the_console_once(client: Client, admin: User) -> None:
    path = f"/login/once/{actions.create_login_link(admin)}"
    assert client.head(path).status_code == 405
    assert client.get(path, headers={"Sec-Purpose": "prefetch;prerender"}).status_code == 503
    assert client.get(path).headers["Location"] == "/console/welcome/"
    assert client.get("/console/").status_code == 200
    second = Client().get(path)
    assert second.status_code == 410
    assert b"already used" in second.content


def test_the_admin_shows_and_does_not_change(inside: Client, admin: User) -> None:
    token = actions.create_token(actions.SYSTEM, admin, "laptop").token
    for path in ("auth/user/", f"auth/user/{admin.pk}/change/", f"broker_app/token/{token.pk}/change/"):
        reply = inside.get(f"/admin/{path}")
        assert reply.status_code == 200
        assert admin.password.encode() not in reply.content
    assert inside.get("/admin/auth/user/add/").status_code == 403
    new = {"old_password": "administrator", "new_password1": "x" * 20, "new_password2": "x" * 20}
    assert inside.post("/admin/password_change/", new)["Location"] == "/console/"
    assert inside.post(f"/admin/auth/user/{admin.pk}/change/", {"username": "x"}).status_code == 403
    assert inside.post(f"/admin/broker_app/token/{token.pk}/delete/", {"post": "yes"}).status_code == 403


def test_each_type_of_problem_has_its_page(client: Client) -> None:
    whole = client.get("/docs/problems/").content.decode()
    for problem in PROBLEMS.values():
        assert f"/docs/problems/{problem.name}" in whole
        assert problem.title in client.get(f"/docs/problems/{problem.name}").content.decode()
    assert client.get("/docs/problems/unheard-of").status_code == 404


def body(reply: Any) -> Any:
    return json.loads(reply.content)


def test_a_token_is_made_listed_used_and_revoked(inside: Client) -> None:
    made = inside.post("/api/v1/tokens", {"name": "laptop"}, content_type="application/json")
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    secret = body(made)["token"]
    with_token = Client(headers={"Authorization": f"Bearer {secret}"})
    [item] = body(with_token.get("/api/v1/tokens"))["items"]
    assert (item["name"], item["expires"]) == ("laptop", None)
    assert "token" not in item
    assert with_token.delete(f"/api/v1/tokens/{item['id']}", headers={"If-Match": "*"}).status_code == 204
    assert with_token.get("/api/v1/tokens").status_code == 401


def test_a_password_will_do_for_the_first_token(admin: User) -> None:
    # admin:administrator
    basic = Client(headers={"Authorization": "Basic YWRtaW46YWRtaW5pc3RyYXRvcg=="})
    assert basic.post("/api/v1/tokens", {"name": "x"}, content_type="application/json").status_code == 201


def test_tokens_of_others_do_not_exist(client: Client, admin: User) -> None:
    jane = actions.create_user(actions.SYSTEM, "jane", "correct horse battery")
    token = actions.create_token(actions.SYSTEM, admin, "phone").token
    client.force_login(jane)
    assert body(client.get("/api/v1/tokens"))["items"] == []
    for address in (token.pk, "admin/phone", "admin/unheard-of", 99):
        reply = client.delete(f"/api/v1/tokens/{address}", headers={"If-Match": "*"})
        assert (reply.status_code, body(reply)["type"]) == (404, "/docs/problems/not-found")


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        ({}, "/name"),
        ({"name": ""}, "/name"),
        ({"name": "x", "expires": "soon"}, "/expires"),
        ({"name": "x", "expires": "2020-01-01T00:00:00Z"}, "/expires"),
        ({"name": "x", "expiry": None}, "/expiry"),
        ([], ""),
    ],
)
def test_an_invalid_request_is_a_problem_that_names_the_field(
    inside: Client, content: Any, pointer: str
) -> None:
    reply = inside.post("/api/v1/tokens", json.dumps(content), content_type="application/json")
    problem = body(reply)
    assert reply["Content-Type"] == "application/problem+json"
    assert (reply.status_code, problem["status"], problem["type"]) == (400, 400, "/docs/problems/invalid")
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


def test_an_unknown_field_comes_with_a_suggestion(inside: Client) -> None:
    reply = inside.post("/api/v1/tokens", {"name": "x", "expire": None}, content_type="application/json")
    assert body(reply)["errors"] == [
        {"pointer": "/expire", "detail": "there is no field 'expire'; did you mean expires?"}
    ]


def test_a_name_taken_is_a_conflict(inside: Client) -> None:
    inside.post("/api/v1/tokens", {"name": "x"}, content_type="application/json")
    reply = inside.post("/api/v1/tokens", {"name": "x"}, content_type="application/json")
    assert (reply.status_code, body(reply)["type"]) == (409, "/docs/problems/conflict")


@pytest.mark.parametrize(
    ("method", "content_type", "content", "name"),
    [
        ("put", "application/json", "{}", "method-not-allowed"),
        ("post", "text/plain", "name", "unsupported-type"),
        ("post", "application/json", "{", "invalid"),
    ],
)
def test_other_mistakes_are_problems_too(
    inside: Client, method: str, content_type: str, content: str, name: str
) -> None:
    reply = getattr(inside, method)("/api/v1/tokens", content, content_type=content_type)
    assert body(reply)["type"] == f"/docs/problems/{name}"
    assert reply.status_code == PROBLEMS[name].status


def test_a_wrong_credential_gets_a_login_challenge(client: Client, admin: User) -> None:
    for header in ("", "Bearer mom_made-up", "Basic YWRtaW46eA==", "Bearer \u00fc"):
        reply = client.get("/api/v1/tokens", headers={"Authorization": header} if header else {})
        assert reply.status_code == 401
        assert reply["WWW-Authenticate"] == 'Bearer realm="mom"'
        assert body(reply)["type"] == "/docs/problems/not-authenticated"


def test_the_console_cannot_be_made_to_change_tokens_by_another_page(admin: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin)
    reply = strict.post("/api/v1/tokens", {"name": "x"}, content_type="application/json")
    assert (reply.status_code, body(reply)["type"]) == (403, "/docs/problems/not-allowed")


def test_the_api_document_describes_the_tokens(client: Client) -> None:
    document = body(client.get("/api/v1/openapi.json"))
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]["/api/v1/tokens"]) == {"get", "post"}
    assert {"token", "password"} <= set(document["components"]["securitySchemes"])
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert all(one["summary"] for one in operations)


def test_the_document_for_the_data_plane_is_the_same(client: Client) -> None:
    assert json.loads(json.dumps(api.document())) == body(client.get("/api/v1/openapi.json"))


def test_an_unknown_address_is_reported_in_a_sentence(inside: Client) -> None:
    reply = inside.get("/console/nothing")
    assert reply.status_code == 404
    assert (
        "This page does not exist" in reply.content.decode() and "Resolver404" not in reply.content.decode()
    )


def test_an_internal_error_names_the_broker_its_place_in_the_log_and_ways_on(
    inside: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: HttpRequest) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(overview, "node_of", fail)
    inside.raise_request_exception = False
    inside.cookies["mom_theme"] = "dark"
    reply = inside.get("/console/?range=3h")
    page = reply.content.decode()
    assert reply.status_code == 500 and "a fault of ours" not in page
    assert f">{settings.MOM.name}</a>" in page and 'data-theme="dark"' in page
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  GET /console/<", page)
    assert 'href="/console/?range=3h">Try again<' in page and "To the console" in page


def test_the_page_of_the_http_interface_leads_back_to_the_console(client: Client) -> None:
    page = client.get("/docs/").content.decode()
    assert '<a href="/console/">To the console</a>' in page and 'id="swagger-ui"' in page
