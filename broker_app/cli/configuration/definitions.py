"""`mom definitions`: exports and imports the whole configuration as one file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import CONFLICT, USAGE, Failure
from broker_app.cli.base.options import DryRun, Reason, Yes, reason_header
from broker_app.cli.base.prompts import confirm
from broker_app.cli.configuration.versions import is_machine_format, show_changes

if TYPE_CHECKING:
    from broker_app.cli.base.invocation import Invocation

app = typer.Typer(no_args_is_help=True, help="Export and import the whole configuration, as JSON or YAML.")

_File = Annotated[str, typer.Argument(help="JSON if the name ends in .json, else YAML; - is standard input")]
_Prune = Annotated[
    bool,
    typer.Option(
        "--prune", help="delete resources that the file does not contain, of the kinds that it contains"
    ),
]


@app.command()
def export(ctx: typer.Context) -> None:
    """Print the whole configuration without secrets and tokens: YAML, or JSON with `-o json`."""
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
    if is_machine_format(given):
        given.output.facts(found)
    else:
        _report_plan(given, found)


@app.command("import")
def import_(
    ctx: typer.Context,
    file: _File,
    prune: _Prune = False,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Import the configuration in a file, completely or not at all."""
    given = invocation.of(ctx)
    rest, content, query = given.rest(), _read(file), _query(prune)
    planned, tag = rest.send("/definitions/plan", *content, query=query)
    _report_plan(given, planned)
    if planned["conflicts"]:
        first = planned["conflicts"][0]
        raise Failure(
            CONFLICT, f"{first['kind']} {first['name']} is configured differently in a file of the broker",
            where=first["origin"], fix="change it in that file, or remove it from this one",
        )  # fmt: skip
    if dry_run or not planned["changes"]:
        return
    if not yes:
        confirm("definitions", "apply this", production=given.target().production)
    done, _ = rest.send("/definitions", *content, {"If-Match": tag, **reason_header(reason)}, query=query)
    given.output.say(f"this is version {done['version']}")


def _read(file: str) -> tuple[bytes, str]:
    """Return the content of a file and its media type. Raises Failure."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Failure(
            USAGE, f"cannot read {file}: {error.strerror}", fix="name a file that you may read"
        ) from error
    return content, "application/json" if file.endswith(".json") else "application/yaml"


def _query(prune: bool) -> dict[str, object]:
    return {"prune": "true"} if prune else {}


def _report_plan(given: Invocation, found: Facts) -> None:
    """Print a plan: the changes as rows, the rest as sentences."""
    show_changes(given, found["changes"])
    counts = ", ".join(
        f"{found[action]} {action}" for action in ("created", "changed", "removed", "unchanged")
    )
    given.output.say(f"{counts}, compared with version {found['version']} at {given.target().url}")
    for one in found["conflicts"]:
        given.output.say(
            f"conflict: {one['kind']} {one['name']} is configured differently in {one['origin']}"
        )
    for one in found["kept"]:
        given.output.say(f"unchanged: {one['kind']} {one['name']}, configured in {one['origin']}")
    for one in found["without_secret"]:
        given.output.say(f"needs a password: {one['kind']} {one['name']}")
