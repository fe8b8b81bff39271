"""Bridges say what is desired of them, where they said whether they are paused; in the history, too."""

from typing import Any

from django.db import migrations

NEW = {
    "path": "/ws",
    "host": "/",
    "ca_file": "",
    "paused_queues": [],
    "stalled_s": 30.0,
    "window": 2_000,
}


def now(values: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a bridge said before, as it is said now."""
    if values is None or "desired" in values:
        return values
    kept = {name: value for name, value in values.items() if name != "paused"}
    return {**NEW, **kept, "desired": "paused" if values.get("paused") else "running"}


def before(values: dict[str, Any] | None) -> dict[str, Any] | None:
    """The other way round; draining and single queues that are paused cannot be said there."""
    if values is None or "desired" not in values:
        return values
    kept = {name: value for name, value in values.items() if name not in (*NEW, "desired")}
    return {**kept, "paused": values["desired"] == "paused"}


def forwards(apps: Any, schema_editor: Any) -> None:
    _rewrite(apps, now)


def backwards(apps: Any, schema_editor: Any) -> None:
    _rewrite(apps, before)


def _rewrite(apps: Any, said_anew: Any) -> None:
    for row in apps.get_model("broker_app", "Bridge").objects.all():
        row.values = said_anew(row.values)
        row.save(update_fields=["values"])
    for row in apps.get_model("broker_app", "ChangedObject").objects.filter(kind="bridges").iterator():
        row.before, row.after = said_anew(row.before), said_anew(row.after)
        row.save(update_fields=["before", "after"])


class Migration(migrations.Migration):

    dependencies = [("broker_app", "0006_provider_subject")]

    operations = [migrations.RunPython(forwards, backwards)]
