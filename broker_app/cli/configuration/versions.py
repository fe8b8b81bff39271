"""`mom config history|diff|rollback`: versions of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.failures import USAGE, Failure
from broker_app.cli.base.options import DryRun, Reason, Yes, reason_header
from broker_app.cli.base.prompts import confirm

if TYPE_CHECKING:
    from broker_app.cli.base.invocation import Invocation

_COLUMNS = ("version", "time", "author", "via", "changes", "reason")
_CHANGES = ("action", "kind", "name")
#: changes that one line of the history names
_NAMED = 3


def history(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="maximum number of versions")] = 20,
    kind: Annotated[
        str | None, typer.Option(help="only changes of this kind of resource, such as rules")
    ] = None,
    name: Annotated[str | None, typer.Option(help="only changes of the resource of this name")] = None,
    author: Annotated[str | None, typer.Option(help="only versions by this user")] = None,
) -> None:
    """List the versions of the configuration, newest first."""
    given = invocation.of(ctx)
    found = given.rest().pages("/config/versions", limit, kind=kind, name=name, author=author)
    programs = is_machine_format(given)
    rows = (row if programs else {**row, "changes": _named(row["changes"])} for row in found)
    given.output.rows(_COLUMNS, rows, whole=programs)


def diff(
    ctx: typer.Context,
    version: Annotated[int, typer.Argument(min=0, help="number of a version")],
    other: Annotated[
        int | None, typer.Argument(min=0, help="version to compare with", show_default="the one before")
    ] = None,
) -> None:
    """Show the difference of two versions of the configuration, or what one version changed."""
    given = invocation.of(ctx)
    if other is None and not version:
        raise Failure(USAGE, "there is no version before 0", fix="give two versions")
    old, new = (version - 1, version) if other is None else (version, other)
    found = given.rest().get(f"/config/versions/{old}/diff/{new}")
    if is_machine_format(given):
        given.output.facts(found)
    else:
        print(found["text"], end="")


def rollback(
    ctx: typer.Context,
    version: Annotated[int, typer.Argument(min=0, help="number of the version to restore")],
    only: Annotated[
        str | None, typer.Option("--only", metavar="KIND/NAME", help="only this resource: rules/billing")
    ] = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Restore an earlier version. That is a new version, which can be rolled back as well."""
    given = invocation.of(ctx)
    request: dict[str, object] = {"to": version}
    if only is not None:
        kind, slash, name = only.partition("/")
        if not slash:
            raise Failure(USAGE, f"{only} is not KIND/NAME", fix="write it like rules/billing")
        request |= {"kind": kind, "name": name}
    rest = given.rest()
    tried, tag = rest.exchange("POST", "/config/rollback", {**request, "dry_run": True})
    show_changes(given, tried["changes"])
    for one in tried["kept"]:
        given.output.say(f"unchanged: {one['kind']} {one['name']}: {one['why']}")
    if not tried["changes"]:
        given.output.say("nothing to do")
        return
    if dry_run:
        return
    if not yes:
        action = f"roll back to version {version}"
        confirm(f"version {version}", action, production=given.target().production)
    done, _ = rest.exchange("POST", "/config/rollback", request, {"If-Match": tag, **reason_header(reason)})
    given.output.say(f"this is version {done['version']}")


def show_changes(given: Invocation, changes: list[dict[str, object]]) -> None:
    """Print the changes, or those that would be made."""
    given.output.rows(_CHANGES, changes, whole=is_machine_format(given))


def is_machine_format(given: Invocation) -> bool:
    """True if the output is a format for programs, with whole objects."""
    return given.output.form in ("json", "yaml", "ndjson")


def _named(changes: list[dict[str, object]]) -> str:
    """The first few changes of a version."""
    named = [f"{change['kind']}/{change['name']} {change['action']}" for change in changes[:_NAMED]]
    more = len(changes) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
