"""`mom job`: what is done to many messages, while it is done and afterwards."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from broker_app.cli import invocation
from broker_app.cli.failures import FAILED, Failure

if TYPE_CHECKING:
    from broker_app.cli.invocation import Invocation
    from broker_app.cli.rest import Rest

app = typer.Typer(no_args_is_help=True, help="List, show, cancel and undo jobs.")

_COLUMNS = ("id", "op", "state", "source", "target", "total", "done", "refused", "created", "user")
_POLL_S = 0.2

_Job = Annotated[str, typer.Argument(help="id of the job")]


@app.command("ls")
def list_jobs(
    ctx: typer.Context,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="jobs to show at most")] = 20,
) -> None:
    """List jobs, the newest first."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/jobs", limit=count), whole=True)


@app.command()
def show(ctx: typer.Context, job: _Job) -> None:
    """Show how far a job is."""
    given = invocation.of(ctx)
    given.output.facts(given.rest().get(_path(job)))


@app.command()
def cancel(ctx: typer.Context, job: _Job) -> None:
    """End a job. What it has done stays."""
    given = invocation.of(ctx)
    rest = given.rest()
    rest.call("POST", _path(job, "cancel"))
    wait(given, rest, job)


@app.command()
def undo(ctx: typer.Context, job: _Job) -> None:
    """Move back what a move or retry has moved, as far as nobody has taken it."""
    given = invocation.of(ctx)
    rest = given.rest()
    wait(given, rest, rest.call("POST", _path(job, "undo"))["id"])


@app.command()
def results(ctx: typer.Context, job: _Job) -> None:
    """Print what became of each message, one JSON object a line."""
    invocation.of(ctx).rest().download(_path(job, "results"), sys.stdout.buffer)


def wait(given: Invocation, rest: Rest, job_id: str) -> None:
    """Watch a job until it has ended, then show it. Failure when it did not do all it should."""
    job = watch(given, rest, job_id)
    given.output.facts(job)
    if job["refused"]:
        raise Failure(FAILED, f"{job['refused']} messages were refused", mend=_mend(job_id))


def watch(given: Invocation, rest: Rest, job_id: str) -> dict[str, Any]:
    """A job once it has ended; its progress is told meanwhile. Failure when it broke off."""
    told: tuple[int, str | None] = (0, None)
    while True:
        job: dict[str, Any] = rest.get(_path(job_id))
        if job["state"] not in ("waiting", "running"):
            break
        if (now := (job["processed"], job["reason"])) != told:
            told = now
            given.output.say(f"{now[0]} of {job['total']}" + (f"  {now[1]}" if now[1] else ""))
        time.sleep(_POLL_S)
    if job["state"] in ("stopped", "failed"):
        raise Failure(FAILED, f"job {job_id} {job['state']}: {job['reason']}", mend=_mend(job_id))
    return job


def _mend(job_id: str) -> str:
    return f"`mom job results {job_id}` says what became of each"


def _path(job_id: str, *rest: str) -> str:
    return "/".join(["/jobs", quote(job_id, safe=""), *rest])
