"""`mom service`: programs that are registered under a name."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.options import Yes
from broker_app.cli.base.prompts import confirm
from broker_app.cli.messages import seeds

app = typer.Typer(
    no_args_is_help=True,
    help="""List services: programs that are registered under a name. Their messages are those of the queue of
    that name.

    Programs register themselves: mom_client.connect(service=…), `POST /api/v1/services`, or the header
    mom-service of a STOMP CONNECT. At a callback broker (mom --context REcallback service ls) each has an
    origin, where its messages wait.
    """,
)

app.add_typer(seeds.app, name="seed")

_COLUMNS = (
    "id", "name", "user", "machine", "type", "active", "callbacks", "transport", "since", "pending", "origin",
)  # fmt: skip
_PENDING = ("seq", "id", "state")

_Id = Annotated[str, typer.Argument(help="id of the service, from `mom service ls`")]


@app.command("ls")
def list_services(
    ctx: typer.Context,
    q: Annotated[str | None, typer.Option("--filter", help="words of the name, or a pattern")] = None,
    sort: Annotated[
        str | None, typer.Option(help="columns to sort by, - for descending: -pending,name")
    ] = None,
) -> None:
    """List services. `callbacks` are those that a callback broker may serve."""
    given = invocation.of(ctx)
    rows = given.rest().pages("/services", q=q, sort=sort)
    given.output.rows(_COLUMNS, ({**row, "origin": _origin(row["origin"])} for row in rows), whole=True)


@app.command()
def show(ctx: typer.Context, id: _Id) -> None:
    """Show one service."""
    given = invocation.of(ctx)
    given.output.facts(given.rest().get(_path(id)))


@app.command()
def pending(ctx: typer.Context, id: _Id) -> None:
    """List the messages of a service that wait at its origin, or are held by it; at a callback broker."""
    given = invocation.of(ctx)
    given.output.rows(_PENDING, given.rest().get(f"{_path(id)}/pending")["items"], whole=True)


@app.command()
def activate(ctx: typer.Context, id: _Id) -> None:
    """Let a service get copies of messages to profiles again."""
    _set_active(ctx, id, active=True)


@app.command()
def deactivate(ctx: typer.Context, id: _Id) -> None:
    """Let a service get no copies of messages to profiles. It stays registered."""
    _set_active(ctx, id, active=False)


@app.command()
def rm(ctx: typer.Context, id: _Id, yes: Yes = False) -> None:
    """Deregister a service. Its connection, if it has one, and its messages stay."""
    given = invocation.of(ctx)
    if not yes:
        confirm(id, f"deregister service {id}", production=given.target().production)
    given.rest().call("DELETE", _path(id))
    given.output.done(f"service {id} is deregistered", {"id": id})


def _set_active(ctx: typer.Context, id: str, *, active: bool) -> None:
    given = invocation.of(ctx)
    changed = given.rest().call("PATCH", _path(id), {"active": active})
    given.output.done(f"service {id} is {'active' if active else 'inactive'}", changed)


def _path(id: str) -> str:
    return f"/services/{quote(id, safe='')}"


def _origin(origin: dict[str, str] | None) -> str:
    """The origin of a service in a table: its address, and its state unless it is connected."""
    if origin is None:
        return ""
    return origin["url"] if origin["state"] == "connected" else f"{origin['url']} ({origin['state']})"
