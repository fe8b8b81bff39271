"""`mom cluster record`: the change record of a cluster, its backup and what restores it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.failures import FAILED, USAGE, Failure
from broker_app.cli.configuration.versions import is_machine_format
from broker_app.features.cluster.record.change_record import KINDS

app = typer.Typer(
    no_args_is_help=True,
    help="""Show, back up and restore the change record of a cluster.

    It has the declared destinations and the durable subscriptions of all brokers. Each broker has all of it,
    so that a broker which has lost its own gets it from the others; a backup brings back what was deleted or
    changed everywhere.
    """,
)
_COLUMNS = ("name", "kind", "version", "origin", "deleted", "value")
_NDJSON = "application/x-ndjson"


@app.command("ls")
def list_entries(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Option(help=f"only of this kind: {', '.join(KINDS)}")] = None,
    q: Annotated[str | None, typer.Option("--filter", help="words of the name, or a pattern")] = None,
) -> None:
    """List the entries, deleted ones too: `version` counts the changes, `origin` is where it was changed."""
    given = invocation.of(ctx)
    if kind is not None and kind not in KINDS:
        raise Failure(USAGE, f"{kind!r} is no kind of an entry", fix=f"use one of {', '.join(KINDS)}")
    given.output.rows(_COLUMNS, given.rest().pages("/cluster/record", kind=kind, q=q), whole=True)


@app.command()
def backup(ctx: typer.Context, file: Annotated[Path, typer.Argument(help="file to write")]) -> None:
    """Write all entries into a file (imqbrokerd -backup)."""
    given = invocation.of(ctx)
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        fresh = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as into:
                given.rest().download("/cluster/record/backup", into, _NDJSON)
            fresh.replace(file)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(FAILED, f"{file} cannot be written: {error.strerror}") from None
    given.output.say(f"the change record is in {file}")


@app.command()
def restore(ctx: typer.Context, file: Annotated[Path, typer.Argument(help="file of a backup")]) -> None:
    """Enter what a backup has and the record has not, at all brokers (imqbrokerd -restore).

    Destinations and subscriptions that the backup does not have stay as they are.
    """
    given = invocation.of(ctx)
    try:
        with file.open("rb") as source:
            found = given.rest().upload("/cluster/record/restore", source, _NDJSON)
    except OSError as error:
        raise Failure(FAILED, f"{file} cannot be read: {error.strerror}") from None
    given.output.say(f"{found['changes']} entries were changed")


@app.command()
def compact(ctx: typer.Context) -> None:
    """Rewrite the file of the record with the newest entries only; the broker does so too when it grows."""
    given = invocation.of(ctx)
    found = given.rest().call("POST", "/cluster/record/compact")
    if is_machine_format(given):
        given.output.facts(found)
    else:
        given.output.say(f"{found['entries']} entries in {found['lines']} lines")
