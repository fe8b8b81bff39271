from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('broker_app', '0013_reflexes'),
    ]

    operations = [
        migrations.CreateModel(
            name='Mask',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('values', models.JSONField(default=dict, help_text='as `web.resource_types.masks` lists them')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
    ]
