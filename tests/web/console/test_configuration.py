"""Pages of the configuration: effective settings, versions and rollback, definitions."""

import re

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils.text import capfirst

from broker_app.base.settings.setting_groups import TITLES
from broker_app.models import Rule
from broker_app.web import actions, history
from broker_app.web.actions import SYSTEM, Edit, apply
from broker_app.web.resource_types import RESOURCE_TYPES
from tests.web.console.forms import a_rule, sent

pytestmark = pytest.mark.django_db


def test_a_change_is_reverted_by_the_button_of_its_report(inside: Client) -> None:
    page = sent(inside, "/console/rules/add", **a_rule(name="first"))
    version = actions.version_of("rules", "first")
    assert (
        f'name="version" value="{version}"' in page and f"/console/configuration/versions/{version}" in page
    )
    page = sent(inside, "/console/configuration/revert", version=str(version))
    assert f"Version {version} was reverted." in page
    assert not Rule.objects.exists()


def test_reverting_an_older_version_shows_a_rollback_first(inside: Client) -> None:
    version = apply(SYSTEM, [Edit("rules", "first", {})]).version
    apply(SYSTEM, [Edit("rules", "second", {})])
    page = sent(inside, "/console/configuration/revert", version=str(version))
    assert "later changes depend on it" in page and "second" in page
    assert Rule.objects.count() == 2


def test_a_rollback_is_previewed_and_applied(inside: Client, john: User) -> None:
    before = history.newest()
    apply(SYSTEM, [Edit("rules", "first", {"comment": "a comment"})])
    set_password = Edit(
        "users", "john", RESOURCE_TYPES["users"].read(["john"])["john"], secrets={"password": "another one!"}
    )
    apply(SYSTEM, [set_password])
    page = inside.get(f"/console/configuration/rollback?to={before}").content.decode()
    assert "a comment" in page and "its password stays as it is now" in page
    expected = str(history.newest() - 1)
    page = sent(inside, f"/console/configuration/rollback?to={before}", expected=expected)
    assert "The configuration has changed in the meantime" in page and Rule.objects.exists()
    page = sent(
        inside, f"/console/configuration/rollback?to={before}", expected=str(history.newest()), reason="oh no"
    )
    assert f"rolled back to version {before}" in page and "oh no" in page
    assert not Rule.objects.exists()


def test_versions_are_listed_shown_and_compared(inside: Client) -> None:
    old = history.newest()
    apply(
        actions.Actor("mary", actions.CLI, reason="for tests"), [Edit("rules", "first", {"comment": "one"})]
    )
    apply(SYSTEM, [Edit("rules", "first", {"comment": "two"})])
    page = inside.get("/console/configuration/versions/").content.decode()
    assert "mary" in page and "for tests" in page and "Rule first created" in page
    assert "one" in inside.get(f"/console/configuration/versions/{old + 1}").content.decode()
    page = inside.get(f"/console/configuration/comparison?old={old}&new={old + 2}").content.decode()
    assert "two" in page and "one" not in page.partition("<h1>")[2].partition("STOMP")[0].replace("none", "")
    assert (
        "there is no version"
        in inside.get("/console/configuration/comparison?new=99999").content.decode().lower()
    )
    assert inside.get("/console/configuration/versions/99999").status_code == 404
    assert inside.get("/console/configuration/rollback?to=99999").status_code == 404
    assert inside.post("/console/configuration/revert", {"version": "99999"}).status_code == 404


def test_each_setting_is_shown_with_its_source(inside: Client) -> None:
    apply(SYSTEM, [Edit("brokers", "mom", {"settings": {"max_attempts": 3}})])
    page = inside.get("/console/configuration/", {"filter": "max_attempts"}).content.decode()
    assert "broker mom" in page and "<b>3</b>" in page and "1 of " in page
    page = inside.get("/console/configuration/").content.decode()
    assert "admin_password" in page and "after a restart" in page
    titles = re.findall(r'<th scope="rowgroup" colspan="5">(.*?) <span', page)
    assert titles[:-1] == [capfirst(title) for title in TITLES.values()], "the groups of `mom up --help`"
    assert page.count("<thead>") == 1
    page = inside.get("/console/configuration/", {"chosen": "on"}).content.decode()
    assert "MOM_<wbr>DATA" in page and "heartbeat_ms" not in page
    assert "No setting matches" in inside.get("/console/configuration/?filter=xyz").content.decode()


def uploaded(client: Client, content: str, **fields: str) -> str:
    file = SimpleUploadedFile("definitions", content.encode())
    reply = client.post("/console/configuration/definitions", {"file": file, "operation": "plan", **fields})
    return reply.content.decode()


def test_definitions_are_planned_before_they_are_applied(inside: Client, john: User) -> None:
    document = "mom_definitions: 1\nrules:\n  first:\n    comment: of the file\n"
    page = uploaded(inside, document)
    assert "<b>1</b> created" in page and "of the file" in page and not Rule.objects.exists()
    expected = str(history.newest())
    fields = {"document": document, "expected": expected, "reason": "from the file"}
    page = sent(inside, "/console/configuration/definitions", "apply", **{**fields, "expected": "0"})
    assert "The configuration has changed in the meantime" in page and not Rule.objects.exists()
    page = sent(inside, "/console/configuration/definitions", "apply", **fields)
    assert "1 change" in page and "from the file" in page
    assert RESOURCE_TYPES["rules"].read()["first"]["comment"] == "of the file"
    assert "no changes were made" in sent(
        inside, "/console/configuration/definitions", "apply", **{**fields, "expected": str(history.newest())}
    )
    page = uploaded(inside, '{"mom_definitions": 1, "rules": {}}', prune="on")
    assert "<b>1</b> removed" in page


def test_errors_in_definitions_are_shown_with_their_position(inside: Client) -> None:
    page = uploaded(inside, '{"mom_definitions": 1, "rules": {"x": {"conditions": "/event/nothing == 1"}}}')
    assert "<b>Rule x: conditions</b>" in page
    assert "line 1" in uploaded(inside, "{nonsense")
    assert "no file was chosen" in uploaded(inside, " ")
    assert "larger than" in uploaded(inside, "#" * 1_000_000)
    apply(SYSTEM, [Edit("rules", "filed", {}, origin="zero.config:3")])
    document = '{"mom_definitions": 1, "rules": {"filed": {"comment": "otherwise"}}}'
    assert "rule filed is set in zero.config:3" in uploaded(inside, document)
    page = sent(inside, "/console/configuration/definitions", "apply", document=document)
    assert "zero.config:3" in page and RESOURCE_TYPES["rules"].read()["filed"]["comment"] == ""


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_definitions_can_be_downloaded_and_applied_again(inside: Client, form: str) -> None:
    apply(SYSTEM, [Edit("rules", "first", {"comment": "kept"})])
    reply = inside.get(f"/console/configuration/definitions.{form}")
    assert f'.{form}"' in reply["Content-Disposition"] and b"kept" in reply.content
    assert "<b>0</b> created" in uploaded(inside, reply.content.decode())
