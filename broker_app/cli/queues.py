"""`mom queue`: the queues of a broker."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.failures import NOT_FOUND, REFUSED, USAGE, Failure

if TYPE_CHECKING:
    from broker_app.cli.rest import Rest

app = typer.Typer(no_args_is_help=True, help="List, show and empty queues.")

_COLUMNS = (
    "name",
    "depth",
    "unsettled",
    "consumers",
    "published",
    "delivered",
    "acknowledged",
    "expired",
    "dead",
)
_RATES = ("in_rate", "out_rate", "oldest_s")

_Queue = Annotated[str, typer.Argument(help="name of the queue")]


@app.command("ls")
def list_queues(ctx: typer.Context) -> None:
    """List the queues and what is in them."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/queues"), whole=True)


@app.command()
def show(ctx: typer.Context, queue: _Queue) -> None:
    """Show the numbers of one queue."""
    given = invocation.of(ctx)
    rest = given.rest()
    facts = _facts(rest, queue)
    samples = rest.get("/stats").get("destinations", [])
    sample: dict[str, Any] = next((row for row in samples if row["name"] == f"/queue/{facts['name']}"), {})
    given.output.facts({**facts, **{name: sample[name] for name in _RATES if name in sample}})


@app.command()
def purge(
    ctx: typer.Context,
    queue: _Queue,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be removed")] = False,
) -> None:
    """Remove all messages that wait in a queue. Those that are handed out stay."""
    from broker_app.cli.rest import queue_path

    given = invocation.of(ctx)
    rest = given.rest()
    facts = _facts(rest, queue)
    given.output.say(f"{facts['depth']} waiting messages of queue {facts['name']} at {given.target().url}")
    if dry_run:
        return
    if not yes:
        _confirm(facts["name"], production=given.target().production)
    rest.call("DELETE", queue_path(queue, "messages"), query={"all": "true"})
    given.output.say("removed")


def _confirm(name: str, *, production: bool) -> None:
    """Asks at the terminal; on a production broker the name must be typed."""
    if not sys.stdin.isatty():
        raise Failure(
            USAGE, "nobody is there to confirm", mend="add --yes, or --dry-run to see what would happen"
        )
    if production:
        agreed = typer.prompt(f"This is production. Type {name} to remove them", err=True) == name
    else:
        agreed = typer.confirm("Remove them?", err=True)
    if not agreed:
        raise Failure(REFUSED, "nothing was removed")


def _facts(rest: Rest, queue: str) -> dict[str, Any]:
    name = queue.removeprefix("/queue/")
    for row in rest.pages("/queues"):
        if row["name"] == name:
            return row
    raise Failure(
        NOT_FOUND,
        f"there is no queue {name!r}",
        mend="`mom queue ls` lists them; queues are made by their first use",
    )
