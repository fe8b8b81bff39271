"""The configuration over HTTP: what holds and where it is from, the files, and trying one."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from broker_app.config import Config
from broker_app.models import Rule
from broker_app.web import actions
from broker_app.web.actions import Edit, apply
from broker_app.web.files import FileWatcher

pytestmark = pytest.mark.django_db

RULE = '@include "security/messaging_rule.config" {"conditions": "/event/queue == %s", "users": ["john"]}\n'
SECRET = "hunter2"


@pytest.fixture
def client() -> Client:
    """A browser of the administrator."""
    actions.ensure_admin("administrator")
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    return client


def runs(monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
    monkeypatch.setattr(settings, "MOM", config)


def check(client: Client, **body: Any) -> Any:
    reply = client.post("/api/v1/config/check", body, "application/json")
    assert reply.status_code == 200, reply.content
    return reply.json()


def test_every_setting_is_shown_with_its_value_and_where_that_is_from(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs(
        monkeypatch,
        Config(
            data=tmp_path, admin_password=SECRET, credit=7, max_attempts=5, allowed_hosts=("a.example",),
            sources={"data": "MOM_DATA", "credit": "zero.config:3", "admin_password": "MOM_ADMIN_PASSWORD"},
        ),
    )  # fmt: skip
    apply(actions.SYSTEM, [Edit("brokers", "mom", {"settings": {"lease": 45}})])
    reply = client.get("/api/v1/config")
    assert SECRET not in reply.content.decode()
    rows = {row.pop("name"): row for row in reply.json()["settings"]}
    assert {name: (rows[name]["value"], rows[name]["source"]) for name in
            ("data", "credit", "lease", "drain", "admin_password", "allowed_hosts", "config_file")} == {
        "data": (str(tmp_path), "MOM_DATA"), "credit": (7, "zero.config:3"), "lease": (45, "broker mom"),
        "drain": (8, "default"), "admin_password": ("********", "MOM_ADMIN_PASSWORD"),
        "allowed_hosts": (["a.example"], "default"), "config_file": (None, "default"),
    }  # fmt: skip
    assert (rows["lease"]["reloadable"], rows["port"]["reloadable"]) == (True, False)
    destinations = {row["name"]: (row["value"], row["source"]) for row in reply.json()["destinations"]}
    assert (destinations["max_attempts"], destinations["paused"]) == ((5, "node"), ("none", "default"))
    assert reply.json()["files"]["state"] == "none"


@pytest.mark.parametrize("path", ["config", "config/files"])
def test_only_administrators_see_the_configuration(path: str) -> None:
    actions.create_user(actions.SYSTEM, "john", "correct horse battery")
    john = Client()
    assert john.get(f"/api/v1/{path}").status_code == 401
    john.force_login(User.objects.get(username="john"))
    assert john.get(f"/api/v1/{path}").status_code == 403
    assert john.post("/api/v1/config/check", {"text": ""}, "application/json").status_code == 403


def test_a_text_is_checked_and_its_differences_are_shown(client: Client) -> None:
    answer = check(client, text="/config/mom/credit = 7\n" + RULE % "orders")
    assert (answer["valid"], answer["errors"]) == (True, [])
    (added,) = answer["plan"]["added"]
    assert (added["kind"], added["source"]) == ("rules", "zero.config:2")
    assert answer["plan"]["restart"] == ["credit"]
    assert not Rule.objects.exists()


def test_each_error_of_a_text_is_reported_with_its_position(client: Client) -> None:
    answer = check(client, text='/config/mom/credits = 7\n/config/connection/messaging/b = {"port": 1}\n')
    assert (answer["valid"], answer["plan"]) == (False, None)
    (error,) = answer["errors"]
    assert (error["file"], error["line"], error["column"]) == ("zero.config", 1, 1)
    assert error["marker"] == "/config/mom/credits = 7\n^"
    answer = check(client, text='\n/config/connection/messaging/b = {"port": 1}\n')
    assert [(error["line"], error["detail"]) for error in answer["errors"]] == [(2, "hostname: is missing")]


def test_included_files_come_with_the_text_or_from_the_folder_of_the_nodes_file(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = '@include "rules.config"'
    assert not check(client, text=text)["valid"]
    assert check(client, text=text, files={"rules.config": RULE % "a"})["valid"]
    (tmp_path / "rules.config").write_text(RULE % "a")
    runs(monkeypatch, Config(config_file=tmp_path / "zero.config"))
    assert check(client, text=text)["valid"]
    assert not check(client, text=text, files={})["valid"], "all files came with the request"


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret", "link"])
def test_no_file_outside_of_that_folder_is_read(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (tmp_path / "secret").write_text(SECRET)
    (folder / "link").symlink_to(tmp_path / "secret")
    runs(monkeypatch, Config(config_file=folder / "zero.config"))
    answer = check(client, text=f'@include "{path}"')
    assert "outside of the directory" in answer["errors"][0]["detail"]
    assert SECRET not in str(answer)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/text"),
        ({"text": 1}, "/text"),
        ({"text": "", "files": {"a": 1}}, "/files"),
        ({"txt": ""}, "/txt"),
    ],
)
def test_a_check_of_another_form_is_refused(client: Client, body: dict[str, Any], pointer: str) -> None:
    reply = client.post("/api/v1/config/check", body, "application/json")
    assert reply.status_code == 400
    assert reply.json()["errors"][0]["pointer"] == pointer


def test_files_of_more_than_a_megabyte_are_not_checked(client: Client) -> None:
    reply = client.post("/api/v1/config/check", {"text": "#" * (1024 * 1024 + 1)}, "application/json")
    assert reply.status_code == 413


def test_files_and_reloads_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "zero.config"
    file.write_text(RULE % "a")
    watch = FileWatcher(file, Config(config_file=file))
    watch.start()
    file.write_text(RULE % "a" + "\n/config/mom/lease 7")
    os.utime(file, ns=(1, 1))
    assert watch.check() is None
    assert watch.check() is not None
    shown = watch.shown()
    assert (shown["main"], shown["state"]) == (str(file), "refused")
    assert [(error["line"], error["column"]) for error in shown["errors"]] == [(3, 19)]
    assert [reload["outcome"] for reload in shown["reloads"]] == ["refused", "applied"]
    assert [file["name"] for file in shown["files"]] == ["zero.config", "security/messaging_rule.config"]
