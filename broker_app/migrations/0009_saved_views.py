"""Addresses of the console are kept by a name."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("broker_app", "0008_colour_of_brokers")]

    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("owner", models.CharField(max_length=150)),
                ("name", models.CharField(max_length=100)),
                ("address", models.CharField(max_length=2000)),
                ("shared", models.BooleanField(default=False)),
            ],
            options={
                "ordering": ["name", "owner"],
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "name"), name="view_name_once_per_owner")
                ],
            },
        ),
    ]
