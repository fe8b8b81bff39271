"""`mom export`, `import` and `count`: the messages of a queue as JSON lines."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from broker_app.cli.base import completion, invocation
from broker_app.cli.base.failures import FAILED, Failure
from broker_app.cli.destinations import queue_name
from broker_app.cli.messages import jobs
from broker_app.cli.messages.bulk import WHERE, check_complete

_Queue = Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)]
_Where = Annotated[str, typer.Option("--where", help=WHERE, show_default="all")]


def export(
    ctx: typer.Context,
    queue: _Queue,
    where: _Where = "",
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="maximum number of messages")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="file to write", show_default="standard output")
    ] = None,
) -> None:
    """Write waiting messages of a queue as JSON lines. They stay in the queue."""
    given = invocation.of(ctx)
    rest = given.rest()
    request = {"op": "export", "source": queue_name(queue), "filter": where, "limit": limit}
    plan = rest.call("POST", "/jobs", {**request, "dry_run": True}, wait_s=300)
    job = rest.call("POST", "/jobs", {"plan": plan["plan"]})
    jobs.watch(given, rest, job["id"])
    with _opened(file, "wb") as out:
        rest.download(f"/jobs/{job['id']}/export", out)
    check_complete(plan, min(plan["matches"], limit or plan["matches"]) - plan["count"], limit)


def import_(
    ctx: typer.Context,
    queue: _Queue,
    file: Annotated[
        Path | None, typer.Argument(help="file of JSON lines", show_default="standard input")
    ] = None,
) -> None:
    """Publish messages from JSON lines, as `mom export` writes them. Each gets a new id."""
    from broker_app.cli.base.rest import queue_path

    given = invocation.of(ctx)
    rest = given.rest()
    with _opened(file, "rb") as lines:
        job = rest.upload(queue_path(queue, "import"), lines, "application/x-ndjson")
    jobs.wait(given, rest, job["id"])


def count(ctx: typer.Context, queue: _Queue, where: _Where = "") -> None:
    """Count the waiting messages of a queue that match."""
    given = invocation.of(ctx)
    request = {"op": "export", "source": queue_name(queue), "filter": where, "limit": 1, "dry_run": True}
    plan: dict[str, object] = given.rest().call("POST", "/jobs", request, wait_s=300)
    given.output.row(("matches",), {"matches": plan["matches"]})
    if not plan["complete"]:
        given.output.say(f"only the first {plan['scanned']} messages were examined")


@contextlib.contextmanager
def _opened(path: Path | None, mode: str) -> Any:
    """Yield the file, or standard input or output if there is no path."""
    if path is None:
        yield sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
        return
    try:
        with path.open(mode) as file:
            stream: BinaryIO = file  # type: ignore[assignment]
            yield stream
    except OSError as error:
        raise Failure(
            FAILED,
            f"the file cannot be opened: {error.strerror}",
            where=str(path),
            fix="check the path and its permissions",
        ) from None
