"""`mom topic`: the topics of a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from broker_app.cli import invocation, saying

app = typer.Typer(no_args_is_help=True, help="List, show and configure topics.")

_COLUMNS = ("name", "published", "consumers", "named", "paused", "declared")

_Topic = Annotated[
    str, typer.Argument(help="name of the topic; `create`, `set` and `rm` take prices.> as well")
]


@app.command("ls")
def list_topics(
    ctx: typer.Context,
    part: Annotated[str | None, typer.Option("--name", help="only those with this in their name")] = None,
    sort: Annotated[str | None, typer.Option(help="members to sort by, such as -published,name")] = None,
) -> None:
    """List the topics that were published to since the broker started, and those declared."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/topics", q=part, sort=sort), whole=True)


@app.command()
def show(ctx: typer.Context, topic: _Topic) -> None:
    """Show a topic: its numbers, its consumers, and what holds for it."""
    given = invocation.of(ctx)
    facts = given.rest().get(saying.path_of("topic", topic))
    given.output.facts(saying.shown(facts, given.output.form))


@app.command()
def create(
    ctx: typer.Context,
    topic: _Topic,
    settings: saying.Assignments = None,
    idempotent: saying.Idempotent = False,
) -> None:
    """Declare a topic, with settings."""
    saying.create(invocation.of(ctx), "topic", topic, settings, idempotent=idempotent)


@app.command("set")
def change(ctx: typer.Context, topic: _Topic, settings: saying.Assignments = None) -> None:
    """Change settings of a topic or of all that a pattern covers."""
    saying.change(invocation.of(ctx), "topic", topic, saying.values_of(settings))


@app.command("rm")
def remove(
    ctx: typer.Context,
    topic: _Topic,
    yes: saying.Yes = False,
    dry_run: saying.DryRun = False,
    idempotent: saying.Idempotent = False,
) -> None:
    """Take back what was said about a topic or a pattern."""
    saying.remove(invocation.of(ctx), "topic", topic, yes=yes, dry_run=dry_run, idempotent=idempotent)
