"""`mom audit`: who did what; listed, followed, exported, verified."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.failures import FAILED, USAGE, Failure
from broker_app.cli.options import with_options
from broker_app.cli.top import beats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker_app.cli.rest import Rest

app = typer.Typer(no_args_is_help=True, help="Show, follow, export and verify the audit log.")

_COLUMNS = ("number", "time", "author", "way", "act", "kind", "name", "reason")

_WHAT = {
    "who": Annotated[str | None, typer.Option("--who", help="acts of this user alone")],
    "act": Annotated[str | None, typer.Option("--act", help="such as created, removed, purged, 'logged in'")],
    "kind": Annotated[str | None, typer.Option("--kind", help="about things of this kind: rules, queues, …")],
    "name": Annotated[str | None, typer.Option("--name", help="about the thing of this name")],
}
_WHEN = {
    "from_": Annotated[str | None, typer.Option("--from", help="not before: 2027-01-31T12:00:00Z")],
    "to": Annotated[str | None, typer.Option("--to", help="before: 2027-01-31T12:00:00Z")],
}


@app.command("ls")
@with_options(**_WHAT, **_WHEN)
def list_entries(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="entries at most")] = 50,
    *,
    asks: dict[str, Any],
) -> None:
    """List entries, the newest first."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/audit", limit, **asks), whole=True)


@app.command()
@with_options(**_WHAT)
def tail(
    ctx: typer.Context,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=500, help="that are there already")] = 10,
    every: Annotated[float, typer.Option(min=0.1, help="seconds between looks")] = 1.0,
    *,
    asks: dict[str, Any],
) -> None:
    """Show the last entries and then new ones as they come, until interrupted."""
    given = invocation.of(ctx)
    rest = given.rest()
    recent = list(rest.pages("/audit", max(lines, 1), **asks))
    last = recent[0]["number"] if recent else 0
    for entry in reversed(recent[:lines]):
        given.output.row(_COLUMNS, entry)
    for _ in beats(every):
        for entry in reversed(list(_since(rest, asks, last))):
            given.output.row(_COLUMNS, entry)
            last = entry["number"]


@app.command()
@with_options(**_WHAT, **_WHEN)
def export(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(help="where to; - is the output")] = "-",
    *,
    asks: dict[str, Any],
) -> None:
    """Write entries as lines of JSON, the oldest first."""
    rest = invocation.of(ctx).rest()
    if file == "-":
        rest.download("/audit", sys.stdout.buffer, "application/x-ndjson", query=asks)
        sys.stdout.buffer.flush()
        return
    try:
        with open(file, "wb") as into:
            rest.download("/audit", into, "application/x-ndjson", query=asks)
    except OSError as error:
        raise Failure(USAGE, f"cannot write {file}: {error.strerror}") from error


@app.command()
def verify(ctx: typer.Context) -> None:
    """Look whether the log is whole: nothing in it changed, nothing missing."""
    given = invocation.of(ctx)
    found = given.rest().get("/audit/verify")
    given.output.facts(found)
    if not found["whole"]:
        raise Failure(
            FAILED,
            f"entry {found['broken_at']} of the audit log is missing, or it was changed",
            fix="compare it with an export of before",
        )


def _since(rest: Rest, asks: dict[str, Any], last: int) -> Iterator[dict[str, Any]]:
    """Entries after one, the newest first."""
    for entry in rest.pages("/audit", **asks):
        if entry["number"] <= last:
            return
        yield entry
