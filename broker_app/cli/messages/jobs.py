"""`mom job`: operations on many messages, while they run and afterwards."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from broker_app.base import durations
from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import FAILED, Failure
from broker_app.cli.base.progress import Progress

if TYPE_CHECKING:
    from broker_app.cli.base.invocation import Invocation
    from broker_app.cli.base.rest import Rest

app = typer.Typer(no_args_is_help=True, help="List, show, cancel and undo jobs.")

_COLUMNS = ("id", "op", "state", "source", "target", "total", "done", "refused", "created", "user")
_POLL_S = 0.2
#: past participle of each operation
_DONE = {
    "move": "moved", "copy": "copied", "delete": "deleted", "retry": "returned", "replay": "replayed",
    "import": "imported", "export": "exported", "undo": "moved back", "purge": "removed",
}  # fmt: skip

_Job = Annotated[str, typer.Argument(help="id of the job")]


@app.command("ls")
def list_jobs(
    ctx: typer.Context,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="maximum number of jobs")] = 20,
) -> None:
    """List jobs, newest first."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/jobs", limit=count), whole=True)


@app.command()
def show(ctx: typer.Context, job: _Job) -> None:
    """Show the state and progress of a job."""
    given = invocation.of(ctx)
    given.output.facts(given.rest().get(_path(job)))


@app.command()
def cancel(ctx: typer.Context, job: _Job) -> None:
    """Cancel a job. What it has done so far stays done."""
    given = invocation.of(ctx)
    rest = given.rest()
    rest.call("POST", _path(job, "cancel"))
    wait(given, rest, job)


@app.command()
def undo(ctx: typer.Context, job: _Job) -> None:
    """Move the messages of a move or retry back, except those already consumed."""
    given = invocation.of(ctx)
    rest = given.rest()
    wait(given, rest, rest.call("POST", _path(job, "undo"))["id"])


@app.command()
def results(ctx: typer.Context, job: _Job) -> None:
    """Print the result for each message as JSON lines."""
    invocation.of(ctx).rest().download(_path(job, "results"), sys.stdout.buffer)


def wait(given: Invocation, rest: Rest, job_id: str) -> Facts:
    """Wait for a job, print its result and return it. Raises Failure when it refused messages."""
    job = watch(given, rest, job_id)
    given.output.done(sentence(job), job)
    if job["refused"]:
        raise Failure(FAILED, f"{counted(job['refused'])} refused", fix=_fix(job_id))
    return job


def watch(given: Invocation, rest: Rest, job_id: str) -> Facts:
    """Wait for a job while showing its progress, and return it. Raises Failure when it stopped or failed."""
    job: Facts = rest.get(_path(job_id))
    with Progress(given.output, job["op"], job["total"]) as progress:
        while job["state"] in ("waiting", "running"):
            progress.update(job["processed"], job["reason"] or "")
            time.sleep(_POLL_S)
            job = rest.get(_path(job_id))
    if job["state"] in ("stopped", "failed"):
        raise Failure(FAILED, f"job {job_id} {job['state']}: {job['reason']}", fix=_fix(job_id))
    return job


def sentence(job: Facts) -> str:
    """The result of a job, with the command that undoes it."""
    where = _address(job["target"] or job["source"])
    verb = {"done": _DONE.get(job["op"], job["op"]), "cancelled": f"{job['op']} cancelled:"}
    result = f"{verb.get(job['state'], job['state'])} {counted(job['done'])}"
    result += f" {'of' if job['target'] is None else 'to'} {where}" if where else ""
    if job["started"] and job["ended"]:
        took = datetime.fromisoformat(job["ended"]) - datetime.fromisoformat(job["started"])
        result += f" in {durations.in_words(took.total_seconds())}"
    for what in ("gone", "unsettled"):
        result += f"; {job[what]:,} {what}" if job[what] else ""
    return result + (f"; undo: mom job undo {job['id']}" if job["can_undo"] else "")


def counted(messages: int) -> str:
    return f"{messages:,} message{'' if messages == 1 else 's'}"


def _address(name: str | None) -> str:
    return (name or "").removeprefix("/queue/")


def _fix(job_id: str) -> str:
    return f"`mom job results {job_id}` lists the result for each message"


def _path(job_id: str, *rest: str) -> str:
    return "/".join(["/jobs", quote(job_id, safe=""), *rest])
