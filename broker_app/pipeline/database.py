"""The database of the pipeline: which models are in it, and its tables, which are created when first used."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from django.core.management import call_command
from django.db import connections
from django.db.models import Model

#: Django's alias of the database, and the label of the application whose models are in it
PIPELINE = "pipeline"
_LOCK = Lock()


class Router:
    """See Django's `DATABASE_ROUTERS`."""

    def db_for_read(self, model: type[Model], **_: Any) -> str | None:
        return PIPELINE if model._meta.app_label == PIPELINE else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **_: Any) -> bool | None:
        return _is_shared() or (db == PIPELINE) == (app_label == PIPELINE)


def _is_shared() -> bool:
    """Return whether configuration and pipeline are in one database, that of several brokers."""
    one, other = connections["default"].settings_dict, connections[PIPELINE].settings_dict
    return all(one[name] == other[name] for name in ("ENGINE", "HOST", "PORT", "NAME"))


def is_created() -> bool:
    """Return whether the tables exist: a broker without a pipeline has none."""
    file = connections[PIPELINE].settings_dict["NAME"]
    if connections[PIPELINE].vendor == "sqlite" and not Path(file).exists():
        return False  # a question would create it
    with _LOCK:  # else the tables may just be created
        return "pipeline_pipelinerun" in connections[PIPELINE].introspection.table_names()


def upgrade() -> None:
    """Change tables that a former version has created, if there are any."""
    if is_created():
        create()


def create() -> None:
    """Create the tables, if they are missing."""
    with _LOCK:
        _create()


@cache
def _create() -> None:
    call_command("migrate", PIPELINE, database=PIPELINE, verbosity=0, interactive=False)
