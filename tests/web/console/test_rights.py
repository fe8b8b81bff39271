"""Access to pages, and unknown names."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.models import Rule
from tests.web.console.forms import a_rule, sent

pytestmark = pytest.mark.django_db


#: pages that need more than their path
NOT_FOUND_WITHOUT_NAME = (
    *("/rollback", "/export", "/one", "/control", "/test", "/restart", "/clone", "/orphan/remove"),
)
ADMINISTRATORS_PAGES = (
    [
        f"/console/{place}"
        for kind in ("rules", "users", "groups", "brokers", "bridges", "callbacks", "reflexes", "masks")
        for place in (f"{kind}/", f"{kind}/add")
    ]
    + [
        f"/console/configuration/{place}"
        for place in ("", "files", "versions/", "comparison", "definitions", "definitions.json", "rollback")
    ]
    + [
        f"/console/{place}"
        for place in ("rules/denials", "events/", "cluster/", "mirrors/", "audit/", "audit/export")
    ]
    + [f"/console/bridges/{place}" for place in ("one", "control", "test", "clone", "orphan/remove")]
    + [f"/console/callbacks/{place}" for place in ("one", "control", "test")]
    + [f"/console/reflexes/{place}" for place in ("one", "control", "restart")]
)


@pytest.mark.parametrize("address", ADMINISTRATORS_PAGES)
def test_pages_of_the_configuration_are_for_administrators(client: Client, john: User, address: str) -> None:
    assert client.get(address).headers["Location"] == f"/login/?next={address}"
    client.force_login(john)
    reply = client.get(address)
    assert reply.status_code == 403
    assert "Only administrators can view this page" in reply.content.decode()
    assert client.post(address, {"name": "x"}).status_code == 403


def test_navigation_contains_only_permitted_pages(client: Client, inside: Client, john: User) -> None:
    assert "/console/users/" in inside.get("/console/").content.decode()
    client.force_login(john)
    assert "/console/users/" not in client.get("/console/").content.decode()


@pytest.mark.parametrize(
    "address",
    [page for page in ADMINISTRATORS_PAGES if not page.endswith(NOT_FOUND_WITHOUT_NAME)],
)
def test_every_page_renders_without_configuration(inside: Client, address: str) -> None:
    assert inside.get(address).status_code == 200


@pytest.mark.parametrize(
    "kind", ["rules", "users", "groups", "brokers", "bridges", "callbacks", "reflexes", "masks"]
)
@pytest.mark.parametrize("name", ["", "not-there", "\0", "x" * 5000, "ü/../%2e"])
def test_an_unknown_name_is_not_found(inside: Client, kind: str, name: str) -> None:
    assert inside.get(f"/console/{kind}/edit", {"name": name}).status_code == 404
    assert inside.post(f"/console/{kind}/remove?name=nothing").status_code == 404


@pytest.mark.parametrize(
    "kind", ["rules", "users", "groups", "brokers", "bridges", "callbacks", "reflexes", "masks"]
)
def test_an_empty_form_shows_its_missing_fields(inside: Client, kind: str) -> None:
    page = sent(inside, f"/console/{kind}/add")
    assert "The changes were not saved." in page and 'id="id_name_error"' in page


def test_forms_without_a_csrf_token_are_refused(admin: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin)
    assert strict.post("/console/rules/add", a_rule(name="x")).status_code == 403
    assert not Rule.objects.exists()
