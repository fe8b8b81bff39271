"""The first steps: shown once, and the effect of each step."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.models import Token
from broker_app.web import actions
from broker_app.web.actions import SYSTEM, Actor, Edit, apply
from tests.web.console.forms import sent

pytestmark = pytest.mark.django_db


def led_to(client: Client, user: User) -> str:
    """The target of a one-time link."""
    return client.get(f"/login/once/{actions.create_login_link(user)}").headers["Location"]


def test_the_one_time_link_of_a_new_broker_leads_to_the_first_run_and_later_to_the_overview(
    client: Client, admin: User
) -> None:
    apply(SYSTEM, [Edit("groups", "office", {})])
    assert led_to(client, admin) == "/console/welcome/"
    apply(Actor("admin", actions.CONSOLE), [Edit("groups", "shop", {})])
    assert led_to(client, admin) == "/console/"


def test_users_without_administer_are_redirected_to_the_overview(client: Client, john: User) -> None:
    assert led_to(client, john) == "/console/"
    assert client.get("/console/welcome/").status_code == 403


def test_the_steps_name_the_environment_and_set_the_password(inside: Client, admin: User) -> None:
    page = sent(inside, "/console/welcome/", "name", environment="Production", colour="red")
    assert "How will you log in next time?" in page and 'data-colour="red"' in page
    assert "too short" in sent(inside, "/console/welcome/", "password", password="short")
    page = sent(inside, "/console/welcome/", "password", password="a fine password 77")
    assert "Send yourself a message" in page, "one is still logged in"
    admin.refresh_from_db()
    assert admin.check_password("a fine password 77")


def test_example_code_has_a_token_for_the_queue_on_request(inside: Client, admin: User) -> None:
    page = inside.get("/console/welcome/?step=3").content.decode()
    assert "curl -u admin" in page and not Token.objects.exists()
    first, second = (sent(inside, "/console/welcome/", "token") for _ in range(2))
    secret = re.search(r"Bearer (mom_[\w-]+)", second)
    assert secret and secret[1] not in first
    token = Token.objects.get()
    assert token.expires is not None
    assert token.grants == [{"rights": ["send", "receive", "browse"], "destinations": ["/queue/welcome"]}]
    page = sent(inside, "/console/welcome/", "clean")
    assert "were removed" in page and not Token.objects.exists()
