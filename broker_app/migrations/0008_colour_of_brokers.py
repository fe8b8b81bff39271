"""Brokers say in which colour pages show their environment; in the history, too."""

from typing import Any

from django.db import migrations, models


def forwards(apps: Any, schema_editor: Any) -> None:
    _rewrite(apps, lambda said: {"colour": "", **said})


def backwards(apps: Any, schema_editor: Any) -> None:
    _rewrite(apps, lambda said: {name: value for name, value in said.items() if name != "colour"})


def _rewrite(apps: Any, said_anew: Any) -> None:
    for row in apps.get_model("broker_app", "ChangedObject").objects.filter(kind="brokers").iterator():
        row.before, row.after = (said and said_anew(said) for said in (row.before, row.after))
        row.save(update_fields=["before", "after"])


class Migration(migrations.Migration):

    dependencies = [("broker_app", "0007_desired_of_bridges")]

    operations = [
        migrations.AddField(
            "broker",
            "colour",
            models.CharField(blank=True, help_text="in which pages show the environment", max_length=10),
        ),
        migrations.RunPython(forwards, backwards),
    ]
