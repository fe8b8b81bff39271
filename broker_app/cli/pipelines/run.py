"""`mom pipeline run`: start a job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import Failure
from broker_app.cli.base.options import with_options
from broker_app.cli.pipelines import replay as pipeline_replay
from broker_app.cli.pipelines.failures import pipeline_failures
from broker_app.cli.pipelines.options import (
    SENDER,
    SOURCE,
    SPARK,
    AvailableNow,
    Every,
    From,
    interval,
    moment,
)
from broker_app.cli.pipelines.run_context import done, source, surroundings

if TYPE_CHECKING:
    from mom_pipeline.runs.reconcile import ReconcileResult

app = typer.Typer(
    no_args_is_help=True,
    help="""Run a job: archive, statistics, reconcile, replay, compact.

    A run has a name, by default that of its job, under which `mom pipeline ls` and the console show it and
    `mom pipeline stop` ends it. A second run of a name is refused while the first one runs. What it has done
    is kept in ~/.local/state/mom/brokers/HOST-PORT/pipeline/NAME, so the same command goes on where the
    last one ended.

    Exit codes: 0 done or stopped, 2 wrong options, 3 the broker no longer has what was to be read, 4
    differences found, 75 try again later.
    """,
)
app.command("replay")(pipeline_replay.replay)


@app.command()
@with_options(**SOURCE, **SPARK)
def archive(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="folder of the archive")],
    messages: Annotated[bool, typer.Option("--messages", help="also messages with their bodies")] = False,
    every: Every = None,
    available_now: AvailableNow = False,
    once: Annotated[bool, typer.Option("--once", help="like --available-now, in one batch")] = False,
    start: From = None,
    *,
    given: Facts,
) -> None:
    """Keep all events as Parquet files, each exactly once.

    mom pipeline run archive --out /srv/archive

    mom pipeline run archive --out /srv/archive --messages --every 5s

    The next run goes on where this one ended, also after a kill. `--messages` is needed to replay them.
    """
    with pipeline_failures(), surroundings(ctx, given) as around:
        from mom_pipeline.archive_tables import EVENT, TABLES
        from mom_pipeline.runs import archive as job

        every_s = interval(every, available_now=available_now, once=once)
        wish = job.Archive(out, TABLES if messages else (EVENT,), moment(start), every_s, once)
        done(ctx, job.run(given.get("name", "archive"), source(ctx, given, around), wish, around))


@app.command()
@with_options(**SOURCE, **SPARK)
def statistics(
    ctx: typer.Context,
    out: Annotated[Path | None, typer.Option(help="also write Parquet files into this folder")] = None,
    every: Every = None,
    available_now: AvailableNow = False,
    start: From = None,
    end: Annotated[
        str | None, typer.Option("--until", "--to", metavar="TIME", help="end before this time")
    ] = None,
    *,
    given: Facts,
) -> None:
    """Count messages and measure times for each destination and minute.

    mom pipeline run statistics

    mom pipeline run statistics --out /srv/archive --every 2s

    Minutes that are over go to the charts of the console, and into files. With `--every`, the console also
    shows the minute that is not over. `--from` computes minutes again.
    """
    with pipeline_failures(), surroundings(ctx, given) as around:
        from mom_pipeline.runs import statistics as job

        wish = job.Statistics(
            out, moment(start), moment(end, "--until"), interval(every, available_now=available_now)
        )
        done(ctx, job.run(given.get("name", "statistics"), source(ctx, given, around), wish, around))


@app.command()
@with_options(**SENDER, **SPARK)
def reconcile(
    ctx: typer.Context,
    receiver: Annotated[str, typer.Option(help="journal of the broker that receives: https://broker, …")],
    bridge: Annotated[list[str], typer.Option(help="bridge of the sender that leads there; repeatable")],
    receiver_name: Annotated[str, typer.Option(help="name of the receiver in the report")] = "receiver",
    receiver_credential: Annotated[
        str | None, typer.Option(help="variable or file with a token or USER:PASSWORD for the receiver")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="file for the messages that are not ok")] = None,
    start: From = None,
    *,
    given: Facts,
) -> None:
    """Compare what a broker forwarded over a bridge with what the other broker received.

    mom pipeline run reconcile --receiver https://west:8000 --receiver-credential WEST_TOKEN --bridge west

    Prints the number of messages in each state, and writes a line of JSON with ids and positions for each
    one that is not ok. Exit code 4 if messages were lost or doubled.
    """
    with pipeline_failures(), surroundings(ctx, given) as around:
        from mom_pipeline.runs import reconcile as job
        from mom_pipeline.source import Source

        sender = source(ctx, given, around)
        other = Source(receiver, receiver_name, (), receiver_credential, sender.ca_file, sender.cert_file)
        wish = job.Reconcile(bridge, out, moment(start))
        result = job.run(given.get("name", "reconcile"), sender, other, wish, around)
    _compared(ctx, result)


def _compared(ctx: typer.Context, result: ReconcileResult) -> None:
    """Show the states of messages. Raises Failure when there are differences."""
    from mom_pipeline.errors import DIFFERENCES

    rows = [{"state": state, "messages": count} for state, count in sorted(result.states.items())]
    invocation.of(ctx).output.rows(("state", "messages"), rows)
    if result.differs:
        fix = f"their ids are in {result.report}"
        raise Failure(DIFFERENCES, "messages were lost or doubled, or have no origin", fix=fix)


@app.command()
@with_options(**{name: SPARK[name] for name in ("name", "state", "verbose")})
def compact(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="folder of the archive", exists=True, file_okay=False)],
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="only hours that ended before; default: an hour ago")
    ] = None,
    *,
    given: Facts,
) -> None:
    """Merge the small files of an archive, without Spark.

    mom pipeline run compact --out /srv/archive

    Readers see each row once at any moment. Run it once a day.
    """
    with pipeline_failures(), surroundings(ctx, given) as around:
        from mom_pipeline.runs import compact as job

        end = moment(before, "--before") or datetime.now(UTC) - timedelta(hours=1)
        done(ctx, job.run(given.get("name", "compact"), job.Compact(out, end), around))
