"""`mom service seed`: messages to profiles that wait for further services."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.options import Yes
from broker_app.cli.base.prompts import confirm
from broker_app.cli.configuration.versions import is_machine_format

app = typer.Typer(
    no_args_is_help=True,
    help="""List and remove seeds: messages to profiles, of which services that register later get copies.

    A message to /profile/CONDITION, such as /profile/type = 'shop', is copied to each service that matches.
    It waits until it has its last copy, expires, or is removed.
    """,
)

_COLUMNS = ("id", "profile", "sender", "copies", "max_copies", "expires_at", "services")


@app.command("ls")
def list_seeds(
    ctx: typer.Context,
    sort: Annotated[
        str | None, typer.Option(help="columns to sort by, - for descending: -copies,sender")
    ] = None,
) -> None:
    """List seeds: all for administrators, your own for others. `services` are those that have got a copy."""
    given = invocation.of(ctx)
    rows = given.rest().pages("/seeds", sort=sort)
    if not is_machine_format(given):
        rows = ({**row, "services": " ".join(row["services"])} for row in rows)
    given.output.rows(_COLUMNS, rows, whole=True)


@app.command()
def rm(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(help="id of the seed, from `mom service seed ls`")],
    yes: Yes = False,
) -> None:
    """Remove a seed: no service gets a further copy. Copies that were made stay."""
    given = invocation.of(ctx)
    if not yes:
        confirm(id, f"remove seed {id}", production=given.target().production)
    given.rest().call("DELETE", f"/seeds/{quote(id, safe='')}")
    given.output.done(f"seed {id} is removed", {"id": id})
