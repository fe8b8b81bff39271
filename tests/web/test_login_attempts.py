"""Logging in to console and control plane: what is refused, for how long, and what is written down."""

from __future__ import annotations

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, RequestFactory, override_settings
from rest_framework.request import Request

from broker_app.models import AuditEntry
from broker_app.net.auth.login import Logins
from broker_app.net.auth.login_throttle import MAX_VERIFICATIONS, VerificationSlots
from broker_app.net.policy.policy import Policy
from broker_app.web import actions
from broker_app.web.auth import backends
from broker_app.web.auth.authentication import PasswordAuthentication
from broker_app.web.auth.backends import slowed
from broker_app.web.snapshot import read_policy

pytestmark = pytest.mark.django_db

RIGHT = {"username": "admin", "password": "administrator"}


@pytest.fixture(autouse=True)
def admin() -> User:
    actions.ensure_admin("administrator")
    return User.objects.get(username="admin")


def wrong(number: int) -> dict[str, str]:
    """A wrong password, each time another one: one that is repeated is no guess."""
    return {"username": "admin", "password": f"wrong {number}"}


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"admin:{password}".encode()).decode()}


def test_five_wrong_passwords_close_the_page_for_a_minute_at_this_address(client: Client) -> None:
    for number in range(5):
        assert client.post("/login/", wrong(number)).status_code == 200
    reply = client.post("/login/", RIGHT)
    assert (reply.status_code, reply.headers["Retry-After"]) == (429, "60")
    assert b"Too many wrong passwords. Try again in 60 s." in reply.content
    elsewhere = Client(REMOTE_ADDR="192.0.2.1")
    assert elsewhere.post("/login/", RIGHT).status_code == 302


def test_the_page_and_the_api_count_together(client: Client) -> None:
    for number in range(3):
        client.post("/login/", wrong(number))
    for number in range(3, 5):
        assert client.get("/api/v1/tokens", headers=basic(f"wrong {number}")).status_code == 401
    reply = client.get("/api/v1/tokens", headers=basic("administrator"))
    assert (reply.status_code, reply.headers["Retry-After"]) == (429, "60")
    assert reply.json()["type"] == "/docs/problems/rate-limited"
    assert "too many wrong passwords: try again in 60 s" in reply.json()["detail"]


@pytest.mark.django_db(transaction=True)
@override_settings(PASSWORD_HASHERS=["mom_site.passwords.Argon2"])
def test_guesses_that_come_together_are_counted_as_those_that_come_one_by_one(admin: User) -> None:
    # A look at it is long enough for others to come meanwhile.
    admin.set_password("administrator")
    admin.save()
    together = threading.Barrier(20)

    def is_looked_at(number: int) -> bool:
        request = RequestFactory().post("/login/")
        together.wait(30)
        try:
            assert authenticate(request, username="admin", password=f"wrong {number}") is None
        finally:
            connection.close()
        return slowed(request) is None

    with ThreadPoolExecutor(20) as pool:
        looked_at = sum(pool.map(is_looked_at, range(20)))
    assert 5 <= looked_at <= 5 + MAX_VERIFICATIONS - 1


@pytest.mark.django_db(transaction=True)
def test_an_address_whose_passwords_wait_keeps_no_other_out(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "_SLOTS", VerificationSlots(8))
    with backends._SLOTS.taken("127.0.0.1"), backends._SLOTS.taken("127.0.0.1"):
        assert client.post("/login/", RIGHT).status_code == 429
        elsewhere = Client(REMOTE_ADDR="192.0.2.1")
        assert elsewhere.post("/login/", RIGHT).status_code == 302
    assert client.post("/login/", RIGHT).status_code == 302


def test_a_right_password_is_checked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    logins = Logins(read_policy(anonymous=False), check_password)
    loop = SimpleNamespace(call_soon_threadsafe=lambda call, *arguments: call(*arguments))
    request = RequestFactory().get("/api/v1/tokens", headers=basic("administrator"))
    request.scope = {"mom.node": SimpleNamespace(logins=logins, loop=loop)}  # type: ignore[attr-defined]
    login = PasswordAuthentication().authenticate
    first = login(Request(request))
    monkeypatch.setattr("django.contrib.auth.hashers.verify_password", None)
    assert first == login(Request(request)) == (User.objects.get(username="admin"), None)
    logins.reload(Policy(version=99))
    with pytest.raises(TypeError):
        login(Request(request))


def test_a_token_is_not_slowed_by_wrong_passwords(client: Client, admin: User) -> None:
    secret = actions.create_token(actions.SYSTEM, admin, "laptop").secret
    for _ in range(6):
        client.post("/login/", wrong(0))
    assert client.get("/api/v1/tokens", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


def test_throttled_attempts_are_not_written_to_the_audit_log(client: Client) -> None:
    for number in range(50):
        client.post("/login/", wrong(number))
    assert AuditEntry.objects.filter(action="login failed").count() == 5
