"""`mom config`: effective settings and their sources, and checks of `zero.config` files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import completion, invocation
from broker_app.cli.base.failures import FAILED, UNREACHABLE, USAGE, Failure
from broker_app.cli.base.options import DryRun, Reason
from broker_app.cli.configuration import resources, versions
from broker_app.cli.configuration.resource_types import BROKERS

if TYPE_CHECKING:
    from broker_app.cli.base.invocation import Invocation
    from broker_app.zero import Loaded, ZeroError

app = typer.Typer(
    no_args_is_help=True, help="Show and change settings, check configuration files, and manage versions."
)

for command in (versions.history, versions.diff, versions.rollback):
    app.command(command.__name__)(command)

_PLAN = ("action", "kind", "key", "source")


@app.command()
def show(
    ctx: typer.Context,
    sources: Annotated[
        bool, typer.Option("--sources", help="also show the source and the default of each value")
    ] = False,
    non_default: Annotated[
        bool, typer.Option("--non-default", help="only settings that differ from the default")
    ] = False,
) -> None:
    """Show all settings of the broker with their effective values; secrets are masked."""
    given = invocation.of(ctx)
    found = given.rest().get("/config")
    rows = [row for row in found["settings"] if not non_default or row["source"] != "default"]
    columns = ("name", "value", "unit", *(("source", "default", "changes") if sources else ()))
    shown = [{**row, "value": _text(row["value"]), "changes": _changes(row)} for row in rows]
    given.output.rows(columns, shown)
    files = found["files"]
    if files["restart"]:
        given.output.say(
            f"{files['main']} changes these settings at the next start: {', '.join(files['restart'])}"
        )
    if files["state"] == "refused":
        given.output.say(
            f"{files['main']} has errors; its previous content stays in effect (mom config files)"
        )


@app.command("set")
def change(
    ctx: typer.Context,
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help="such as max_attempts=3; an empty value resets a setting",
            autocompletion=completion.live_settings,
        ),
    ],
    broker: Annotated[
        str | None, typer.Option("--broker", help="name of the broker", show_default="the one that answers")
    ] = None,
    reason: Reason = None,
    dry_run: DryRun = False,
) -> None:
    """Change settings of a running broker; they take effect at once and override those of its start.
    `mom config show --sources` shows which settings can be changed this way."""
    given = invocation.of(ctx)
    values = dict(map(_setting, settings))
    if broker is None:
        named = {row["name"]: row["value"] for row in given.rest().get("/config")["settings"]}
        broker = str(named["name"])
    resources.change_resource(given, BROKERS, broker, {"settings": values}, reason, dry_run=dry_run)


def _setting(assignment: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; the value is None for a setting that is reset. Raises Failure."""
    from broker_app import config

    name, equals, text = assignment.partition("=")
    if not equals:
        raise Failure(
            USAGE, f"{assignment!r} is not NAME=VALUE", fix="write NAME=VALUE, or NAME= to reset it"
        )
    known = {setting.name: setting for setting in config.settings()}
    if not text or name not in known:
        return name, text or None
    value = config.in_unit(name, text)
    if value == text and known[name].type in ("int", "float"):
        try:
            value = json.loads(text)
        except ValueError:
            fault = config.fault_of_override(name, text)
            raise Failure(
                USAGE, f"{name}: {text!r} {fault}", fix=f"{name}: {known[name].rule.about}"
            ) from None
    return name, value


def _changes(setting: Facts) -> str:
    """The time at which a change of a setting takes effect."""
    if setting["restart"]:
        return "a file has another value: needs a restart"
    return "while it runs" if setting["reloadable"] else "needs a restart"


@app.command("files")
def list_files(ctx: typer.Context) -> None:
    """List the configuration files that the broker watches, with their errors."""
    given = invocation.of(ctx)
    found = given.rest().get("/config/files")
    if found["main"] is None:
        given.output.say("the broker has no configuration file; start it with `mom up --config-file FILE`")
    given.output.rows(("name", "state", "followed", "written", "bytes", "includes"), found["files"])
    if found["main"] is not None:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in found["totals"].items())
        given.output.say(f"reloads since the start: {counts}")
    for warning in found["warnings"]:
        given.output.say(f"warning: {_sentence(warning)}")
    for error in found["errors"]:
        given.output.say(_sentence(error))


@app.command()
def check(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="a zero.config; included files are read, too")],
    offline: Annotated[bool, typer.Option("--offline", help="do not ask a broker for the changes")] = False,
) -> None:
    """Check a configuration file: list its errors, or the changes that it would make at the broker."""
    given = invocation.of(ctx)
    loaded, errors = _read(file)
    if loaded is None or errors:
        _report_errors(given, [_error_row(error) for error in errors])
        raise Failure(FAILED, f"{file} has errors: {len(errors)}", fix="correct them in the file")
    given.output.say(f"{file} is valid; {_counts(loaded)}")
    for warning in loaded.warnings:
        given.output.say(f"warning: {_sentence(_error_row(warning))}")
    if offline or not _names_broker(given):
        if not offline:
            given.output.say("changes are not known: name a broker with --url or --context, or set a token")
        return
    checked = _check_at_broker(given, file, loaded)
    if checked is None:
        return
    if not checked["valid"]:
        _report_errors(given, checked["errors"])
        raise Failure(
            FAILED,
            f"the broker found errors in {file}: {len(checked['errors'])}",
            fix="correct them in the file",
        )
    plan = checked["plan"]
    rows = [
        {"action": action, **row}
        for action in ("added", "changed", "removed", "kept")
        for row in plan[action]
    ] + [{"action": "restart", "kind": "settings", "key": name, "source": ""} for name in plan["restart"]]
    given.output.rows(_PLAN, rows)
    stay = plan["unchanged"]
    given.output.say(f"changes at the broker: {len(rows)}; unchanged: {stay}")


def _read(file: Path) -> tuple[Loaded | None, list[ZeroError]]:
    """Load and check a file without a broker."""
    from broker_app import config, zero

    try:
        loaded = zero.load(file.name, zero.Folder(file.parent), config.words(file.parent))
    except zero.InvalidFiles as bad:
        return None, bad.errors
    _prepare()
    from broker_app.web import files

    return loaded, files.check(loaded)


def _prepare() -> None:
    """Set up Django for the checks of resources. They need its models but no database."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(
            INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "broker_app"],
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        )
        django.setup()


def _names_broker(given: Invocation) -> bool:
    """True if a broker is named, or there are credentials for the default one."""
    target = given.target()
    named = given.url or os.environ.get("MOM_URL") or target.context
    return bool(named or target.login or target.cert_file)


def _check_at_broker(given: Invocation, file: Path, loaded: Loaded) -> Facts | None:
    """The broker's check of a file and its includes; None when there is no broker."""
    texts = {name: source.text for name, source in loaded.sources.items()}
    body = {"text": texts.pop(file.name), "files": texts}
    try:
        answer: Facts = given.rest().call("POST", "/config/check", body)
    except Failure as failure:
        if failure.code != UNREACHABLE:
            raise
        given.output.say(f"changes are not known: {failure.what}")
        return None
    return answer


def _report_errors(given: Invocation, errors: Sequence[Facts]) -> None:
    if given.output.form == "table":
        print("\n".join(map(_sentence, errors)))
    else:
        given.output.rows(("file", "line", "column", "detail"), errors)


def _error_row(error: ZeroError) -> Facts:
    return {
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "detail": error.detail,
        "marker": error.marker,
    }


def _sentence(error: Facts) -> str:
    lines = "".join(f"\n    {line}" for line in error["marker"].splitlines())
    return f"{error['file']}:{error['line']}:{error['column']}: {error['detail']}{lines}"


def _counts(loaded: Loaded) -> str:
    counts = {"settings": len(loaded.settings), **{kind: len(of) for kind, of in loaded.documents.items()}}
    values = [f"{name}: {count}" for name, count in counts.items() if count]
    return ", ".join(values) or "it is empty"


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
