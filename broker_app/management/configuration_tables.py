"""The tables of the configuration, which are those of this version before a broker serves."""

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor


def upgrade() -> None:
    """Apply the migrations that the database lacks. The command looks at all models even if it lacks none,
    which takes fifteen times as long."""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", verbosity=0, interactive=False)
