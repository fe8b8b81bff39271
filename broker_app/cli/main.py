"""The entry of `mom`: puts the commands together and turns failures into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from broker_app.cli import completion
from broker_app.cli.failures import FAILED, USAGE, Failure
from broker_app.cli.invocation import Invocation, command_of, options_first
from broker_app.cli.output import FORMATS, Output
from broker_app.cli.up import PASSED_ON
from broker_app.config import ConfigError
from broker_app.private import write_for_owner_alone

app = typer.Typer(
    name="mom",
    help="MOM, the message broker: run it, use it, operate it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_RUN, _USE, _OPERATE = "Run a broker", "Use a broker", "Operate a broker"
_CONTROL = "Say who may do what, and how it is configured"
#: command → panel of the help, and where it is: a module of this package, and what there
_COMMANDS = {
    "up": (_RUN, "up.up"),
    "doctor": (_RUN, "doctor.doctor"),
    "journal": (_RUN, "journal_commands.app"),
    "token": (_RUN, "tokens.app"),
    "pub": (_USE, "publish.pub"),
    "sub": (_USE, "subscribe.sub"),
    "get": (_USE, "receive.get"),
    "browse": (_USE, "receive.browse"),
    "count": (_USE, "export_import.count"),
    "export": (_USE, "export_import.export"),
    "import": (_USE, "export_import.import_"),
    "move": (_OPERATE, "bulk.move"),
    "copy": (_OPERATE, "bulk.copy"),
    "delete": (_OPERATE, "bulk.delete"),
    "retry": (_OPERATE, "bulk.retry"),
    "replay": (_OPERATE, "bulk.replay"),
    "job": (_OPERATE, "jobs.app"),
    "queue": (_OPERATE, "queues.app"),
    "topic": (_OPERATE, "topics.app"),
    "conn": (_OPERATE, "connections.app"),
    "stats": (_OPERATE, "top.stats"),
    "top": (_OPERATE, "top.top"),
    "context": (_OPERATE, "context_commands.app"),
    "bench": (_OPERATE, "bench.app"),
    "rule": (_CONTROL, "rules.app"),
    "user": (_CONTROL, "resources.users"),
    "group": (_CONTROL, "resources.groups"),
    "broker": (_CONTROL, "resources.brokers"),
    "bridge": (_CONTROL, "bridges.app"),
    "alert": (_CONTROL, "alerts.app"),
    "config": (_CONTROL, "config_commands.app"),
    "definitions": (_CONTROL, "definitions.app"),
    "audit": (_CONTROL, "audit.app"),
}


def _assemble(command: str) -> None:
    """Loads the command that is asked for; all, for help and completion. To load all takes longer than most
    commands."""
    for name in (command,) if command in _COMMANDS else _COMMANDS:
        panel, place = _COMMANDS[name]
        module, _, attribute = place.partition(".")
        found = getattr(importlib.import_module(f"broker_app.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, rich_help_panel=panel)
        else:
            more: dict[str, Any] = (
                {"context_settings": PASSED_ON, "cls": completion.Up} if name == "up" else {}
            )
            app.command(name, rich_help_panel=panel, **more)(found)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        print(f"mom {metadata.version('mom')}")
        raise typer.Exit


@app.callback()
def _everywhere(
    ctx: typer.Context,
    context: Annotated[
        str | None,
        typer.Option(
            help="which broker: a name of `mom context ls` (MOM_CONTEXT)",
            autocompletion=completion.context_names,
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(help="address of the broker (MOM_URL)")] = None,
    token_file: Annotated[
        str | None, typer.Option(help="file with the token (MOM_TOKEN, MOM_TOKEN_FILE)")
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(help="file with the authorities that TLS trusts (MOM_CA_FILE)")
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
    no_header: Annotated[bool, typer.Option("--no-header", help="no line of column names")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="nothing but data and errors")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="print the version")
    ] = False,
) -> None:
    if output is not None and output not in FORMATS:
        raise Failure(USAGE, f"there is no output format {output!r}", fix=f"take one of {', '.join(FORMATS)}")
    written = Output(output, header=not no_header, quiet=quiet)
    ctx.obj = Invocation(context, url, token_file, written, ca_file, cert_file)


def _of_database(error: Exception) -> str:
    """What is wrong with the configuration database, as a full disk; empty for another error."""
    django_db = sys.modules.get("django.db")
    if django_db is None or not isinstance(error, django_db.OperationalError):
        return ""
    from mom_site.database import trouble

    return trouble(error, Path(os.environ.get("MOM_DATA", "data")))


def main() -> None:
    """Runs the command line of this process and exits."""
    write_for_owner_alone()
    words = options_first(sys.argv[1:])
    try:
        _assemble(command_of(words) if "_MOM_COMPLETE" not in os.environ else "")
        app(words, prog_name="mom")
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(failure.code)
    except ConfigError as error:
        print(f"mom: {error}", file=sys.stderr)
        sys.exit(USAGE)
    except Exception as error:
        if os.environ.get("MOM_DEBUG"):
            raise
        if known := _of_database(error):
            print(f"mom: {known}", file=sys.stderr)
            sys.exit(FAILED)
        print(f"mom: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print("  fix:   please report it; MOM_DEBUG=1 shows the traceback", file=sys.stderr)
        sys.exit(FAILED)
