"""`mom conn`: the STOMP connections of a broker."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from broker_app.cli import invocation

app = typer.Typer(no_args_is_help=True, help="List, show and end connections.")

_COLUMNS = (
    "id",
    "user",
    "transport",
    "address",
    "since",
    "subscriptions",
    "unsettled",
    "frames_in",
    "frames_out",
    "bytes_in",
    "bytes_out",
    "slow",
)
_CONSUMER_COLUMNS = (
    "id",
    "destination",
    "ack",
    "credit",
    "unsettled",
    "delivered",
    "acknowledged",
    "waiting",
)

_Id = Annotated[str, typer.Argument(help="id of the connection")]


@app.command("ls")
def list_connections(
    ctx: typer.Context,
    user: Annotated[str | None, typer.Option(help="of this user alone")] = None,
) -> None:
    """List the connections, oldest first."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/connections", user=user), whole=True)


@app.command()
def show(ctx: typer.Context, id: _Id) -> None:
    """Show one connection and its subscriptions."""
    given = invocation.of(ctx)
    facts = given.rest().get(f"/connections/{quote(id, safe='')}")
    if given.output.form in ("json", "ndjson"):
        given.output.facts(facts)
        return
    consumers = facts.pop("consumers")
    given.output.facts(facts)
    if consumers:
        print()
        given.output.rows(_CONSUMER_COLUMNS, consumers)


@app.command()
def close(
    ctx: typer.Context,
    id: _Id,
    reason: Annotated[str, typer.Option(help="what its client is told")],
) -> None:
    """End a connection. What it holds unsettled goes back to its queues."""
    given = invocation.of(ctx)
    given.rest().call("DELETE", f"/connections/{quote(id, safe='')}", {"reason": reason})
    given.output.say("ended")
