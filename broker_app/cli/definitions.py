"""`mom definitions`: all that is configured as one file; what a file would change, and changing it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.destination_settings import DryRun, Reason, Yes, reason_header
from broker_app.cli.failures import CONFLICT, USAGE, Failure
from broker_app.cli.prompts import confirm
from broker_app.cli.versions import is_for_programs, show_changes

if TYPE_CHECKING:
    from broker_app.cli.invocation import Invocation

app = typer.Typer(no_args_is_help=True, help="Export and import all that is configured, as JSON or YAML.")

_File = Annotated[str, typer.Argument(help="JSON when its name ends in .json, else YAML; - is the input")]
_Prune = Annotated[
    bool, typer.Option("--prune", help="what the file's kinds have at the broker and not in the file, goes")
]


@app.command()
def export(ctx: typer.Context) -> None:
    """Write all that is configured, without secrets and tokens: YAML, or JSON with `-o json`."""
    given = invocation.of(ctx)
    found = given.rest().get("/definitions")
    if given.output.form in ("json", "ndjson"):
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        import yaml

        print(yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=110), end="")


@app.command()
def plan(ctx: typer.Context, file: _File, prune: _Prune = False) -> None:
    """Show what importing a file would change."""
    given = invocation.of(ctx)
    found, _ = given.rest().send("/definitions/plan", *_read(file), query=_query(prune))
    if is_for_programs(given):
        given.output.facts(found)
    else:
        _tell(given, found)


@app.command("import")
def import_(
    ctx: typer.Context,
    file: _File,
    prune: _Prune = False,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Make the configuration what a file says: all of it, or nothing."""
    given = invocation.of(ctx)
    rest, content, query = given.rest(), _read(file), _query(prune)
    planned, tag = rest.send("/definitions/plan", *content, query=query)
    _tell(given, planned)
    if planned["conflicts"]:
        first = planned["conflicts"][0]
        raise Failure(
            CONFLICT, f"{first['kind']} {first['name']} is said otherwise by a file of the broker",
            where=first["origin"], fix="change it there, or leave it out here",
        )  # fmt: skip
    if dry_run or not planned["changes"]:
        return
    if not yes:
        confirm("definitions", "apply this", production=given.target().production)
    done, _ = rest.send("/definitions", *content, {"If-Match": tag, **reason_header(reason)}, query=query)
    given.output.say(f"this is version {done['version']}")


def _read(file: str) -> tuple[bytes, str]:
    """What a file holds, and its media type. Raises Failure."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Failure(USAGE, f"cannot read {file}: {error.strerror}") from error
    return content, "application/json" if file.endswith(".json") else "application/yaml"


def _query(prune: bool) -> dict[str, Any]:
    return {"prune": "true"} if prune else {}


def _tell(given: Invocation, found: dict[str, Any]) -> None:
    """A plan: rows of what changes, and the rest of it as talk."""
    show_changes(given, found["changes"])
    counts = ", ".join(f"{found[act]} {act}" for act in ("created", "changed", "removed", "unchanged"))
    given.output.say(f"{counts}, compared with version {found['version']} at {given.target().url}")
    for one in found["conflicts"]:
        given.output.say(f"conflict: {one['kind']} {one['name']} is said otherwise in {one['origin']}")
    for one in found["kept"]:
        given.output.say(f"stays: {one['kind']} {one['name']}, said in {one['origin']}")
    for one in found["without_secret"]:
        given.output.say(f"needs a password: {one['kind']} {one['name']}")
