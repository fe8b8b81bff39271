"""`mom queue`: the queues of a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from broker_app.cli import metrics
from broker_app.cli.base import completion, invocation
from broker_app.cli.base.options import DryRun, Idempotent, Yes
from broker_app.cli.base.prompts import confirm
from broker_app.cli.configuration import destination_settings
from broker_app.cli.messages import explain

app = typer.Typer(no_args_is_help=True, help="List, show, configure, pause, purge and remove queues.")

app.command("why")(explain.why)
app.command("metrics")(metrics.of_queue)

_COLUMNS = (
    "name",
    "depth",
    "delayed",
    "unsettled",
    "consumers",
    "published",
    "delivered",
    "acknowledged",
    "expired",
    "dead",
    "paused",
)
_RATES = ("in_rate", "out_rate", "oldest_s")

_Queue = Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)]


@app.command("ls")
def list_queues(
    ctx: typer.Context,
    part: Annotated[
        str | None, typer.Option("--name", help="only queues with this text in their name")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="columns to sort by, - for descending: -depth,name")
    ] = None,
) -> None:
    """List queues with their counters."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/queues", q=part, sort=sort), whole=True)


@app.command()
def show(ctx: typer.Context, queue: _Queue) -> None:
    """Show counters, consumers and effective settings of a queue, or the settings of a pattern."""
    given = invocation.of(ctx)
    rest = given.rest()
    facts = rest.get(destination_settings.path_of("queue", queue))
    samples = rest.get("/stats").get("destinations", [])
    sample: dict[str, object] = next(
        (row for row in samples if row["name"] == f"/queue/{facts.get('name')}"), {}
    )
    rates = {name: sample[name] for name in _RATES if name in sample}
    given.output.facts(destination_settings.shown({**facts, **rates}, given.output.form))


@app.command()
def create(
    ctx: typer.Context,
    queue: _Queue,
    settings: destination_settings.Assignments = None,
    idempotent: Idempotent = False,
) -> None:
    """Declare a queue with settings; it then exists even when empty. A pattern (orders.>) matches many."""
    destination_settings.create(invocation.of(ctx), "queue", queue, settings, idempotent=idempotent)


@app.command("set")
def change(ctx: typer.Context, queue: _Queue, settings: destination_settings.Assignments = None) -> None:
    """Change settings of a queue, or of all queues that a pattern matches."""
    destination_settings.change(invocation.of(ctx), "queue", queue, destination_settings.values_of(settings))


@app.command()
def pause(
    ctx: typer.Context,
    queue: _Queue,
    who: Annotated[str, typer.Argument(help="producers, consumers or all")] = "all",
) -> None:
    """Refuse messages of producers, stop deliveries to consumers, or both."""
    destination_settings.change(invocation.of(ctx), "queue", queue, {"paused": who.lower()})


@app.command()
def resume(ctx: typer.Context, queue: _Queue) -> None:
    """Resume a paused queue."""
    destination_settings.resume(invocation.of(ctx), "queue", queue)


@app.command("rm")
def remove(
    ctx: typer.Context,
    queue: _Queue,
    force: Annotated[bool, typer.Option("--force", help="also if it has messages; they are deleted")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    idempotent: Idempotent = False,
) -> None:
    """Remove a queue without consumers, and its settings."""
    destination_settings.remove(
        invocation.of(ctx), "queue", queue, yes=yes, dry_run=dry_run, idempotent=idempotent, force=force
    )


@app.command()
def purge(
    ctx: typer.Context,
    queue: _Queue,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete all waiting messages of a queue. Unsettled messages stay."""
    from broker_app.cli.base.rest import queue_path

    given = invocation.of(ctx)
    rest = given.rest()
    facts = rest.get(queue_path(queue))
    given.output.say(f"{facts['depth']} waiting messages of queue {facts['name']} at {given.target().url}")
    if dry_run:
        return
    if not yes:
        confirm(facts["name"], "remove them", production=given.target().production)
    rest.call("DELETE", queue_path(queue, "messages"), query={"all": "true"})
    given.output.say("removed")
