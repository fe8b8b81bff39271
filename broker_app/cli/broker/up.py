"""`mom up`: runs a broker, as `manage.py broker` does."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterable, Sequence

import typer

from broker_app import config
from broker_app.cli.base.failures import USAGE, Failure
from broker_app.cli.broker.imq_options import expected, translated
from broker_app.features.cluster.configuration.expectations import check

#: all arguments after `up`, --help included, are passed to the broker
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def up(ctx: typer.Context) -> None:
    """Run a broker with its console; `mom up --help` lists the settings."""
    run_broker(ctx.args)


def run_broker(arguments: Sequence[str]) -> None:
    """Run a broker with these options until it ends. Replaces the process by another one with the same
    command line when a restart was ordered. Raises Failure."""
    ordered = expected(arguments)
    arguments = translated(arguments)
    gc.disable()  # until it runs: modules that are imported until then are never freed
    # Before Django reads its settings: the data directory is one of them.
    given = config.options_in(arguments)
    os.environ.update(given)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mom_site.settings")
    import django
    from django.conf import settings

    try:
        django.setup()
        check(settings.MOM, ordered)
    except config.ConfigError as error:
        raise Failure(USAGE, _naming_options(str(error), given)) from error
    from django.core.management import CommandError

    from broker_app.management.commands.broker import OF_DJANGO, OPEN, OWN, Command

    if strange := config.unknown_option(arguments, {*OF_DJANGO, *OWN, "--help"}):
        raise Failure(USAGE, strange, fix="`mom up --help` lists all")
    command = Command()
    command.can_restart = True
    try:
        # Without --traceback, Django prints the error itself, in another format.
        command.run_from_argv(["mom", "up", *arguments, "--traceback"])
    except CommandError as error:
        raise Failure(error.returncode, str(error)) from error
    if command.restart_options is not None:
        same = [word for word in sys.orig_argv[1:] if word != OPEN]
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *same, *command.restart_options])


def _naming_options(text: str, given: Iterable[str]) -> str:
    """The text with options in place of the variables that were given as such."""
    for variable in given:
        option = "--" + variable.removeprefix(config.PREFIX).lower().replace("_", "-")
        text = re.sub(rf"\b{variable}\b", option, text)
    return text
