"""`mom up`: runs a broker. The same program as `manage.py broker`."""

from __future__ import annotations

import gc
import os

import typer

from broker_app import config
from broker_app.cli.failures import Failure

#: everything behind `up` is for the broker, its help too
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def up(ctx: typer.Context) -> None:
    """Run a broker with its console; `mom up --help` lists the settings."""
    gc.disable()  # until it runs: what is imported until then stays
    # Before Django reads its settings: where the data is, is one of them.
    os.environ.update(config.options_in(ctx.args))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mom_site.settings")
    import django

    django.setup()
    from django.core.management import CommandError

    from broker_app.management.commands.broker import Command

    try:
        # Without its option, Django prints the error itself, in words of its own.
        Command().run_from_argv(["mom", "up", *ctx.args, "--traceback"])
    except CommandError as error:
        raise Failure(error.returncode, str(error)) from error
