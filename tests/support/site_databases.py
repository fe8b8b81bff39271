"""The databases of the site's tests: copies of migrated ones, which one process of a run makes."""

from __future__ import annotations

import shutil
from pathlib import Path

from django.core.management import call_command
from django.db import connections

from tests.support.made_once import made_once


def copy_migrated() -> None:
    """Make the file of each test database, before it is used; Django then finds nothing to migrate."""
    migrated = made_once("site", _migrate)
    for connection in connections.all():
        test = connection.settings_dict["TEST"]
        shutil.copyfile(migrated / connection.alias, test["NAME"])
        test["MIGRATE"] = False


def _migrate(folder: Path) -> None:
    folder.mkdir()
    for connection in connections.all():
        usual = connection.settings_dict["NAME"]
        connection.settings_dict["NAME"] = folder / connection.alias
        call_command("migrate", database=connection.alias, verbosity=0, interactive=False)
        connection.close()
        connection.settings_dict["NAME"] = usual
