"""The page of the OpenID Connect provider: its test, and what claims mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from broker_app.web.actions import SYSTEM, Claims, external_user
from broker_app.web.auth.discovery import examine
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.snapshot import running_config
from tests.support.identity_provider import IdentityProvider
from tests.support.ports import reserve_port

pytestmark = pytest.mark.django_db
PAGE = "/console/settings/oidc"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider()
    yield provider
    provider.close()


def test_a_provider_is_examined_step_by_step(provider: IdentityProvider) -> None:
    steps = examine(f"{provider.issuer}/")
    assert [step.ok for step in steps] == [True] * 5, steps
    assert f"{provider.issuer}/token" in steps[2].detail and steps[4].detail == "1 for signatures: RS256"


@pytest.mark.parametrize(
    ("document", "at", "words"),
    [
        ({"issuer": "https://other.example"}, 1, "is of https://other.example, and not of"),
        ({"jwks_uri": None}, 2, "lacks jwks_uri"),
        ({"token_endpoint": "http://login.example/token"}, 2, "not https: http://login.example/token"),
        ({"response_types_supported": ["id_token"]}, 3, "no login by authorization code"),
        ({"code_challenge_methods_supported": ["plain"]}, 3, "does not take PKCE"),
        ({"jwks_uri": "/realm/none"}, 4, "answers 404"),
        ({"jwks_uri": "/realm/userinfo"}, 4, "has no key for signatures"),
    ],
)
def test_what_is_wrong_is_said_in_words(
    provider: IdentityProvider,
    monkeypatch: pytest.MonkeyPatch,
    document: dict[str, Any],
    at: int,
    words: str,
) -> None:
    right, host = provider._discovery(), provider.issuer.removesuffix("/realm")
    if str(document.get("jwks_uri", "")).startswith("/"):
        document = {"jwks_uri": host + document["jwks_uri"]}
    monkeypatch.setattr(provider, "_discovery", lambda: {**right, **document})
    step = examine(provider.issuer)[at]
    assert step.ok is False and words in step.detail


@pytest.mark.parametrize(
    ("path", "words"), [("/none", "answers 404 instead of 200"), ("", "cannot be reached")]
)
def test_an_address_without_a_provider_ends_the_test(
    provider: IdentityProvider, path: str, words: str
) -> None:
    steps = examine(provider.issuer + path if path else f"http://127.0.0.1:{reserve_port()}")
    assert [step.ok for step in steps] == [False, None, None, None, None]
    assert words in steps[0].detail


def test_the_page_tests_a_provider_and_shows_how_to_start_with_it(
    inside: Client, provider: IdentityProvider
) -> None:
    assert "No provider is set" in inside.get(PAGE).content.decode()
    given = {"operation": "test", "issuer": provider.issuer, "client_id": "console"}
    page = inside.post(PAGE, given).content.decode()
    assert "The provider can be used" in page and f"MOM_OIDC_ISSUER={provider.issuer}" in page
    assert "http://testserver/login/oidc/callback/" in page
    page = inside.post(PAGE, {**given, "issuer": "ftp://x"}).content.decode()
    assert 'id="id_issuer_error"' in page and "MOM_OIDC" not in page
    page = inside.post(PAGE, {**given, "issuer": f"{provider.issuer}/none"}).content.decode()
    assert "The provider cannot be used" in page and "MOM_OIDC" not in page


def test_what_claims_mean_is_saved_and_applies_at_once(inside: Client) -> None:
    spec = {"environment": "test", "settings": {"credit": 50}}
    RESOURCE_TYPES["brokers"].write("mom", RESOURCE_TYPES["brokers"].complete("mom", spec, None), {})
    given = {"operation": "save", "oidc_groups_claim": "groups", "oidc_monitor_group": "watchers"}
    assert inside.post(PAGE, given).status_code == 302
    now = running_config()
    assert (now.oidc_groups_claim, now.oidc_monitor_group) == ("groups", "watchers")
    assert (now.oidc_username_claim, now.credit) == ("preferred_username", 50)
    page = inside.get(PAGE).content.decode()
    assert 'value="watchers"' in page
    assert inside.post(PAGE, {"operation": "save"}).status_code == 302
    assert running_config().oidc_monitor_group is None


def test_no_secret_is_shown(inside: Client, settings: Any) -> None:
    settings.MOM = settings.MOM.__class__(name="mom", oidc_client_secret="of-the-console")
    page = inside.get(PAGE).content.decode()
    assert "set; it is not shown" in page and "of-the-console" not in page


@pytest.mark.parametrize(
    ("administrator", "monitor", "role"),
    [(False, True, "monitor"), (True, True, "administrator"), (False, False, "")],
)
def test_groups_of_the_provider_give_roles(administrator: bool, monitor: bool, role: str) -> None:
    Group.objects.create(name="watchers")
    for claims in (
        Claims("https://a", "1", "ann", monitor=True),
        Claims("https://a", "1", "ann", administrator=administrator, monitor=monitor),
    ):
        user = external_user(SYSTEM, claims, link=False)
    assert (user.is_superuser, user.is_staff) == (role == "administrator", role != "")
