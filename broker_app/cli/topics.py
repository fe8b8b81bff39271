"""`mom topic`: the topics of a broker."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from broker_app.cli import metrics
from broker_app.cli.base import completion, invocation
from broker_app.cli.base.failures import NOT_FOUND, Failure
from broker_app.cli.base.options import DryRun, Idempotent, Yes
from broker_app.cli.base.prompts import confirm
from broker_app.cli.configuration import destination_settings

app = typer.Typer(no_args_is_help=True, help="List, show and configure topics, and their subscriptions.")

app.command("metrics")(metrics.of_topic)

_COLUMNS = ("name", "published", "consumers", "named", "paused", "declared")
_SUBSCRIPTIONS = ("name", "topic", "owner", "state", "consumers", "backlog", "unsettled", "lag_s", "dead")

_Topic = Annotated[
    str,
    typer.Argument(help="name of the topic, or a pattern such as prices.>", autocompletion=completion.topics),
]


@app.command("ls")
def list_topics(
    ctx: typer.Context,
    part: Annotated[
        str | None, typer.Option("--name", help="only topics with this text in their name")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="columns to sort by, - for descending: -published,name")
    ] = None,
) -> None:
    """List declared topics, and those with messages since the broker started."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/topics", q=part, sort=sort), whole=True)


@app.command()
def show(ctx: typer.Context, topic: _Topic) -> None:
    """Show counters, consumers and effective settings of a topic, or the settings of a pattern."""
    given = invocation.of(ctx)
    facts = given.rest().get(destination_settings.path_of("topic", topic))
    given.output.facts(destination_settings.shown(facts, given.output.form))


@app.command()
def subs(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="name of a topic", show_default="all")] = None,
) -> None:
    """List durable and shared subscriptions with owner, backlog and lag."""
    given = invocation.of(ctx)
    path = (
        f"{destination_settings.path_of('topic', topic)}/subscriptions"
        if topic is not None
        else "/subscriptions"
    )
    given.output.rows(_SUBSCRIPTIONS, given.rest().pages(path), whole=True)


@app.command()
def forget(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of a durable subscription")],
    yes: Yes = False,
    dry_run: DryRun = False,
    idempotent: Idempotent = False,
) -> None:
    """Delete a durable subscription without consumers, and its messages."""
    given = invocation.of(ctx)
    rest = given.rest()
    path = f"/subscriptions/{quote(name, safe='')}"
    try:
        facts = rest.get(path)
    except Failure as failure:
        if failure.code == NOT_FOUND and idempotent:
            return given.output.say(f"there is no durable subscription {name}")
        raise
    about = f"subscription {name} of {facts['topic']} at {given.target().url}: {facts['backlog']} waiting"
    given.output.say(about)
    if dry_run:
        return None
    if not yes:
        confirm(name, f"delete subscription {name}", production=given.target().production)
    rest.call("DELETE", path)
    return given.output.say("deleted")


@app.command()
def create(
    ctx: typer.Context,
    topic: _Topic,
    settings: destination_settings.Assignments = None,
    idempotent: Idempotent = False,
) -> None:
    """Declare a topic, with settings."""
    destination_settings.create(invocation.of(ctx), "topic", topic, settings, idempotent=idempotent)


@app.command("set")
def change(ctx: typer.Context, topic: _Topic, settings: destination_settings.Assignments = None) -> None:
    """Change settings of a topic, or of all topics that a pattern matches."""
    destination_settings.change(invocation.of(ctx), "topic", topic, destination_settings.values_of(settings))


@app.command("rm")
def remove(
    ctx: typer.Context,
    topic: _Topic,
    yes: Yes = False,
    dry_run: DryRun = False,
    idempotent: Idempotent = False,
) -> None:
    """Remove the settings of a topic or a pattern."""
    destination_settings.remove(
        invocation.of(ctx), "topic", topic, yes=yes, dry_run=dry_run, idempotent=idempotent
    )
