"""Logging in by an OpenID Connect provider: a whole broker, a little provider, and a browser between."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.broker_process import BrokerProcess
from tests.support.identity_provider import IdentityProvider

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider()
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def broker(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    environment = {
        **provider.settings(),
        "MOM_OIDC_GROUPS_CLAIM": "groups",
        "MOM_OIDC_ADMIN_GROUP": "operators",
    }
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data", environment=environment)
    process.start()
    for group in ("staff", "drivers"):
        assert (
            process.request("PUT", f"/api/v1/groups/{group}", json_body={}, if_none_match="*").status == 201
        )
    yield process
    process.kill()


@pytest.fixture(autouse=True)
def as_it_was(provider: IdentityProvider) -> None:
    provider.claims = {"sub": "4711", "preferred_username": "ann", "email": "ann@acme.example"}
    provider.userinfo, provider.id_token, provider.denies = None, {}, False


@pytest.fixture
def browser(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.url, follow_redirects=True, trust_env=False) as client:
        yield client


def user(broker: BrokerProcess, name: str) -> dict[str, Any] | None:
    reply = broker.request("GET", f"/api/v1/users/{name}")
    return reply.json() if reply.status == 200 else None  # type: ignore[no-any-return]


def sentence(reply: httpx.Response) -> str:
    told = re.search(r'<p role="alert">(.*?)</p>', reply.text, re.DOTALL)
    assert told, reply.text
    return told[1]


def test_the_login_page_leads_to_the_provider_and_back_to_the_requested_page(
    broker: BrokerProcess, browser: httpx.Client
) -> None:
    page = browser.get("/console/")
    assert page.url.path == "/login/" and "Sign in with Acme login" in page.text
    there = re.search(r'href="(/login/oidc/[^"]*)"', page.text)
    assert there
    reply = browser.get(there[1])
    assert (reply.status_code, reply.url.path) == (200, "/console/")
    assert "form-action 'self'" in reply.headers["content-security-policy"]
    made = user(broker, "ann")
    assert made is not None
    assert (made["email"], made["administrator"]) == ("ann@acme.example", False)


def test_a_login_and_the_user_it_made_are_audited(
    broker: BrokerProcess, browser: httpx.Client, provider: IdentityProvider
) -> None:
    provider.claims = {"sub": "audited", "preferred_username": "audited"}
    browser.get("/login/oidc/")
    asked = "SELECT action, author, reason FROM broker_app_auditentry WHERE key = 'audited' ORDER BY number"
    with contextlib.closing(sqlite3.connect(broker.data / "config.sqlite3")) as database:
        entries = database.execute(asked).fetchall()
    assert entries == [("created", "audited", "login by Acme login"), ("logged in", "audited", "")]


def test_groups_of_the_claim_that_are_known_here_count_at_each_login(
    broker: BrokerProcess, browser: httpx.Client, provider: IdentityProvider
) -> None:
    provider.claims |= {"sub": "grouped", "preferred_username": "gus", "groups": ["staff", "elsewhere"]}
    browser.get("/login/oidc/")
    first = user(broker, "gus")
    assert first is not None and first["groups"] == ["staff"] and not first["administrator"]
    provider.claims["groups"] = ["drivers", "operators"]
    browser.cookies.clear()
    browser.get("/login/oidc/")
    second = user(broker, "gus")
    assert second is not None and second["groups"] == ["drivers"] and second["administrator"]


def test_a_taken_name_is_refused(
    broker: BrokerProcess, browser: httpx.Client, provider: IdentityProvider
) -> None:
    provider.claims = {"sub": "666", "preferred_username": "admin"}
    reply = browser.get("/login/oidc/")
    assert (reply.status_code, sentence(reply)) == (403, "There is another user admin here already.")
    assert browser.get("/console/").url.path == "/login/"


def test_a_person_stays_the_same_user_under_another_name(
    broker: BrokerProcess, browser: httpx.Client, provider: IdentityProvider
) -> None:
    provider.claims = {"sub": "married", "preferred_username": "mia"}
    browser.get("/login/oidc/")
    provider.claims["preferred_username"] = "mia-new"
    browser.cookies.clear()
    browser.get("/login/oidc/")
    assert user(broker, "mia-new") is None
    provider.claims = {"sub": "another", "preferred_username": "mia"}
    browser.cookies.clear()
    assert browser.get("/login/oidc/").status_code == 403


def test_a_deactivated_user_stays_outside(
    broker: BrokerProcess, browser: httpx.Client, provider: IdentityProvider
) -> None:
    provider.claims = {"sub": "gone", "preferred_username": "gone"}
    browser.get("/login/oidc/")
    off = broker.request("PATCH", "/api/v1/users/gone", json_body={"active": False}, if_match="*")
    assert off.status == 200, off.body
    browser.cookies.clear()
    assert sentence(browser.get("/login/oidc/")) == "The user gone is deactivated."


@pytest.mark.parametrize(
    "id_token",
    [{"iss": "https://evil.example"}, {"aud": "another"}, {"exp": 1_000_000_000}],
    ids=["issuer", "audience", "expired"],
)
def test_an_id_token_for_another_audience_is_refused(
    browser: httpx.Client, provider: IdentityProvider, id_token: dict[str, Any]
) -> None:
    provider.id_token = id_token
    assert sentence(browser.get("/login/oidc/")) == "Acme login did not say who you are."


def test_an_id_token_of_another_signature_does_not_count(
    browser: httpx.Client, provider: IdentityProvider
) -> None:
    right, provider.key = provider.key, rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert sentence(browser.get("/login/oidc/")) == "Acme login did not say who you are."
    provider.key = right


def test_userinfo_of_another_person_does_not_count(browser: httpx.Client, provider: IdentityProvider) -> None:
    provider.userinfo = {"sub": "somebody else", "preferred_username": "admin"}
    assert sentence(browser.get("/login/oidc/")) == "Acme login has two subjects."


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"sub": "1"}, "Acme login does not contain your user name (the claim preferred_username)."),
        ({"sub": "1", "preferred_username": "no name!"}, None),
        ({"sub": "1", "preferred_username": "token"}, None),
        ({"sub": "1", "preferred_username": "x" * 200}, None),
    ],
)
def test_an_invalid_name_is_reported(
    browser: httpx.Client, provider: IdentityProvider, claims: dict[str, Any], said: str | None
) -> None:
    provider.claims = claims
    reply = browser.get("/login/oidc/")
    assert reply.status_code == 403
    assert sentence(reply) == said if said else "cannot be a user here" in sentence(reply)


def test_a_denial_by_the_provider_is_reported(browser: httpx.Client, provider: IdentityProvider) -> None:
    provider.denies = True
    assert sentence(browser.get("/login/oidc/")) == "Acme login did not say who you are."


def test_a_callback_of_an_unknown_login_is_refused(browser: httpx.Client) -> None:
    assert browser.get("/login/oidc/callback/?code=x&state=made-up").status_code == 403
    assert browser.get("/login/oidc/callback/").status_code == 403
    assert browser.post("/login/oidc/").status_code == 403


def test_a_redirect_to_another_site_is_ignored(browser: httpx.Client) -> None:
    reply = browser.get("/login/oidc/?next=https://evil.example/")
    assert reply.url.path == "/console/"


def test_an_unreachable_provider_is_reported(
    provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    away = {**provider.settings(), "MOM_OIDC_ISSUER": "http://127.0.0.1:9/realm"}
    broker = BrokerProcess(tmp_path_factory.mktemp("alone") / "data", environment=away)
    broker.start()
    try:
        reply = httpx.get(f"{broker.url}/login/oidc/", trust_env=False)
        assert (reply.status_code, sentence(reply)) == (
            502,
            "Acme login cannot be reached, or answers strangely.",
        )
    finally:
        broker.kill()
