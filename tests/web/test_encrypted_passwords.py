"""Secrets at rest: encrypted with the secret key, which may be replaced, and lost without a crash."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from pytest_django.fixtures import Settings

from broker_app.models import Bridge
from broker_app.web import actions
from broker_app.web.actions import SYSTEM, Edit
from broker_app.web.resource_types.bridges import remotes, reseal, whole
from tests.support.broker_process import BrokerProcess, StartBroker

PASSWORD = "sekret-of-the-bridge"
NEW = "sekret-that-is-new"


def make_bridge(name: str = "far", password: str = PASSWORD) -> None:
    actions.apply(
        SYSTEM, [Edit("bridges", name, {"hostname": "far.example"}, secrets={"password": password})]
    )


@pytest.mark.django_db
def test_a_password_is_encrypted_in_its_row_and_decrypted_for_its_bridge() -> None:
    make_bridge()
    assert PASSWORD not in Bridge.objects.get().password
    assert remotes()["far"].password == PASSWORD
    found = whole("far")
    assert found is not None
    assert found[1] == {"password": PASSWORD}


@pytest.mark.django_db
def test_a_former_secret_key_opens_until_all_is_sealed_with_the_new_one(settings: Settings) -> None:
    make_bridge()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the next key", [str(settings.SECRET_KEY)]
    assert remotes()["far"].password == PASSWORD
    assert reseal() == []
    settings.SECRET_KEY_FALLBACKS = []
    assert remotes()["far"].password == PASSWORD


@pytest.mark.django_db
def test_a_bridge_with_an_unreadable_password_is_named_and_fixed_by_a_new_one(
    settings: Settings,
) -> None:
    make_bridge()
    make_bridge("open", "")
    settings.SECRET_KEY = "another key"
    assert reseal() == ["far"]
    found = remotes()
    assert "another secret key" in found["far"].config_error
    assert found["open"].config_error == ""
    make_bridge("far", NEW)
    assert (remotes()["far"].password, remotes()["far"].config_error) == (NEW, "")


@pytest.mark.django_db(transaction=True)
def test_passwords_of_former_versions_are_sealed_by_the_migration() -> None:
    before, after = ("broker_app", "0010_alert_rules"), ("broker_app", "0011_sealed_passwords")
    executor = MigrationExecutor(connection)
    executor.migrate([before])
    old = executor.loader.project_state([before]).apps.get_model("broker_app", "Bridge")
    for name, password in (("far", PASSWORD), ("open", "")):
        old.objects.create(name=name, values={"hostname": "far.example"}, password=password)
    executor = MigrationExecutor(connection)
    executor.migrate([after])
    assert PASSWORD not in Bridge.objects.get(name="far").password
    assert {name: remote.password for name, remote in remotes().items()} == {"far": PASSWORD, "open": ""}
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())  # other tests use this database


# ---------------------------------------------------------------------- a whole broker


def in_files(broker: BrokerProcess, secret: str) -> list[str]:
    """Files of a broker's data that have a secret in them."""
    files = [path for path in broker.data.rglob("*") if path.is_file()]
    return [path.name for path in files if secret.encode() in path.read_bytes()]


def put_bridge(broker: BrokerProcess, **said: Any) -> None:
    body = {"hostname": "127.0.0.1", "port": 1, "user": "mom", "retry_s": 0.1, **said}
    reply = broker.request("PUT", "/api/v1/bridges/far", json_body=body, if_none_match="*")
    assert reply.status == 201, reply.body


def error_of(broker: BrokerProcess, code: str) -> str:
    """The error that keeps the bridge from connecting, once it is of this kind."""
    deadline = time.monotonic() + 60
    while True:
        error = broker.request("GET", "/api/v1/bridges/far/status").json()["error"]
        if error is not None and error["code"] == code:
            return str(error["detail"])
        assert time.monotonic() < deadline, error
        time.sleep(0.1)


def test_a_lost_secret_key_stops_the_bridge_with_an_error_and_restoring_it_resumes_the_bridge(
    tmp_path: Path, start_broker: StartBroker
) -> None:
    broker = start_broker(data=tmp_path / "data")
    put_bridge(broker, password=PASSWORD)
    broker.request("POST", "/api/v1/queues/storeAndForward:far%2Fqueue%2Fq/messages", b"x")
    error_of(broker, "REFUSED")
    assert in_files(broker, PASSWORD) == []
    broker.terminate()
    key = broker.data / "secret_key"
    former = key.read_text()
    key.write_text("a key that is another one than it was before\n")
    broker.start()
    assert "the password of bridge far cannot be read" in broker.log
    assert "another secret key" in error_of(broker, "CONFIG")
    tried = broker.request("POST", "/api/v1/bridges/far/test", json_body={})
    assert "Traceback" not in broker.log
    assert tried.status < 500, tried.body
    broker.terminate()
    key.write_text(key.read_text() + former)
    broker.start()
    assert "cannot be read" not in broker.log
    error_of(broker, "REFUSED")


def test_a_removed_password_of_a_former_version_is_in_no_file_after_the_start(
    tmp_path: Path, start_broker: StartBroker
) -> None:
    broker = start_broker(data=tmp_path / "data")
    put_bridge(broker)
    broker.terminate()
    with closing(sqlite3.connect(broker.data / "config.sqlite3")) as database:
        # As versions wrote that neither sealed nor overwrote, with one bridge that was removed.
        database.execute("PRAGMA secure_delete=OFF")
        with database:
            database.execute("UPDATE broker_app_bridge SET password = ?", (PASSWORD,))
            database.execute(
                "INSERT INTO broker_app_bridge (name, \"values\", password) VALUES ('gone', '{}', ?)", (NEW,)
            )
        with database:
            database.execute("DELETE FROM broker_app_bridge WHERE name = 'gone'")
            database.execute("DELETE FROM django_migrations WHERE app = 'broker_app' AND name >= '0011'")
            for later in ("callback", "reflex", "mask"):
                database.execute(f"DROP TABLE broker_app_{later}")
        database.execute("PRAGMA user_version = 0")
    assert in_files(broker, PASSWORD)
    assert in_files(broker, NEW)
    broker.start()
    assert in_files(broker, PASSWORD) == in_files(broker, NEW) == []
