"""Access to pages, and unknown names."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.models import Rule
from tests.support.samples import sample
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

CHOSEN = sample(ADMINISTRATORS_PAGES, len(ADMINISTRATORS_PAGES) // 3)


def test_pages_of_the_configuration_are_for_administrators(client: Client, john: User) -> None:
    for address in CHOSEN:
        assert client.get(address).headers["Location"] == f"/login/?next={address}"
    client.force_login(john)
    for address in CHOSEN:
        reply = client.get(address)
        assert reply.status_code == 403, address
        assert "Only administrators can view this page" in reply.content.decode(), address
        assert client.post(address, {"name": "x"}).status_code == 403, address


def test_navigation_contains_only_permitted_pages(client: Client, inside: Client, john: User) -> None:
    assert "/console/users/" in inside.get("/console/").content.decode()
    client.force_login(john)
    assert "/console/users/" not in client.get("/console/").content.decode()


def test_every_page_renders_without_configuration(inside: Client) -> None:
    complete = [page for page in CHOSEN if not page.endswith(NOT_FOUND_WITHOUT_NAME)]
    statuses = {page: inside.get(page).status_code for page in complete}
    assert statuses == dict.fromkeys(complete, 200)


@pytest.mark.parametrize(
    "kind", ["rules", "users", "groups", "brokers", "bridges", "callbacks", "reflexes", "masks"]
)
def test_an_unknown_name_is_not_found(inside: Client, kind: str) -> None:
    for name in ("", "not-there", "\0", "x" * 5000, "ü/../%2e"):
        assert inside.get(f"/console/{kind}/edit", {"name": name}).status_code == 404, name
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
