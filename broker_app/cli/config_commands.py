"""`mom config`: what holds and where it is from, and trying a `zero.config` file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import completion, invocation, resources, versions
from broker_app.cli.destination_settings import DryRun, Reason
from broker_app.cli.failures import FAILED, UNREACHABLE, USAGE, Failure
from broker_app.cli.resource_types import BROKERS

if TYPE_CHECKING:
    from broker_app.cli.invocation import Invocation
    from broker_app.zero import Loaded, ZeroError

app = typer.Typer(no_args_is_help=True, help="Show what holds, and check files of configuration.")

for command in (versions.history, versions.diff, versions.rollback):
    app.command(command.__name__)(command)

_PLAN = ("act", "kind", "key", "source")


@app.command()
def show(
    ctx: typer.Context,
    sources: Annotated[
        bool, typer.Option("--sources", help="also where each value is from, and its default")
    ] = False,
    non_default: Annotated[
        bool, typer.Option("--non-default", help="only what was said by somebody")
    ] = False,
) -> None:
    """Show every setting of the broker with the value that holds; secrets are masked."""
    given = invocation.of(ctx)
    found = given.rest().get("/config")
    rows = [row for row in found["settings"] if not non_default or row["source"] != "default"]
    columns = ("name", "value", "unit", *(("source", "default", "changes") if sources else ()))
    shown = [{**row, "value": _text(row["value"]), "changes": _changes(row)} for row in rows]
    given.output.rows(columns, shown)
    files = found["files"]
    if files["restart"]:
        given.output.say(
            f"{files['main']} says otherwise from the next start on: {', '.join(files['restart'])}"
        )
    if files["state"] == "refused":
        given.output.say(f"{files['main']} cannot be used; what it said before holds on (mom config files)")


@app.command("set")
def change(
    ctx: typer.Context,
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help="such as max_attempts=3; no value takes one back",
            autocompletion=completion.live_settings,
        ),
    ],
    broker: Annotated[
        str | None, typer.Option("--broker", help="of this broker", show_default="the one that answers")
    ] = None,
    reason: Reason = None,
    dry_run: DryRun = False,
) -> None:
    """Change settings of the broker that hold at once, while it runs, and in place of those it was started
    with. `mom config show --sources` says which ones can."""
    given = invocation.of(ctx)
    values = dict(map(_setting, settings))
    if broker is None:
        named = {row["name"]: row["value"] for row in given.rest().get("/config")["settings"]}
        broker = str(named["name"])
    resources.change_thing(given, BROKERS, broker, {"settings": values}, reason, dry_run=dry_run)


def _setting(assignment: str) -> tuple[str, Any]:
    """Name and value; None for one that is taken back. Raises Failure."""
    from broker_app import config

    name, equals, text = assignment.partition("=")
    if not equals:
        raise Failure(
            USAGE, f"{assignment!r} is no setting", fix="write NAME=VALUE, or NAME= to take it back"
        )
    known = {setting.name: setting for setting in config.settings()}
    if not text or name not in known:
        return name, text or None
    try:
        value: Any = text
        if known[name].type in ("int", "float"):
            value = config.size(text) if known[name].rule.unit == "bytes" else json.loads(text)
    except ValueError:
        raise Failure(
            USAGE, f"{name}: {text!r} is no number", fix=f"it is: {known[name].rule.about}"
        ) from None
    return name, value


def _changes(setting: dict[str, Any]) -> str:
    """When a change of a setting holds."""
    if setting["restart"]:
        return "a file says otherwise: restart"
    return "while it runs" if setting["reloadable"] else "needs a restart"


@app.command("files")
def list_files(ctx: typer.Context) -> None:
    """List the files that the broker follows, and what is wrong with them."""
    given = invocation.of(ctx)
    found = given.rest().get("/config/files")
    if found["main"] is None:
        given.output.say("the broker follows no file; `mom up --config-file FILE` makes it")
    given.output.rows(("name", "state", "followed", "written", "bytes", "includes"), found["files"])
    if found["main"] is not None:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in found["totals"].items())
        given.output.say(f"readings since the start: {counts}")
    for warning in found["warnings"]:
        given.output.say(f"warning: {_told(warning)}")
    for error in found["errors"]:
        given.output.say(_told(error))


@app.command()
def check(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="a zero.config; the files that it includes are read, too")],
    offline: Annotated[bool, typer.Option("--offline", help="ask no broker what would change there")] = False,
) -> None:
    """Tell what is wrong with a file, or what would change if the broker had it."""
    given = invocation.of(ctx)
    loaded, errors = _read(file)
    if loaded is None or errors:
        _tell(given, [_shown(error) for error in errors])
        raise Failure(FAILED, f"{file} cannot be used; errors: {len(errors)}")
    given.output.say(f"{file} can be used; {_counts(loaded)}")
    for warning in loaded.warnings:
        given.output.say(f"warning: {_told(_shown(warning))}")
    if offline or not _is_meant(given):
        if not offline:
            given.output.say("no broker was asked what would change: none is named, and there is no token")
        return
    checked = _ask(given, file, loaded)
    if checked is None:
        return
    if not checked["usable"]:
        _tell(given, checked["errors"])
        raise Failure(FAILED, f"{file} cannot be used by the broker; errors: {len(checked['errors'])}")
    plan = checked["plan"]
    rows = [{"act": act, **row} for act in ("added", "changed", "removed", "kept") for row in plan[act]] + [
        {"act": "restart", "kind": "settings", "key": name, "source": ""} for name in plan["restart"]
    ]
    given.output.rows(_PLAN, rows)
    stay = plan["untouched"]
    given.output.say(f"differences from what runs: {len(rows)}; things that stay as they are: {stay}")


def _read(file: Path) -> tuple[Loaded | None, list[ZeroError]]:
    """What a file says, checked without a broker."""
    from broker_app import config, zero

    try:
        loaded = zero.load(file.name, zero.Folder(file.parent), config.words(file.parent))
    except zero.Bad as bad:
        return None, bad.errors
    _prepare()
    from broker_app.web import files

    return loaded, files.check(loaded)


def _prepare() -> None:
    """The checks of kinds stand on Django's models. They need no database, so none is named."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(
            INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "broker_app"],
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        )
        django.setup()


def _is_meant(given: Invocation) -> bool:
    """Whether a broker is to be asked: one that was named, or one where somebody is logged in."""
    target = given.target()
    named = given.url or os.environ.get("MOM_URL") or target.context
    return bool(named or target.login or target.cert_file)


def _ask(given: Invocation, file: Path, loaded: Loaded) -> dict[str, Any] | None:
    """What the broker says of a file and those that it includes; None when there is no broker."""
    texts = {name: source.text for name, source in loaded.sources.items()}
    body = {"text": texts.pop(file.name), "files": texts}
    try:
        answer: dict[str, Any] = given.rest().call("POST", "/config/check", body)
    except Failure as failure:
        if failure.code != UNREACHABLE:
            raise
        given.output.say(f"what would change is not known: {failure.what}")
        return None
    return answer


def _tell(given: Invocation, errors: list[dict[str, Any]]) -> None:
    if given.output.form == "table":
        print("\n".join(map(_told, errors)))
    else:
        given.output.rows(("file", "line", "column", "detail"), errors)


def _shown(error: ZeroError) -> dict[str, Any]:
    return {
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "detail": error.detail,
        "marker": error.marker,
    }


def _told(error: dict[str, Any]) -> str:
    lines = "".join(f"\n    {line}" for line in error["marker"].splitlines())
    return f"{error['file']}:{error['line']}:{error['column']}: {error['detail']}{lines}"


def _counts(loaded: Loaded) -> str:
    counts = {"settings": len(loaded.settings), **{kind: len(of) for kind, of in loaded.documents.items()}}
    said = [f"{name}: {count}" for name, count in counts.items() if count]
    return ", ".join(said) or "it says nothing"


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
