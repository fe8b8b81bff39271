"""Fixtures of the site's tests."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.net.auth.login_throttle import LoginThrottle
from broker_app.web import actions
from broker_app.web.actions import SYSTEM
from broker_app.web.auth import backends


@pytest.fixture(autouse=True)
def guesses(monkeypatch: pytest.MonkeyPatch) -> LoginThrottle:
    """The wrong passwords of one test alone."""
    fresh = LoginThrottle()
    monkeypatch.setattr(backends, "LOGIN_THROTTLE", fresh)
    return fresh


@pytest.fixture
def admin() -> User:
    actions.ensure_admin("administrator")
    return User.objects.get(username="admin")


@pytest.fixture
def inside(client: Client, admin: User) -> Client:
    """A browser in which the administrator is signed in."""
    client.force_login(admin)
    return client


@pytest.fixture
def john(admin: User) -> User:
    return actions.create_user(SYSTEM, "john", "a password of john")
