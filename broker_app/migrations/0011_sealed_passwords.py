from typing import Any

from django.db import migrations, models


def seal_all(apps: Any, schema_editor: Any) -> None:
    from broker_app.web.auth.encryption import seal

    bridges = apps.get_model("broker_app", "Bridge")
    for bridge in bridges.objects.exclude(password=""):
        bridge.password = seal(bridge.password)
        bridge.save(update_fields=["password"])


def unseal_all(apps: Any, schema_editor: Any) -> None:
    from broker_app.web.auth.encryption import unseal

    bridges = apps.get_model("broker_app", "Bridge")
    for bridge in bridges.objects.exclude(password=""):
        bridge.password = unseal(bridge.password)
        bridge.save(update_fields=["password"])


class Migration(migrations.Migration):
    dependencies = [("broker_app", "0010_alert_rules")]

    operations = [
        migrations.AlterField(
            model_name="bridge",
            name="password",
            field=models.TextField(blank=True, help_text="of the bridge's credentials, sealed"),
        ),
        migrations.RunPython(seal_all, unseal_all),
    ]
