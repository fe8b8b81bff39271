"""The entry of `mom`: puts the commands together and turns failures into exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from broker_app.cli import (
    audit,
    bench,
    bulk,
    carrying,
    config_commands,
    connections,
    context_commands,
    definitions,
    doctor,
    explaining,
    jobs,
    journal_commands,
    judging,
    kinds,
    queues,
    receiving,
    sending,
    subscribing,
    tokens,
    topics,
    up,
    versions,
    watching,
)
from broker_app.cli.failures import FAILED, USAGE, Failure
from broker_app.cli.invocation import Invocation, options_first
from broker_app.cli.output import FORMATS, Output
from broker_app.config import ConfigError

app = typer.Typer(
    name="mom",
    help="MOM, the message broker: run it, use it, operate it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_RUN, _USE, _OPERATE = "Run a broker", "Use a broker", "Operate a broker"
_CONTROL = "Say who may do what, and how it is configured"
app.command("up", context_settings=up.PASSED_ON, rich_help_panel=_RUN)(up.up)
app.command("doctor", rich_help_panel=_RUN)(doctor.doctor)
app.add_typer(journal_commands.app, name="journal", rich_help_panel=_RUN)
app.add_typer(tokens.app, name="token", rich_help_panel=_RUN)
app.command("pub", rich_help_panel=_USE)(sending.pub)
app.command("sub", rich_help_panel=_USE)(subscribing.sub)
app.command("get", rich_help_panel=_USE)(receiving.get)
app.command("browse", rich_help_panel=_USE)(receiving.browse)
app.command("count", rich_help_panel=_USE)(carrying.count)
app.command("export", rich_help_panel=_USE)(carrying.export)
app.command("import", rich_help_panel=_USE)(carrying.import_)
for deed in (bulk.move, bulk.copy, bulk.delete, bulk.retry, bulk.replay):
    app.command(deed.__name__, rich_help_panel=_OPERATE)(deed)
app.add_typer(jobs.app, name="job", rich_help_panel=_OPERATE)
queues.app.command("why")(explaining.why)
app.add_typer(queues.app, name="queue", rich_help_panel=_OPERATE)
app.add_typer(topics.app, name="topic", rich_help_panel=_OPERATE)
app.add_typer(connections.app, name="conn", rich_help_panel=_OPERATE)
for kind in (kinds.RULES, kinds.USERS, kinds.GROUPS, kinds.BROKERS, kinds.BRIDGES):
    commands = kinds.commands(kind)
    if kind is kinds.RULES:
        commands.command("test")(judging.try_out)
        commands.command()(judging.explain)
    app.add_typer(commands, name=kind.one, rich_help_panel=_CONTROL)
for change in (versions.history, versions.diff, versions.rollback):
    config_commands.app.command(change.__name__)(change)
app.add_typer(config_commands.app, name="config", rich_help_panel=_CONTROL)
app.add_typer(definitions.app, name="definitions", rich_help_panel=_CONTROL)
app.add_typer(audit.app, name="audit", rich_help_panel=_CONTROL)
app.command("stats", rich_help_panel=_OPERATE)(watching.stats)
app.command("top", rich_help_panel=_OPERATE)(watching.top)
app.add_typer(context_commands.app, name="context", rich_help_panel=_OPERATE)
app.add_typer(bench.app, name="bench", rich_help_panel=_OPERATE)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        print(f"mom {metadata.version('mom')}")
        raise typer.Exit


@app.callback()
def _everywhere(
    ctx: typer.Context,
    context: Annotated[
        str | None, typer.Option(help="which broker: a name of `mom context ls` (MOM_CONTEXT)")
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
    output: Annotated[str | None, typer.Option("--output", "-o", help=f"one of {', '.join(FORMATS)}")] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="no line of column names")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="nothing but data and errors")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="print the version")
    ] = False,
) -> None:
    if output is not None and output not in FORMATS:
        raise Failure(
            USAGE, f"there is no output format {output!r}", mend=f"take one of {', '.join(FORMATS)}"
        )
    written = Output(output, header=not no_header, quiet=quiet)
    ctx.obj = Invocation(context, url, token_file, written, ca_file, cert_file)


def main() -> None:
    """Runs the command line of this process and exits."""
    try:
        app(options_first(sys.argv[1:]), prog_name="mom")
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(failure.code)
    except ConfigError as error:
        print(f"mom: {error}", file=sys.stderr)
        sys.exit(USAGE)
    except Exception as error:
        if os.environ.get("MOM_DEBUG"):
            raise
        print(f"mom: this is a fault of mom itself: {type(error).__name__}: {error}", file=sys.stderr)
        print("  mend:  MOM_DEBUG=1 shows where; please report it", file=sys.stderr)
        sys.exit(FAILED)
