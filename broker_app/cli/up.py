"""`mom up`: runs a broker. The same program as `manage.py broker`."""

from __future__ import annotations

import os

import typer

from broker_app import config

#: everything behind `up` is for the broker, its help too
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def up(ctx: typer.Context) -> None:
    """Run a broker with its console; `mom up --help` lists the settings."""
    # Before Django reads its settings: where the data is, is one of them.
    os.environ.update(config.options_in(ctx.args))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mom_site.settings")
    import django

    django.setup()
    from broker_app.management.commands.broker import Command

    Command().run_from_argv(["mom", "up", *ctx.args])
