"""The entry point of `mom`: assembles the commands and turns failures into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError, NoSuchOption

from broker_app.base.process.private_files import write_for_owner_alone
from broker_app.base.suggestions import suggestion
from broker_app.cli.base import completion
from broker_app.cli.base.failures import FAILED, USAGE, Failure
from broker_app.cli.base.help_texts import prepare
from broker_app.cli.base.invocation import GLOBAL_OPTIONS, Invocation, command_of, options_first
from broker_app.cli.base.output import FORMATS, Output
from broker_app.cli.broker.up import PASSED_ON
from broker_app.config import ConfigError

app = typer.Typer(
    name="mom",
    help="MOM, the message broker: run it, use it, operate it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_RUN, _USE, _OPERATE = "Run a broker", "Use a broker", "Operate a broker"
_CONTROL = "Configure permissions, bridges, callbacks, alerts and settings"
#: command → panel of the help, and its place: a module of this package and an attribute of it
_COMMANDS = {
    "up": (_RUN, "broker.up.up"),
    "status": (_RUN, "broker.default_broker.status"),
    "stop": (_RUN, "broker.default_broker.stop"),
    "doctor": (_RUN, "doctor.doctor"),
    "journal": (_RUN, "journals.commands.app"),
    "token": (_RUN, "tokens.app"),
    "pub": (_USE, "messages.publish.pub"),
    "sub": (_USE, "messages.subscribe.sub"),
    "get": (_USE, "messages.receive.get"),
    "browse": (_USE, "messages.receive.browse"),
    "count": (_USE, "messages.export_import.count"),
    "export": (_USE, "messages.export_import.export"),
    "import": (_USE, "messages.export_import.import_"),
    "move": (_OPERATE, "messages.bulk.move"),
    "copy": (_OPERATE, "messages.bulk.copy"),
    "delete": (_OPERATE, "messages.bulk.delete"),
    "retry": (_OPERATE, "messages.bulk.retry"),
    "replay": (_OPERATE, "messages.bulk.replay"),
    "job": (_OPERATE, "messages.jobs.app"),
    "queue": (_OPERATE, "queues.app"),
    "topic": (_OPERATE, "topics.app"),
    "conn": (_OPERATE, "connections.app"),
    "channel": (_USE, "channels.app"),
    "service": (_OPERATE, "services.app"),
    "stats": (_OPERATE, "top.stats"),
    "top": (_OPERATE, "top.top"),
    "pipeline": (_OPERATE, "pipelines.commands.app"),
    "context": (_OPERATE, "context_commands.app"),
    "bench": (_OPERATE, "messages.bench.app"),
    "rule": (_CONTROL, "configuration.rules.app"),
    "mask": (_CONTROL, "masks.app"),
    "user": (_CONTROL, "configuration.resources.users"),
    "group": (_CONTROL, "configuration.resources.groups"),
    "broker": (_CONTROL, "broker.broker_control.app"),
    "bridge": (_CONTROL, "bridges.app"),
    "callback": (_CONTROL, "callbacks.app"),
    "mirror": (_OPERATE, "mirrors.app"),
    "cluster": (_OPERATE, "cluster.clusters.app"),
    "reflex": (_CONTROL, "reflexes.app"),
    "alert": (_CONTROL, "alerts.app"),
    "config": (_CONTROL, "configuration.config_commands.app"),
    "definitions": (_CONTROL, "configuration.definitions.app"),
    "audit": (_CONTROL, "audit.app"),
}


def _assemble(command: str) -> None:
    """Load one command, or all for help and completion. Loading all takes longer than most commands run."""
    for name in (command,) if command in _COMMANDS else _COMMANDS:
        panel, place = _COMMANDS[name]
        module, _, attribute = place.rpartition(".")
        found = getattr(importlib.import_module(f"broker_app.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, rich_help_panel=panel)
        else:
            more: dict[str, Any] = (
                {"context_settings": PASSED_ON, "cls": completion.Up} if name == "up" else {}
            )
            app.command(name, rich_help_panel=panel, **more)(found)


def _needed(words: Sequence[str]) -> str:
    """The command that these words run, or whose words a shell has completed; empty if that is none yet."""
    if "_MOM_COMPLETE" not in os.environ:
        return command_of(words)
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    finished = typed.rpartition(" ")[0].split()
    return command_of(options_first(finished[1:]))


def _show_version(requested: bool) -> None:
    if requested:
        from importlib import metadata

        print(f"mom {metadata.version('mom-broker')}")
        raise typer.Exit


@app.callback()
def _global_options(
    ctx: typer.Context,
    context: Annotated[
        str | None,
        typer.Option(
            help="broker to use: a name of `mom context ls` (MOM_CONTEXT)",
            autocompletion=completion.context_names,
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(help="address of the broker (MOM_URL)")] = None,
    token_file: Annotated[
        str | None, typer.Option(help="file with the token (MOM_TOKEN, MOM_TOKEN_FILE)")
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(help="file of certificate authorities to trust (MOM_CA_FILE)")
    ] = None,
    cert_file: Annotated[
        str | None, typer.Option(help="file with a client certificate and its key (MOM_CERT_FILE)")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help=f"one of {', '.join(FORMATS)}", autocompletion=completion.formats
        ),
    ] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="do not print column names")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="print only data and errors")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="print the version")
    ] = False,
) -> None:
    if output is not None and output not in FORMATS:
        raise Failure(USAGE, f"there is no output format {output!r}", fix=f"use one of {', '.join(FORMATS)}")
    written = Output(output, header=not no_header, quiet=quiet)
    ctx.obj = Invocation(context, url, token_file, written, ca_file, cert_file)


def _database_error(error: Exception) -> str:
    """The reason why the configuration database failed, such as a full disk; empty for another error."""
    django_db = sys.modules.get("django.db")
    if django_db is None or not isinstance(error, django_db.OperationalError):
        return ""
    from mom_site.database import trouble

    return trouble(error, Path(os.environ.get("MOM_DATA", "data")))


def _usage_failure(error: ClickException) -> Failure:
    """An error of the parser of options and arguments, in the form of our own errors."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "mom"
    what = error.format_message().rstrip(".")
    if isinstance(error, NoSuchOption):
        known = [*(error.possibilities or ()), *GLOBAL_OPTIONS]
        what = f"no such option: {error.option_name}{suggestion(error.option_name, known)}"
    return Failure(USAGE, what[:1].lower() + what[1:], fix=f"see `{command} --help`")


def _path_of(command: Any, words: Sequence[str]) -> str:
    """The command that the words of a command line name, with its groups."""
    path = ["mom"]
    for word in words:
        found = getattr(command, "commands", {}).get(word)
        if found is not None:
            path.append(word)
            command = found
    return " ".join(path)


def main() -> None:
    """Run the command line of this process and exit."""
    write_for_owner_alone()
    words = options_first(sys.argv[1:])
    try:
        _assemble(_needed(words))
        command = typer.main.get_command(app)
        prepare(command)
        sys.exit(command(words, prog_name="mom", standalone_mode=False) or 0)
    except Failure as failure:
        if failure.code == USAGE and not failure.fix:
            failure.fix = f"see `{_path_of(command, words)} --help`"
        print(failure, file=sys.stderr)
        sys.exit(failure.code)
    except NoArgsIsHelpError as error:
        error.show(sys.stderr)
        sys.exit(USAGE)
    except ClickException as error:
        print(_usage_failure(error), file=sys.stderr)
        sys.exit(error.exit_code)
    except typer.Abort:
        print("mom: interrupted", file=sys.stderr)
        sys.exit(FAILED)
    except ConfigError as error:
        print(f"mom: {error}", file=sys.stderr)
        sys.exit(USAGE)
    except Exception as error:
        if os.environ.get("MOM_DEBUG"):
            raise
        if known := _database_error(error):
            print(f"mom: {known}", file=sys.stderr)
            sys.exit(FAILED)
        print(f"mom: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print("  fix:   please report it; MOM_DEBUG=1 shows the traceback", file=sys.stderr)
        sys.exit(FAILED)
