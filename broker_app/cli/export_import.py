"""`mom export`, `import` and `count`: the messages of a queue as lines of JSON, out, in, and how many."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from broker_app.cli import completion, invocation, jobs
from broker_app.cli.bulk import WHERE, check_rest
from broker_app.cli.destinations import queue_name
from broker_app.cli.failures import FAILED, Failure

_Queue = Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)]
_Where = Annotated[str, typer.Option("--where", help=WHERE, show_default="all")]


def export(
    ctx: typer.Context,
    queue: _Queue,
    where: _Where = "",
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="messages at most")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="write them there")] = None,
) -> None:
    """Write messages that wait in a queue, one JSON object a line. They stay where they are."""
    given = invocation.of(ctx)
    rest = given.rest()
    wish = {"op": "export", "source": queue_name(queue), "filter": where, "limit": limit}
    plan = rest.call("POST", "/jobs", {**wish, "dry_run": True}, wait_s=300)
    job = rest.call("POST", "/jobs", {"plan": plan["plan"]})
    jobs.watch(given, rest, job["id"])
    with _opened(file, "wb") as out:
        rest.download(f"/jobs/{job['id']}/export", out)
    check_rest(plan, min(plan["matches"], limit or plan["matches"]) - plan["count"], limit)


def import_(
    ctx: typer.Context,
    queue: _Queue,
    file: Annotated[Path | None, typer.Argument(help="lines of JSON; standard input when none")] = None,
) -> None:
    """Publish messages from lines of JSON, as `mom export` writes them. Each gets a new id."""
    from broker_app.cli.rest import queue_path

    given = invocation.of(ctx)
    rest = given.rest()
    with _opened(file, "rb") as lines:
        job = rest.upload(queue_path(queue, "import"), lines, "application/x-ndjson")
    jobs.wait(given, rest, job["id"])


def count(ctx: typer.Context, queue: _Queue, where: _Where = "") -> None:
    """Count the messages that wait in a queue and fit."""
    given = invocation.of(ctx)
    wish = {"op": "export", "source": queue_name(queue), "filter": where, "limit": 1, "dry_run": True}
    plan: dict[str, Any] = given.rest().call("POST", "/jobs", wish, wait_s=300)
    given.output.row(("matches",), {"matches": plan["matches"]})
    if not plan["complete"]:
        given.output.say(f"only the first {plan['scanned']} messages were looked at")


@contextlib.contextmanager
def _opened(path: Path | None, mode: str) -> Any:
    """The file, or standard input or output."""
    if path is None:
        yield sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
        return
    try:
        with path.open(mode) as file:
            stream: BinaryIO = file  # type: ignore[assignment]
            yield stream
    except OSError as error:
        raise Failure(FAILED, f"the file cannot be used: {error.strerror}", where=str(path)) from None
