"""`mom pipeline run replay`: messages of an archive are published again, after a preview."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli import destinations
from broker_app.cli.base import completion, invocation
from broker_app.cli.base.failures import USAGE, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.options import DryRun, Yes, with_options
from broker_app.cli.base.prompts import confirm
from broker_app.cli.messages.jobs import counted
from broker_app.cli.pipelines.failures import pipeline_failures
from broker_app.cli.pipelines.options import SPARK, Destinations, From, Until, moment
from broker_app.cli.pipelines.run_context import credential_of, done, surroundings

if TYPE_CHECKING:
    from mom_pipeline.runs.replay import Plan
    from pyspark_mom.sink_options import SinkOptions

_COUNTS = ("destination", "broker", "messages", "bytes", "first_ts", "last_ts")
#: characters of a body that a preview shows
_EXCERPT = 60


@with_options(**SPARK, dry_run=DryRun, yes=Yes)
def replay(
    ctx: typer.Context,
    archive: Annotated[
        Path, typer.Option(help="folder of an archive with messages", exists=True, file_okay=False)
    ],
    to: Annotated[
        str | None,
        typer.Option(
            help="queue or topic for all of them",
            autocompletion=completion.destinations,
            show_default="the destination of each",
        ),
    ] = None,
    only: Destinations = None,
    start: From = None,
    end: Until = None,
    where: Annotated[
        str | None,
        typer.Option(help="condition of SQL: \"headers['tenant'] = 'acme' AND body_size > 1000\""),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="maximum number of messages")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=1, help="maximum messages per second")] = None,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="messages that the broker refuses become dead letters")
    ] = False,
    *,
    given: Facts,
) -> None:
    """Publish messages of an archive again, each once under the name of the run.

    mom pipeline run replay --archive /srv/archive --destinations 'orders.>' --from 2026-11-25T03:00Z

    mom pipeline run replay --archive /srv/archive --where "headers['tenant'] = 'acme'" --to again --name acme

    Shows first what would be sent. The same command goes on where the last one ended, also after a kill, and
    sends nothing twice. For other messages, or the same ones once more, give another --name. Messages are
    sent in their order, as new ones: with another id, and without the time at which the first one expired.
    """
    command = invocation.of(ctx)
    with pipeline_failures(), surroundings(ctx, given, "messages") as around:
        from mom_pipeline.runs import replay as job

        name = given.get("name", "replay")
        wish = job.Replay(
            archive=archive,
            where=where,
            destinations=[each.strip() for each in (only or "").split(",") if each.strip()],
            start=moment(start),
            end=moment(end, "--until"),
            limit=limit,
            to=None if to is None else _target(to),
            rate=rate,
        )
        around.say("looking for messages in the archive …")
        plan = job.plan(name, wish, around)
        if given.get("dry_run"):
            _show(command, plan)
            return
        _report(command, plan, to)
        if not plan.messages:
            again = "all of them were sent before; to send them again, give another --name"
            command.output.say(again if plan.sent else "no message matches; nothing was done")
            return
        if not given.get("yes"):
            confirm(name, "send them", production=command.target().production)
        done(ctx, job.run(name, wish, plan, _sink(command, dead_letters=dead_letters), around))


def _target(name: str) -> str:
    """The address of the destination of all messages. Raises Failure."""
    address = destinations.address(name)
    if not address.startswith(("/queue/", "/topic/")):
        raise Failure(USAGE, f"{name} takes no messages of an archive", fix="name a queue or a topic")
    return address


def _sink(command: Invocation, *, dead_letters: bool) -> SinkOptions:
    """The selected broker, with its credential."""
    from pyspark_mom import sink_options

    target = command.target()
    files = {"caFile": target.ca_file, "certFile": target.cert_file}
    options = {"url": target.web, "credential": credential_of(target), **files}
    on_error = sink_options.DEAD_LETTER if dead_letters else sink_options.FAIL
    return sink_options.parse({**{name: text for name, text in options.items() if text}, "onError": on_error})


def _show(command: Invocation, plan: Plan) -> None:
    """Print what would be sent: at a terminal as sentences and a table, else by broker and destination."""
    if command.output.brief:
        _report(command, plan, None)
    else:
        times = ("first_ts", "last_ts")
        rows = [{**row, **{name: row[name].isoformat() for name in times}} for row in plan.counts]
        command.output.rows(_COUNTS, rows)


def _report(command: Invocation, plan: Plan, to: str | None) -> None:
    """Report what would be sent."""
    output = command.output
    where = f" to {to}" if to is not None else ""
    before = f"; {plan.sent:,} were sent before" if plan.sent else ""
    output.say(f"at {command.target().url}: send {counted(plan.messages)}{where}{before}")
    for row in plan.counts:
        output.say(
            f"  {row['destination']} of {row['broker']}: {counted(row['messages'])}, {row['bytes']:,} bytes, "
            f"from {row['first_ts']:%Y-%m-%d %H:%M:%S} to {row['last_ts']:%Y-%m-%d %H:%M:%S} UTC"
        )
    if plan.left_out:
        left_out = f"{counted(plan.left_out)} of subscriptions and temporary queues"
        output.say(f"  without {left_out}, which --to sends, too")
    for row in plan.sample:
        output.say(f"  such as {row['message_id']} of {row['event_ts']:%Y-%m-%d %H:%M:%S}: {_excerpt(row)}")


def _excerpt(row: Mapping[str, Any]) -> str:
    """The beginning of a body, on one line."""
    text = bytes(row["body"][: 4 * _EXCERPT]).decode(errors="replace")
    shown = " ".join(text.split())[:_EXCERPT]
    return shown if shown.isprintable() else f"{len(row['body']):,} bytes"
