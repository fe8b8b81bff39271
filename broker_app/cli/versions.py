"""`mom config history|diff|rollback`: versions of the configuration, how they differ, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.destination_settings import DryRun, Reason, Yes, reason_header
from broker_app.cli.failures import USAGE, Failure
from broker_app.cli.prompts import confirm

if TYPE_CHECKING:
    from broker_app.cli.invocation import Invocation

_COLUMNS = ("version", "time", "author", "way", "changes", "reason")
_CHANGES = ("act", "kind", "name")
#: things that one line of the history names
_NAMED = 3


def history(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="versions at most")] = 20,
    kind: Annotated[str | None, typer.Option(help="those that changed something of this kind: rules")] = None,
    name: Annotated[str | None, typer.Option(help="those that changed something of this name")] = None,
    author: Annotated[str | None, typer.Option(help="those of this user")] = None,
) -> None:
    """List the versions of the configuration, the newest first."""
    given = invocation.of(ctx)
    found = given.rest().pages("/config/versions", limit, kind=kind, name=name, author=author)
    programs = is_for_programs(given)
    rows = (row if programs else {**row, "changes": _named(row["changes"])} for row in found)
    given.output.rows(_COLUMNS, rows, whole=programs)


def diff(
    ctx: typer.Context,
    version: Annotated[int, typer.Argument(min=0, help="number of a version")],
    other: Annotated[
        int | None, typer.Argument(min=0, help="of the one to compare with; else what VERSION changed")
    ] = None,
) -> None:
    """Show how two versions of the configuration differ, or what one changed."""
    given = invocation.of(ctx)
    if other is None and not version:
        raise Failure(USAGE, "nothing led to version 0", fix="name two versions")
    old, new = (version - 1, version) if other is None else (version, other)
    found = given.rest().get(f"/config/versions/{old}/diff/{new}")
    if is_for_programs(given):
        given.output.facts(found)
    else:
        print(found["text"], end="")


def rollback(
    ctx: typer.Context,
    version: Annotated[int, typer.Argument(min=0, help="number of the version that is to be again")],
    only: Annotated[
        str | None, typer.Option("--only", metavar="KIND/NAME", help="one thing alone: rules/billing")
    ] = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Go back to what a version said. It is a new version, which can be undone alike."""
    given = invocation.of(ctx)
    wish: dict[str, Any] = {"to": version}
    if only is not None:
        kind, slash, name = only.partition("/")
        if not slash:
            raise Failure(USAGE, f"{only} is no KIND/NAME", fix="such as rules/billing")
        wish |= {"kind": kind, "name": name}
    rest = given.rest()
    tried, tag = rest.exchange("POST", "/config/rollback", {**wish, "dry_run": True})
    show_changes(given, tried["changes"])
    for one in tried["kept"]:
        given.output.say(f"stays: {one['kind']} {one['name']}: {one['why']}")
    if not tried["changes"]:
        given.output.say("nothing to do")
        return
    if dry_run:
        return
    if not yes:
        deed = f"go back to version {version}"
        confirm(f"version {version}", deed, production=given.target().production)
    done, _ = rest.exchange("POST", "/config/rollback", wish, {"If-Match": tag, **reason_header(reason)})
    given.output.say(f"this is version {done['version']}")


def show_changes(given: Invocation, changes: list[dict[str, Any]]) -> None:
    """What is, or would be, changed."""
    given.output.rows(_CHANGES, changes, whole=is_for_programs(given))


def is_for_programs(given: Invocation) -> bool:
    """Whether the output has whole objects."""
    return given.output.form in ("json", "yaml", "ndjson")


def _named(changes: list[dict[str, Any]]) -> str:
    """The first few things that a version changed."""
    named = [f"{change['kind']}/{change['name']} {change['act']}" for change in changes[:_NAMED]]
    more = len(changes) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
