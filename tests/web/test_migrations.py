"""Data of an older version is migrated to today's names."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import post_migrate
from django.utils import timezone

from broker_app.management import configuration_tables
from broker_app.web.resource_types import RESOURCE_TYPES

OLD = {
    "hostname": "far", "port": 61613, "protocol": "stomp", "user": "", "retry_s": 5.0, "idle_s": 60.0,
    "scan_s": 30.0, "dead_letter_after": 0, "comment": "",
}  # fmt: skip


@pytest.fixture
def migrated(transactional_db: None) -> Iterator[None]:
    """The database of today, for the next tests too."""
    yield
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


@pytest.mark.usefixtures("migrated")
def test_paused_bridges_stay_paused_and_can_be_rolled_back() -> None:
    before, after = ("broker_app", "0006_provider_subject"), ("broker_app", "0007_desired_of_bridges")
    executor = MigrationExecutor(connection)
    executor.migrate([before])
    old = executor.loader.project_state([before]).apps
    for name, paused in (("held", True), ("flowing", False)):
        old.get_model("broker_app", "Bridge").objects.create(name=name, values={**OLD, "paused": paused})
    change = old.get_model("broker_app", "Change").objects.create(number=1, time=timezone.now(), author="ann")
    old.get_model("broker_app", "ChangedObject").objects.create(
        change=change, kind="bridges", key="held", before=None, after={**OLD, "paused": True}
    )
    executor = MigrationExecutor(connection)
    executor.migrate([after])
    found = RESOURCE_TYPES["bridges"].read()
    assert {name: said["desired"] for name, said in found.items()} == {"held": "paused", "flowing": "running"}
    for name, said in found.items():
        RESOURCE_TYPES["bridges"].check(name, said)
        assert said == RESOURCE_TYPES["bridges"].complete(name, said, None)
    row = executor.loader.project_state([after]).apps.get_model("broker_app", "ChangedObject").objects.get()
    assert (row.before, row.after) == (None, found["held"])
    executor = MigrationExecutor(connection)
    executor.migrate([before])
    back = executor.loader.project_state([before]).apps.get_model("broker_app", "Bridge").objects
    assert back.get(name="held").values == {**OLD, "paused": True}


@pytest.mark.usefixtures("migrated")
def test_a_start_applies_the_migrations_that_are_missing_and_else_runs_none() -> None:
    before = ("broker_app", "0006_provider_subject")
    MigrationExecutor(connection).migrate([before])
    ran: list[object] = []

    def note(sender: object, **_: object) -> None:
        ran.append(sender)

    post_migrate.connect(note)
    try:
        configuration_tables.upgrade()
        assert ("broker_app", "0007_desired_of_bridges") in MigrationRecorder(connection).applied_migrations()
        assert ran
        ran.clear()
        configuration_tables.upgrade()
        assert ran == [], "the command, which takes most of a start, has nothing to do"
    finally:
        post_migrate.disconnect(note)
