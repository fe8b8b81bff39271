"""Settings of the browser, the environment, saved views."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.web import actions
from broker_app.web.actions import SYSTEM
from broker_app.web.resource_types import RESOURCE_TYPES
from tests.web.console.forms import sent

pytestmark = pytest.mark.django_db

A_PROFILE = {"language": "", "zone": "", "theme": "", "density": "", "keys": ""}


def test_settings_of_the_browser_are_kept_in_cookies(client: Client, john: User) -> None:
    client.force_login(john)
    sent(
        client, "/console/settings/", **{**A_PROFILE, "zone": "Europe/Berlin", "theme": "dark", "keys": "off"}
    )
    assert client.cookies["mom_zone"].value == "Europe%2FBerlin"
    assert (client.cookies["mom_theme"].value, client.cookies["mom_keys"].value) == ("dark", "off")
    page = client.get("/console/settings/").content.decode()
    assert '<option value="Europe/Berlin" selected>' in page and '<option value="off" selected>' in page
    sent(client, "/console/settings/", **{**A_PROFILE, "density": "compact"})
    assert 'data-density="compact"' in client.get("/console/rules/denials").content.decode()
    assert client.cookies["mom_zone"]["max-age"] == 0
    assert "not one of the available choices" in sent(
        client, "/console/settings/", **{**A_PROFILE, "zone": "Nowhere/At All"}
    )


def test_the_environment_has_a_name_and_a_colour_on_every_page(inside: Client) -> None:
    page = sent(inside, "/console/settings/environment", environment="Test lab", colour="violet")
    assert "Environment was created." in page
    assert (
        'data-environment="Test lab" data-colour="violet"' in inside.get("/console/rules/").content.decode()
    )
    sent(inside, "/console/settings/environment", environment="Test lab", colour="pink")
    assert RESOURCE_TYPES["brokers"].read()["mom"]["colour"] == "violet"


def test_only_administrators_name_the_environment(client: Client, john: User) -> None:
    client.force_login(john)
    assert client.post("/console/settings/environment", {"environment": "x"}).status_code == 403
    assert "Environment" not in client.get("/console/settings/").content.decode()


def test_own_tokens_are_on_the_page_of_settings(client: Client, admin: User, john: User) -> None:
    actions.create_token(SYSTEM, admin, "of the admin")
    actions.create_token(SYSTEM, john, "laptop")
    client.force_login(john)
    page = client.get("/console/settings/").content.decode()
    assert "laptop" in page and "of the admin" not in page
    client.force_login(admin)
    assert "1 of other users" in client.get("/console/settings/").content.decode()


def test_a_view_is_a_named_address_private_or_shared(client: Client, admin: User, john: User) -> None:
    client.force_login(admin)
    address = "/console/audit/?author=john"
    assert (
        f'value="{address}"'
        in client.get("/console/settings/views/save", {"address": address}).content.decode()
    )
    for name, fields in (("mine", {}), ("ours", {"shared": "on"})):
        client.post("/console/settings/views/save", {"name": name, "address": address, **fields})
    client.post("/console/settings/views/save", {"name": "mine", "address": "/console/queues/"})
    page = client.get("/console/settings/").content.decode()
    assert page.count('href="/console/audit/?author=john"') == 2, "in the list and in the menu of every page"
    assert ">mine</a>" in page
    client.force_login(john)
    page = client.get("/console/settings/").content.decode()
    assert ">ours</a>" in page and ">mine</a>" not in page


def test_a_view_must_be_an_address_of_the_console(inside: Client) -> None:
    for address in (
        "https://example.org/console/",
        "//example.org/console/",
        "/login/",
        "javascript:alert(1)",
    ):
        reply = inside.post("/console/settings/views/save", {"name": "x", "address": address})
        assert "The address of a view begins with /console/" in reply.content.decode()


def test_a_view_is_removed_by_its_owner_or_an_administrator(client: Client, admin: User, john: User) -> None:
    view = actions.save_view("admin", "ours", "/console/", shared=True)
    hidden = actions.save_view("admin", "mine", "/console/", shared=False)
    client.force_login(john)
    for one in (view, hidden):
        assert client.post("/console/settings/views/remove", {"view": one.pk}).status_code == 404
    client.force_login(admin)
    assert "was removed" in sent(client, "/console/settings/views/remove", view=str(view.pk))
