"""`mom broker stop`: shuts a broker down."""

from __future__ import annotations

from typing import Annotated

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.prompts import confirm
from broker_app.cli.broker_run import app


@app.command()
def stop(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="name of the broker, so that no other one is shut down")],
    reason: Annotated[str, typer.Option(help="kept in the audit log")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> None:
    """Shut a broker down: it accepts nothing more, finishes what it has accepted, and notifies its clients.

    Example: the callback broker of this machine, also one that was started automatically:

        mom --context REcallback broker stop REcallback
    """
    given = invocation.of(ctx)
    if not yes:
        confirm(name, f"shut down {name}", production=given.target().production)
    done = given.rest().call("POST", "/shutdown", {"name": name, "reason": reason})
    given.output.done(f"{done['name']} stops", done)
