"""`mom conn`: the STOMP connections of a broker."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.options import Span, span

app = typer.Typer(no_args_is_help=True, help="List, show, drain and close connections.")

_COLUMNS = (
    "id",
    "user",
    "client",
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
    "priority",
    "credit",
    "unsettled",
    "delivered",
    "acknowledged",
    "waiting",
)
_EVENT_COLUMNS = ("at", "event", "code", "detail", "by", "times")

_Id = Annotated[str, typer.Argument(help="id of the connection")]


@app.command("ls")
def list_connections(
    ctx: typer.Context,
    user: Annotated[str | None, typer.Option(help="only connections of this user")] = None,
    filter: Annotated[str | None, typer.Option(help="text in user, client-id, address or id")] = None,
    sort: Annotated[
        str | None, typer.Option(help="columns to sort by, - for descending: -unsettled,user")
    ] = None,
    closed: Annotated[bool, typer.Option("--closed", help="connections closed within the last day")] = False,
) -> None:
    """List connections, oldest first."""
    given = invocation.of(ctx)
    state = "closed" if closed else None
    found = given.rest().pages("/connections", user=user, filter=filter, sort=sort, state=state)
    columns = (*_COLUMNS[:6], "closed_at", "reason") if closed else _COLUMNS
    given.output.rows(columns, found, whole=True)


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
    reason: Annotated[str, typer.Option(help="reason, sent to the client")],
) -> None:
    """Close a connection. Its unsettled messages return to their queues."""
    given = invocation.of(ctx)
    given.rest().call("DELETE", f"/connections/{quote(id, safe='')}", {"reason": reason})
    given.output.say("closed")


@app.command()
def events(ctx: typer.Context, id: _Id) -> None:
    """Show the events of a client, newest first, until a day after it disconnected."""
    given = invocation.of(ctx)
    given.output.rows(
        _EVENT_COLUMNS, given.rest().pages(f"/connections/{quote(id, safe='')}/events"), whole=True
    )


@app.command()
def drain(
    ctx: typer.Context,
    id: _Id,
    reason: Annotated[str, typer.Option(help="reason, sent to the client")],
    within: Annotated[float, typer.Option(parser=span(), help="time to settle what it has: 30s")] = Span(30),
) -> None:
    """Deliver nothing new to a client, and close its connection when it has settled everything."""
    given = invocation.of(ctx)
    path = f"/connections/{quote(id, safe='')}/drain"
    given.rest().call("POST", path, {"reason": reason, "within_s": within})
    given.output.say("draining")
