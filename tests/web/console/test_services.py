"""The frames of the pages of services and callbacks: who sees which, and what the browser fills in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.test.utils import override_settings

from broker_app.base.settings.roles import CALLBACK

pytestmark = pytest.mark.django_db

SHUT_DOWN = "<mom-shutdown-button"


@pytest.fixture
def of_john(john: User) -> Client:
    """A browser of a user who is no administrator."""
    client = Client()
    client.force_login(john)
    return client


def test_all_users_see_services_and_only_administrators_may_act_on_those_of_others(
    inside: Client, of_john: Client
) -> None:
    for path in ("/console/services/", "/console/services/one?id=s1"):
        assert " admin>" in inside.get(path).content.decode()
        reply = of_john.get(path)
        assert reply.status_code == 200
        assert " admin>" not in reply.content.decode()
    assert 'href="/console/services/"' in of_john.get("/console/").content.decode()


def test_the_page_of_no_service_does_not_exist(inside: Client) -> None:
    assert inside.get("/console/services/one").status_code == 404


def test_only_a_callback_broker_shows_origins(inside: Client) -> None:
    assert "<mom-origin-list>" not in inside.get("/console/callbacks/").content.decode()
    with override_settings(MOM=replace(settings.MOM, name="REcallback", role=CALLBACK)):
        page = inside.get("/console/callbacks/").content.decode()
    assert "<mom-origin-list>" in page
    assert "<mom-subscriber-list>" in page


def test_only_administrators_give_orders_to_the_broker(inside: Client, of_john: Client) -> None:
    of_others = of_john.get("/console/settings/").content.decode()
    page = inside.get("/console/settings/").content.decode()
    for element in (SHUT_DOWN, "<mom-broker-state"):
        assert element not in of_others
        assert f'{element} broker="mom">' in page
