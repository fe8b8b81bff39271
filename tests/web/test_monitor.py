"""The role monitor in the control plane and in the console: sees what administrators see, changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.test import Client
from rest_framework.views import APIView

from broker_app.net.policy.roles import MONITOR_SENTENCE, SAFE_METHODS
from broker_app.web import actions
from broker_app.web.actions import SYSTEM, Edit
from broker_app.web.snapshot import read_policy
from broker_app.web.urls import urlpatterns

pytestmark = pytest.mark.django_db(databases=["default", "pipeline"])

_PAGE = "You have the role monitor, which sees everything and changes nothing."


@pytest.fixture
def monitor(admin: User) -> Client:
    """A browser in which a monitor is signed in, with the administrator's rule that allows everything."""
    spec = {"monitor": True}
    actions.apply(SYSTEM, [Edit("users", "mona", spec, secrets={"password": "a password of mona"})])
    actions.apply(SYSTEM, [Edit("rules", "all", {"effect": "allow"})])
    client = Client()
    client.force_login(User.objects.get(username="mona"))
    return client


def operations() -> Iterator[tuple[str, str, type[APIView]]]:
    """Method, path and view of each operation of the control plane."""
    for pattern in urlpatterns:
        view = getattr(getattr(pattern, "callback", None), "cls", None)
        route = str(getattr(pattern, "pattern", ""))
        if view is None or not route.startswith("api/v1/") or route == "api/v1/openapi.json":
            continue
        path = "/" + re.sub(r"<[^>]+>", "mona", route)
        for method in view.http_method_names:
            if hasattr(view, method):
                yield method.upper(), path, view


def asked(client: Client, method: str, path: str) -> HttpResponse:
    reply: HttpResponse = client.generic(  # type: ignore[assignment]
        method, path, b"{}", "application/json", headers={"If-Match": "*"}
    )
    return reply


def test_each_operation_that_changes_something_is_refused(monitor: Client) -> None:
    before = actions.version_of("users", "mona"), User.objects.count()
    changing = [
        (method, path)
        for method, path, view in operations()
        if method not in SAFE_METHODS and not getattr(view, "changes_nothing", False)
    ]
    assert len(changing) > 40
    for method, path in changing:
        reply = asked(monitor, method, path)
        if reply.status_code != 405:  # of lists, which take only some methods
            assert reply.status_code == 403, f"{method} {path}: {reply.status_code}"
            assert json.loads(reply.content)["role"] == "monitor", path
            assert MONITOR_SENTENCE in reply.content.decode()
    assert (actions.version_of("users", "mona"), User.objects.count()) == before


def test_all_that_an_administrator_reads_is_shown(monitor: Client, inside: Client) -> None:
    for method, path, view in operations():
        if method == "GET" or getattr(view, "changes_nothing", False):
            seen, reply = asked(inside, method, path), asked(monitor, method, path)
            assert reply.status_code == seen.status_code != 403, f"{method} {path}: {reply.content[:200]!r}"


def test_a_token_of_a_monitor_has_the_role(monitor: Client) -> None:
    token = actions.create_token(SYSTEM, User.objects.get(username="mona"), "t")
    client = Client(headers={"Authorization": f"Bearer {token.secret}"})
    assert client.get("/api/v1/users").status_code == 200
    assert asked(client, "PUT", "/api/v1/groups/x").status_code == 403
    narrow = actions.create_token(
        SYSTEM,
        User.objects.get(username="mona"),
        "metrics",
        grants=[{"rights": ["metrics:read"], "destinations": []}],
    )
    other = Client(headers={"Authorization": f"Bearer {narrow.secret}"})
    assert other.get("/api/v1/users").status_code == 403


def test_the_policy_has_the_role(monitor: Client) -> None:
    facts = read_policy(anonymous=False).users["mona"]
    assert facts.monitor and not facts.admin


def test_a_user_has_one_role(admin: User) -> None:
    with pytest.raises(ValidationError, match="choose one of both"):
        actions.apply(SYSTEM, [Edit("users", "eve", {"monitor": True, "administrator": True})])


def test_an_administrator_appoints_and_dismisses_a_monitor(inside: Client, john: User) -> None:
    _give_role(inside, "monitor")
    assert inside.get("/api/v1/users/john").json()["monitor"]
    assert [one["name"] for one in inside.get("/api/v1/users?monitor=true").json()["items"]] == ["john"]
    assert "Monitor" in inside.get("/console/users/?filter=monitor").content.decode()
    assert asked(inside, "PATCH", "/api/v1/users/john").status_code == 200
    _give_role(inside, "")
    assert not inside.get("/api/v1/users/john").json()["monitor"]


def _give_role(client: Client, role: str) -> None:
    version = str(actions.version_of("users", "john"))
    form = {"role": role, "active": "on", "version": version, "operation": "save"}
    reply = client.post("/console/users/edit?name=john", form)
    assert reply.status_code == 302, reply.content.decode()


def test_explain_shows_the_role_as_the_reason(inside: Client, monitor: Client) -> None:
    reply = inside.get("/api/v1/explain?user=mona&action=POST&destination=queue:orders").json()
    assert not reply["allowed"] and reply["decided_by"] == MONITOR_SENTENCE
    reply = inside.get("/api/v1/explain?user=mona&action=BROWSE&destination=queue:orders").json()
    assert reply["allowed"]
    page = inside.get("/console/explain?user=mona&right=send&destination=queue:orders").content.decode()
    assert "mona is a monitor, who sees everything and changes nothing" in page


#: pages with acts, and a form that each takes
PAGES = {
    "/console/rules/": "/console/rules/move?name=all",
    "/console/rules/edit?name=all": "/console/rules/edit?name=all",
    "/console/rules/text": "/console/rules/text",
    "/console/users/": "/console/users/add",
    "/console/users/edit?name=mona": "/console/users/edit?name=mona",
    "/console/tokens/": "/console/tokens/add",
    "/console/configuration/versions/": "/console/configuration/revert",
    "/console/configuration/definitions": "/console/configuration/definitions",
    "/console/alerts/": "/console/alerts/rules/add",
    "/console/bridges/": "/console/bridges/add",
    "/console/callbacks/": "/console/callbacks/add",
    "/console/reflexes/": "/console/reflexes/add",
    "/console/pipelines/": "/console/pipelines/",
    "/console/cluster/": "/console/cluster/orders",
    "/console/settings/": "/console/settings/environment",
    "/console/queues/one?name=a&tab=settings": "/console/queues/one?name=a&tab=settings",
}


def test_pages_show_all_and_offer_no_acts(monitor: Client) -> None:
    for page, act in PAGES.items():
        reply = monitor.get(page)
        shown = reply.content.decode()
        assert reply.status_code == 200 and _PAGE in shown, page
        assert _acts(shown) == [], page
        refused = monitor.post(act, {"name": "x", "operation": "save"})
        assert refused.status_code == 403 and _PAGE in refused.content.decode(), act


def _acts(page: str) -> list[str]:
    """The buttons of a page that send a form of its content which changes something, and are not disabled."""
    main = page[page.index("<main") : page.index("</main>")]
    found = []
    for form in re.findall(r'<form\b[^>]*method="post".*?</form>', main, re.DOTALL):
        if "Saved in this browser only." in form:
            continue
        left = re.sub(r"<fieldset[^>]* disabled.*?</fieldset>", "", form, flags=re.DOTALL)
        found += re.findall(r"<button[^>]*>.*?</button>", left, re.DOTALL)
    return found + re.findall(r'<a class="button primary"[^>]*>', main)


def test_the_badge_and_the_reason_are_in_the_frame_of_monitors_alone(monitor: Client, inside: Client) -> None:
    page = monitor.get("/console/").content.decode()
    assert 'id="role"' in page and f'data-refusal="{_PAGE}"' in page
    assert "/console/users/" in page, "the navigation has all pages"
    other = inside.get("/console/").content.decode()
    assert 'id="role"' not in other and _PAGE not in other
    assert _acts(inside.get("/console/rules/").content.decode()), "an administrator has acts"


def test_a_monitor_sets_the_appearance_and_signs_out(monitor: Client) -> None:
    assert monitor.post("/console/settings/", {"theme": "dark"}).status_code == 302
    assert monitor.post("/logout/").status_code == 302
