
from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def keep_versions(apps: Any, schema_editor: Any) -> None:
    """Versions of destinations' settings move to where all kinds have theirs."""
    entry = apps.get_model('broker_app', 'Entry')
    for row in apps.get_model('broker_app', 'DestinationSettings').objects.iterator():
        entry.objects.create(kind='destinations', key=row.address, version=row.version, changed=row.changed)


class Migration(migrations.Migration):

    dependencies = [
        ('broker_app', '0002_destination_settings'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('number', models.BigAutoField(primary_key=True, serialize=False)),
                ('time', models.DateTimeField()),
                ('author', models.CharField(max_length=150)),
                ('via', models.CharField(max_length=20)),
                ('address', models.CharField(blank=True, max_length=200)),
                ('token', models.CharField(blank=True, max_length=100)),
                ('action', models.CharField(help_text='created, changed, removed, logged in, …', max_length=40)),
                ('kind', models.CharField(blank=True, max_length=20)),
                ('key', models.CharField(blank=True, max_length=300)),
                ('before', models.JSONField(null=True)),
                ('after', models.JSONField(null=True)),
                ('reason', models.CharField(blank=True, max_length=1000)),
                ('trace_id', models.CharField(blank=True, max_length=32)),
                ('change', models.PositiveBigIntegerField(help_text='the version that it led to', null=True)),
                ('digest', models.CharField(help_text='SHA-256, in hex, of the one before and of this entry', max_length=64)),
            ],
            options={
                'verbose_name_plural': 'audit entries',
                'ordering': ['-number'],
            },
        ),
        migrations.CreateModel(
            name='Bridge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=20, unique=True)),
                ('values', models.JSONField(default=dict, help_text='as `web.resource_types.bridges` lists them')),
                ('password', models.CharField(blank=True, help_text="of the bridge's credentials", max_length=1000)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Broker',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64, unique=True)),
                ('environment', models.CharField(blank=True, help_text='such as "production"', max_length=40)),
                ('endpoints', models.JSONField(default=list, help_text='where clients reach it')),
                ('settings', models.JSONField(default=dict, help_text='by name, in the place of those it was started with')),
                ('comment', models.CharField(blank=True, max_length=1000)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Change',
            fields=[
                ('number', models.PositiveBigIntegerField(primary_key=True, serialize=False)),
                ('time', models.DateTimeField()),
                ('author', models.CharField(max_length=150)),
                ('via', models.CharField(help_text='console, api, cli, file, start, …', max_length=20)),
                ('address', models.CharField(blank=True, help_text='where the author was', max_length=200)),
                ('reason', models.CharField(blank=True, max_length=1000)),
            ],
            options={
                'ordering': ['-number'],
            },
        ),
        migrations.CreateModel(
            name='Rule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('position', models.IntegerField()),
                ('effect', models.CharField(choices=[('allow', 'allow'), ('deny', 'deny')], default='allow', max_length=5)),
                ('conditions', models.TextField(blank=True, help_text='when it applies; empty is always')),
                ('users', models.JSONField(default=list)),
                ('groups', models.JSONField(default=list)),
                ('comment', models.CharField(blank=True, max_length=1000)),
            ],
            options={
                'ordering': ['position', 'name'],
            },
        ),
        migrations.AddField(
            model_name='token',
            name='grants',
            field=models.JSONField(blank=True, help_text="which of the owner's rights; null is all", null=True),
        ),
        migrations.AddField(
            model_name='token',
            name='last_used',
            field=models.DateTimeField(blank=True, help_text='to the minute', null=True),
        ),
        migrations.CreateModel(
            name='Entry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('key', models.CharField(max_length=300)),
                ('version', models.PositiveBigIntegerField(help_text='the number of the change that wrote it')),
                ('origin', models.CharField(blank=True, help_text='"zero.config:31"; empty is the database', max_length=500)),
                ('changed', models.DateTimeField()),
            ],
            options={
                'verbose_name_plural': 'entries',
                'ordering': ['kind', 'key'],
                'constraints': [models.UniqueConstraint(fields=('kind', 'key'), name='entry_once')],
            },
        ),
        migrations.CreateModel(
            name='ChangedObject',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('key', models.CharField(max_length=300)),
                ('before', models.JSONField(help_text='null: it was not there', null=True)),
                ('after', models.JSONField(help_text='null: it is gone', null=True)),
                ('secrets', models.JSONField(default=list, help_text='names of the secrets that were replaced')),
                ('origin', models.CharField(blank=True, max_length=500)),
                ('change', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='objects_changed', to='broker_app.change')),
            ],
            options={
                'ordering': ['pk'],
                'indexes': [models.Index(fields=['kind', 'key'], name='changed_object_of')],
            },
        ),
        migrations.RunPython(keep_versions, migrations.RunPython.noop),
        migrations.RemoveField(
            model_name='destinationsettings',
            name='changed',
        ),
        migrations.RemoveField(
            model_name='destinationsettings',
            name='version',
        ),
    ]
