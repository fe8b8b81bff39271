"""Pages of users, groups, brokers and bridges."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.web import actions
from broker_app.web.actions import SYSTEM, Edit, apply
from broker_app.web.resource_types import RESOURCE_TYPES
from tests.web.console.forms import sent

pytestmark = pytest.mark.django_db


def test_a_user_is_created_with_groups_and_a_password_that_is_never_shown(inside: Client) -> None:
    apply(SYSTEM, [Edit("groups", "ops", {})])
    password = "a long and secret one"
    fields: dict[str, Any] = {
        "name": "john",
        "active": "on",
        "groups": ["ops"],
        "email": "john@example.org",
        "password": password,
    }
    page = sent(inside, "/console/users/add", "preview", **fields)
    assert password not in page and "value hidden" in page
    page = sent(inside, "/console/users/add", **fields)
    assert "User john was created." in page and password not in page
    assert User.objects.get(username="john").check_password(password)
    assert RESOURCE_TYPES["users"].read()["john"]["groups"] == ["ops"]


def test_the_error_of_a_weak_password_is_shown_at_its_field(inside: Client) -> None:
    page = sent(inside, "/console/users/add", name="john", active="on", password="1234")
    assert 'id="id_password_error"' in page
    assert not User.objects.filter(username="john").exists()


def test_the_last_administrator_cannot_be_removed(inside: Client) -> None:
    page = sent(inside, "/console/users/edit?name=admin", active="on", version="1")
    assert "no active administrator would be left" in page
    asked = inside.get("/console/users/remove?name=admin").content.decode()
    assert "Nothing was removed.</strong> no active administrator would be left" in asked
    assert User.objects.get(username="admin").is_superuser


def test_a_group_is_edited_by_its_members(inside: Client, john: User) -> None:
    assert "there is no user jon; did you mean john?" in sent(
        inside, "/console/groups/add", name="ops", members="jon"
    )
    assert "Group ops was created." in sent(inside, "/console/groups/add", name="ops", members="john\nadmin")
    assert RESOURCE_TYPES["users"].read(["john"])["john"]["groups"] == ["ops"]
    version = str(actions.version_of("groups", "ops"))
    sent(inside, "/console/groups/edit?name=ops", members="admin", version=version)
    assert RESOURCE_TYPES["users"].read(["john"])["john"]["groups"] == []
    assert "users are in this group: admin" in inside.get("/console/groups/remove?name=ops").content.decode()


def test_resources_removed_with_a_user_are_listed_first(inside: Client, john: User) -> None:
    actions.create_token(SYSTEM, john, "laptop")
    page = inside.get("/console/users/remove?name=john").content.decode()
    assert "These 2 resources are removed" in page and "john/laptop" in page
    sent(inside, "/console/users/remove?name=john", reason="gone fishing")
    assert not User.objects.filter(username="john").exists()


def test_what_is_removed_has_only_values_of_before(inside: Client, john: User) -> None:
    page = inside.get("/console/users/remove?name=john").content.decode()
    assert '<th scope="col">value</th>' in page and '<th scope="col">after</th>' not in page
    assert '<button class="danger">Remove user john</button>' in page


def test_in_production_removing_requires_the_name(inside: Client, john: User) -> None:
    apply(SYSTEM, [Edit("brokers", "mom", {"environment": "Production"})])
    page = sent(inside, "/console/users/remove?name=john", typed="jon")
    assert "type the name" in page and "Production" in page
    assert User.objects.filter(username="john").exists()
    sent(inside, "/console/users/remove?name=john", typed="john")
    assert not User.objects.filter(username="john").exists()


def test_each_setting_of_a_broker_has_a_field(inside: Client) -> None:
    fields = {
        "name": "mom",
        "endpoints": "stomp://one:61613",
        "setting_max_attempts": "0",
        "setting_credit": "50",
    }
    page = sent(inside, "/console/brokers/add", **fields)
    assert 'id="id_setting_max_attempts_error"' in page
    fields = {**fields, "setting_max_attempts": "3", "setting_revoked": "close"}
    sent(inside, "/console/brokers/add", **fields)
    assert RESOURCE_TYPES["brokers"].read()["mom"]["settings"] == {
        "max_attempts": 3,
        "credit": 50,
        "revoked": "close",
    }


def test_the_password_of_a_bridge_is_stored_and_not_shown(inside: Client) -> None:
    fields = {
        "name": "plant", "hostname": "p7", "port": "61613", "protocol": "stomp", "user": "b1", "retry_s": "5",
        "idle_s": "60", "scan_s": "30", "dead_letter_after": "0", "path": "/ws", "host": "/",
        "desired": "running", "stalled_s": "60", "window": "1000", "paused_queues": "orders\nbills",
    }  # fmt: skip
    page = sent(inside, "/console/bridges/add", **fields, password="of the bridge")
    assert "Bridge plant was created." in page
    assert RESOURCE_TYPES["bridges"].read()["plant"]["paused_queues"] == ["orders", "bills"]
    page = inside.get("/console/bridges/edit?name=plant").content.decode()
    assert "of the bridge" not in page
    version = str(actions.version_of("bridges", "plant"))
    page = sent(inside, "/console/bridges/edit?name=plant", **{**fields, "port": "0"}, version=version)
    assert "must be between 1 and 65535" in page


def test_a_bridge_without_a_port_uses_that_of_its_protocol(inside: Client) -> None:
    fields = {
        "name": "plant", "hostname": "p7", "port": "", "protocol": "stomps", "retry_s": "5", "idle_s": "60",
        "scan_s": "30", "dead_letter_after": "0", "path": "/ws", "host": "/", "desired": "paused",
        "stalled_s": "60", "window": "1000",
    }  # fmt: skip
    sent(inside, "/console/bridges/add", **fields)
    spec = RESOURCE_TYPES["bridges"].read()["plant"]
    assert (spec["port"], spec["desired"]) == (61614, "paused")
