"""Administrators and others who look at the pages."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.web import actions
from broker_app.web.actions import SYSTEM


@pytest.fixture
def admin() -> User:
    actions.ensure_admin("administrator")
    return User.objects.get(username="admin")


@pytest.fixture
def inside(client: Client, admin: User) -> Client:
    client.force_login(admin)
    return client


@pytest.fixture
def john(admin: User) -> User:
    return actions.create_user(SYSTEM, "john", "a password of john")
