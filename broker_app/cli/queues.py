"""`mom queue`: the queues of a broker."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from broker_app.cli import completion, destination_settings, explain, invocation
from broker_app.cli.prompts import confirm

app = typer.Typer(no_args_is_help=True, help="List, show, configure, pause, empty and remove queues.")

app.command("why")(explain.why)

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
    part: Annotated[str | None, typer.Option("--name", help="only those with this in their name")] = None,
    sort: Annotated[str | None, typer.Option(help="members to sort by, such as -depth,name")] = None,
) -> None:
    """List the queues and what is in them."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/queues", q=part, sort=sort), whole=True)


@app.command()
def show(ctx: typer.Context, queue: _Queue) -> None:
    """Show a queue: its numbers, its consumers, and what holds for it. Of a pattern, what it says."""
    given = invocation.of(ctx)
    rest = given.rest()
    facts = rest.get(destination_settings.path_of("queue", queue))
    samples = rest.get("/stats").get("destinations", [])
    sample: dict[str, Any] = next(
        (row for row in samples if row["name"] == f"/queue/{facts.get('name')}"), {}
    )
    rates = {name: sample[name] for name in _RATES if name in sample}
    given.output.facts(destination_settings.shown({**facts, **rates}, given.output.form))


@app.command()
def create(
    ctx: typer.Context,
    queue: _Queue,
    settings: destination_settings.Assignments = None,
    idempotent: destination_settings.Idempotent = False,
) -> None:
    """Declare a queue, with settings. It then stays, also empty; a pattern (orders.>) covers many."""
    destination_settings.create(invocation.of(ctx), "queue", queue, settings, idempotent=idempotent)


@app.command("set")
def change(ctx: typer.Context, queue: _Queue, settings: destination_settings.Assignments = None) -> None:
    """Change settings of a queue or of all that a pattern covers."""
    destination_settings.change(invocation.of(ctx), "queue", queue, destination_settings.values_of(settings))


@app.command()
def pause(
    ctx: typer.Context,
    queue: _Queue,
    who: Annotated[str, typer.Argument(help="producers, consumers or all")] = "all",
) -> None:
    """Refuse what producers send, hand consumers nothing, or both."""
    destination_settings.change(invocation.of(ctx), "queue", queue, {"paused": who.lower()})


@app.command()
def resume(ctx: typer.Context, queue: _Queue) -> None:
    """End a pause."""
    destination_settings.resume(invocation.of(ctx), "queue", queue)


@app.command("rm")
def remove(
    ctx: typer.Context,
    queue: _Queue,
    force: Annotated[bool, typer.Option("--force", help="also when messages are in it, which go")] = False,
    yes: destination_settings.Yes = False,
    dry_run: destination_settings.DryRun = False,
    idempotent: destination_settings.Idempotent = False,
) -> None:
    """Remove a queue that has no consumers, and what was said about it."""
    destination_settings.remove(
        invocation.of(ctx), "queue", queue, yes=yes, dry_run=dry_run, idempotent=idempotent, force=force
    )


@app.command()
def purge(
    ctx: typer.Context,
    queue: _Queue,
    yes: destination_settings.Yes = False,
    dry_run: destination_settings.DryRun = False,
) -> None:
    """Remove all messages that wait in a queue. Those that are handed out stay."""
    from broker_app.cli.rest import queue_path

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
