"""`mom audit`: lists, follows, exports and verifies the audit log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import FAILED, USAGE, Failure
from broker_app.cli.base.options import Span, span, with_options
from broker_app.cli.top import ticks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker_app.cli.base.rest import Rest

app = typer.Typer(no_args_is_help=True, help="Show, follow, export and verify the audit log.")

_COLUMNS = ("number", "time", "author", "via", "action", "kind", "name", "reason")

_FILTERS = {
    "author": Annotated[str | None, typer.Option("--author", help="only actions of this user")],
    "action": Annotated[
        str | None, typer.Option("--action", help="only this action: created, removed, purged, 'logged in'")
    ],
    "kind": Annotated[
        str | None, typer.Option("--kind", help="only resources of this kind: rules, queues, …")
    ],
    "name": Annotated[str | None, typer.Option("--name", help="only the resource of this name")],
}
_PERIOD = {
    "from_": Annotated[str | None, typer.Option("--from", help="first time, such as 2027-01-31T12:00:00Z")],
    "to": Annotated[str | None, typer.Option("--to", help="end time, exclusive")],
}


@app.command("ls")
@with_options(**_FILTERS, **_PERIOD)
def list_entries(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="maximum number of entries")] = 50,
    *,
    filters: Facts,
) -> None:
    """List entries, newest first."""
    given = invocation.of(ctx)
    given.output.rows(_COLUMNS, given.rest().pages("/audit", limit, **filters), whole=True)


@app.command()
@with_options(**_FILTERS)
def tail(
    ctx: typer.Context,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=500, help="existing entries to show first")
    ] = 10,
    every: Annotated[float, typer.Option(parser=span(0.1), help="time between updates, such as 2s")] = Span(
        1
    ),
    *,
    filters: Facts,
) -> None:
    """Show the last entries, then new ones as they arrive, until interrupted."""
    given = invocation.of(ctx)
    rest = given.rest()
    recent = list(rest.pages("/audit", max(lines, 1), **filters))
    last = recent[0]["number"] if recent else 0
    for entry in reversed(recent[:lines]):
        given.output.row(_COLUMNS, entry)
    for _ in ticks(every):
        for entry in reversed(list(_since(rest, filters, last))):
            given.output.row(_COLUMNS, entry)
            last = entry["number"]


@app.command()
@with_options(**_FILTERS, **_PERIOD)
def export(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(help="file to write; - is standard output")] = "-",
    *,
    filters: dict[str, object],
) -> None:
    """Write entries as JSON lines, oldest first."""
    rest = invocation.of(ctx).rest()
    if file == "-":
        rest.download("/audit", sys.stdout.buffer, "application/x-ndjson", query=filters)
        sys.stdout.buffer.flush()
        return
    try:
        with open(file, "wb") as into:
            rest.download("/audit", into, "application/x-ndjson", query=filters)
    except OSError as error:
        raise Failure(
            USAGE, f"cannot write {file}: {error.strerror}", fix="choose a file that you may write"
        ) from error


@app.command()
def verify(ctx: typer.Context) -> None:
    """Verify that no entry of the log was changed or removed."""
    given = invocation.of(ctx)
    found = given.rest().get("/audit/verify")
    given.output.facts(found)
    if not found["valid"]:
        raise Failure(
            FAILED,
            f"entry {found['broken_at']} of the audit log is missing, or it was changed",
            fix="compare the log with an earlier export",
        )


def _since(rest: Rest, filters: Facts, last: int) -> Iterator[Facts]:
    """Yield the entries after number `last`, newest first."""
    for entry in rest.pages("/audit", **filters):
        if entry["number"] <= last:
            return
        yield entry
