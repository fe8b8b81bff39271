"""`mom pipeline`: jobs that read and write brokers with Spark."""

from __future__ import annotations

import time

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.findings import report
from broker_app.cli.pipelines import checks as pipeline_checks
from broker_app.cli.pipelines import control as pipeline_control
from broker_app.cli.pipelines import run as pipeline_run
from broker_app.cli.pipelines import schedule as pipeline_schedule
from broker_app.cli.pipelines import state as pipeline_state
from broker_app.cli.pipelines.failures import pipeline_failures

app = typer.Typer(
    no_args_is_help=True,
    help="""Read and write brokers with Spark.

    Needs Java 17 or newer and PySpark: `pip install 'mom-broker[pipeline]'`. `doctor` shows whether both are
    there and work together; after `warm`, Spark starts sooner. `run` starts a job here; `ls`, `lag`
    and `stop` concern the jobs on all machines.
    """,
)
app.add_typer(pipeline_run.app, name="run")
app.command("ls")(pipeline_control.list_runs)
app.command()(pipeline_control.lag)
app.command()(pipeline_control.stop)
app.command()(pipeline_state.offsets)
app.command()(pipeline_state.reset)
app.command(context_settings=pipeline_schedule.PASSED_ON)(pipeline_schedule.schedule)


@app.command()
def doctor(ctx: typer.Context) -> None:
    """Start Spark, and show what it runs on. Exit code 1 if there is an error."""
    report(invocation.of(ctx).output, list(pipeline_checks.thorough()))


@app.command()
def warm(ctx: typer.Context) -> None:
    """Have Spark start fast: keep an archive of its classes in the cache, of about 200 MB.

    Takes a minute or two, once for each version of Spark and Java. Does nothing where the archive fits.
    """
    from mom_pipeline.spark import class_data, java, spark_home

    given = invocation.of(ctx)
    began = time.monotonic()
    with pipeline_failures():
        found = java.find()
        home = spark_home.make(found)
        removed = spark_home.remove_stale()
        if not class_data.fits(found, home):
            given.output.say("running Spark once to see which classes it needs …")
        made = class_data.make(found, home)
    archive = class_data.archive(home)
    facts = {
        "archive": str(archive),
        "bytes": archive.stat().st_size,
        "made": made,
        "seconds": round(time.monotonic() - began, 1),
        "removed": [str(path) for path in removed],
    }
    given.output.done(f"{archive} is {'ready' if made else 'up to date'}", facts)
