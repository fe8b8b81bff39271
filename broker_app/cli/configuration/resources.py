"""Commands that list, show, create, change and remove resources: `mom rule|user|group|broker|bridge`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import click
import typer

from broker_app import config
from broker_app.base import durations
from broker_app.base.articles import with_article
from broker_app.base.reply_types import Facts
from broker_app.base.suggestions import suggestion
from broker_app.cli.base import completion, invocation
from broker_app.cli.base import impact as impact_report
from broker_app.cli.base.failures import CONFLICT, NOT_FOUND, USAGE, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.options import DryRun, Idempotent, Reason, Yes, reason_header
from broker_app.cli.base.prompts import confirm
from broker_app.cli.configuration.destination_settings import create_unless_exists
from broker_app.cli.configuration.resource_types import BROKERS, GROUPS, RULES, USERS, ResourceType

#: origin of resources that exist by default
BUILT_IN = "built-in"

Name = Annotated[str, typer.Argument(help="name of the resource", autocompletion=completion.resource_names)]
Fields = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FIELD=VALUE]...",
        help="fields to set; lists are comma-separated; an empty value resets a field",
        autocompletion=completion.fields,
    ),
]


def commands(kind: ResourceType) -> typer.Typer:
    """The commands of a resource type."""
    app = typer.Typer(no_args_is_help=True, help=kind.about)
    _add_reading(app, kind)
    add_writing(app, kind)
    return app


def _add_reading(app: typer.Typer, kind: ResourceType) -> None:
    @app.command("ls", help=f"List all {kind.noun}s.")
    def list_all(ctx: typer.Context) -> None:
        given = invocation.of(ctx)
        rows = given.rest().pages(kind.path)
        given.output.rows(kind.columns, (readable(given, row) for row in rows), whole=True)

    @app.command(help=f"Show {with_article(kind.noun)}.")
    def show(ctx: typer.Context, name: Name) -> None:
        given = invocation.of(ctx)
        given.output.facts(readable(given, given.rest().get(path_of(kind, name))))


def add_writing(app: typer.Typer, kind: ResourceType) -> None:
    """Add the commands that change resources of a type to `app`."""

    @app.command(help=f"Create {with_article(kind.noun)}.\n\n{_fields_help(kind)}")
    def create(
        ctx: typer.Context,
        name: Name,
        fields: Fields = None,
        reason: Reason = None,
        yes: Yes = False,
        dry_run: DryRun = False,
        idempotent: Idempotent = False,
    ) -> None:
        given, values = invocation.of(ctx), parse_fields(kind, fields)
        _create(given, kind, name, values, reason, yes=yes, dry_run=dry_run, idempotent=idempotent)

    @app.command(
        "set", help=f"Change {with_article(kind.noun)}.\n\n{_fields_help(kind)}", hidden=not kind.fields
    )
    def change(
        ctx: typer.Context,
        name: Name,
        fields: Fields = None,
        reason: Reason = None,
        yes: Yes = False,
        dry_run: DryRun = False,
    ) -> None:
        change_resource(
            invocation.of(ctx), kind, name, parse_fields(kind, fields), reason, yes=yes, dry_run=dry_run
        )

    @app.command(help=f"Change {with_article(kind.noun)} in your editor ($EDITOR).", hidden=not kind.fields)
    def edit(
        ctx: typer.Context,
        name: Name,
        reason: Reason = None,
        yes: Yes = False,
        dry_run: DryRun = False,
    ) -> None:
        _edit(invocation.of(ctx), kind, name, reason, yes=yes, dry_run=dry_run)

    @app.command("rm", help=f"Remove {with_article(kind.noun)}.")
    def remove(
        ctx: typer.Context,
        name: Name,
        reason: Reason = None,
        yes: Yes = False,
        dry_run: DryRun = False,
        idempotent: Idempotent = False,
    ) -> None:
        _remove(invocation.of(ctx), kind, name, reason, yes=yes, dry_run=dry_run, idempotent=idempotent)


def path_of(kind: ResourceType, name: str) -> str:
    return f"{kind.path}/{quote(name, safe='')}"


def parse_fields(kind: ResourceType, fields: Sequence[str] | None) -> dict[str, Any]:
    """Parse FIELD=VALUE arguments; None for a field that is reset. Raises Failure."""
    found: dict[str, Any] = {}
    for word in fields or ():
        name, equals, text = word.partition("=")
        if not equals:
            raise Failure(
                USAGE, f"{word!r} is not FIELD=VALUE", fix="write FIELD=VALUE, or FIELD= to reset it"
            )
        if name not in kind.fields:
            raise _unknown_field(kind, name)
        try:
            found[name] = kind.fields[name].read(text) if text else None
        except (KeyError, ValueError) as error:
            has_reason = kind.fields[name].read is durations.seconds
            what = str(error) if has_reason else f"{text!r} is not a valid value"
            raise Failure(USAGE, f"{name}: {what}", fix=f"{name}: {kind.fields[name].about}") from None
    return found


def _unknown_field(kind: ResourceType, name: str) -> Failure:
    fix = f"see `mom {kind.noun} create --help`"
    if kind is BROKERS and name in {setting.name for setting in config.settings()}:
        fix = f"it is a setting of the broker itself: `mom config set {name}=…` changes it"
    return Failure(
        USAGE,
        f"{with_article(kind.noun)} has no field {name}{suggestion(name, kind.fields)}",
        fix=fix,
    )


def _create(
    given: Invocation,
    kind: ResourceType,
    name: str,
    values: Facts,
    reason: str | None,
    *,
    yes: bool,
    dry_run: bool,
    idempotent: bool,
) -> None:
    values = {field: value for field, value in values.items() if value is not None}

    def write(*, dry_run: bool) -> tuple[Facts | None, bool]:
        return _write(given, "PUT", kind, name, values, {"if-none-match": "*"}, reason, dry_run=dry_run)

    def make() -> tuple[Facts | None, bool]:
        if not (yes or dry_run):
            _confirm_loss_of_rights(given, kind, name, write)
        return write(dry_run=dry_run)

    made = create_unless_exists(
        given,
        make,
        f"{kind.noun} {name} exists already",
        fix=f"`mom {kind.noun} set` changes it; --idempotent leaves it as it is",
        idempotent=idempotent,
    )
    if made is not None:
        _report(given, f"created {kind.noun} {name}", *made)


def _edit(
    given: Invocation, kind: ResourceType, name: str, reason: str | None, *, yes: bool, dry_run: bool
) -> None:
    """Edit the fields of a resource in an editor, and show the changes before saving."""
    row, version = given.rest().exchange("GET", path_of(kind, name))
    if row["origin"] not in ("", BUILT_IN):
        raise Failure(
            CONFLICT, f"{kind.noun} {name} is configured in {row['origin']}", fix="change it in that file"
        )
    # Secrets cannot be read, and therefore not edited.
    before = {field: row[field] for field in kind.fields if field in row}
    text = json.dumps(before, indent=2, ensure_ascii=False) + "\n"
    if not sys.stdin.isatty() and not {"EDITOR", "VISUAL"} & set(os.environ):
        raise Failure(USAGE, "an editor needs a terminal", fix=f"use `mom {kind.noun} set` to change fields")
    try:
        edited = click.edit(text, extension=".json")
        after = before if edited is None else json.loads(edited)
    except click.ClickException as error:
        raise Failure(USAGE, error.format_message(), fix="set EDITOR to your editor") from error
    except ValueError as error:
        raise Failure(
            USAGE, f"the edited text is not JSON: {error}", fix="edit it again; nothing was changed"
        ) from error
    if after == before:
        given.output.say("nothing was changed")
        return
    condition = {"if-match": version}
    tried, _ = _write(given, "PUT", kind, name, after, condition, reason, dry_run=True)
    show_preview(given, tried)
    if dry_run:
        return
    if not yes:
        confirm(name, f"save {kind.noun} {name}", production=given.target().production)
    _write(given, "PUT", kind, name, after, condition, reason, dry_run=False)
    given.output.say("saved")


def _confirm_loss_of_rights(
    given: Invocation, kind: ResourceType, name: str, write: Callable[..., Any]
) -> None:
    """Ask before a rule removes rights. The first rule does: without rules all users may do everything."""
    if kind is not RULES:
        return
    first = not given.rest().get(kind.path, limit=1)["items"]
    impact = write(dry_run=True)[0].get("impact")
    if first:
        given.output.say(
            "this is the first rule: until now all users may do everything; from now on all but "
            "administrators may do only what a rule allows"
        )
    if first or (impact and impact_report.removes_access(impact)):
        for sentence in impact_report.sentences(impact):
            given.output.say(sentence)
        confirm(name, f"save rule {name}", production=given.target().production)


def change_resource(
    given: Invocation,
    kind: ResourceType,
    name: str,
    values: Facts,
    reason: str | None,
    *,
    yes: bool = False,
    dry_run: bool,
) -> None:
    """Change fields of an existing resource. Raises Failure."""
    if not values:
        raise Failure(USAGE, "no field to change is given", fix="add FIELD=VALUE")
    _, version = given.rest().exchange("GET", path_of(kind, name))

    def write(*, dry_run: bool) -> tuple[Facts | None, bool]:
        return _write(given, "PATCH", kind, name, values, {"if-match": version}, reason, dry_run=dry_run)

    if not (yes or dry_run):
        _confirm_loss_of_rights(given, kind, name, write)
    _report(given, f"changed {kind.noun} {name}: {', '.join(values)}", *write(dry_run=dry_run))


def _remove(
    given: Invocation,
    kind: ResourceType,
    name: str,
    reason: str | None,
    *,
    yes: bool,
    dry_run: bool,
    idempotent: bool,
) -> None:
    try:
        _, version = given.rest().exchange("GET", path_of(kind, name))
    except Failure as failure:
        if failure.code != NOT_FOUND or not idempotent:
            raise
        given.output.say(f"there is no {kind.noun} {name}")
        return
    condition = {"if-match": version}
    if dry_run:
        show_preview(given, _write(given, "DELETE", kind, name, None, condition, reason, dry_run=True)[0])
        return
    given.output.say(f"{kind.noun} {name} at {given.target().url}")
    if not yes:
        if kind is RULES:
            tried, _ = _write(given, "DELETE", kind, name, None, condition, reason, dry_run=True)
            for sentence in impact_report.sentences((tried or {}).get("impact")):
                given.output.say(sentence)
        confirm(name, f"remove {kind.noun} {name}", production=given.target().production)
    _write(given, "DELETE", kind, name, None, condition, reason, dry_run=False)
    given.output.say("removed")


def _write(
    given: Invocation,
    method: str,
    kind: ResourceType,
    name: str,
    values: Facts | None,
    condition: dict[str, str],
    reason: str | None,
    *,
    dry_run: bool,
) -> tuple[Facts | None, bool]:
    """Return the reply, and whether it is only a preview."""
    headers = condition | reason_header(reason)
    query = {"dry_run": "true"} if dry_run else None
    reply, _ = given.rest().exchange(method, path_of(kind, name), values, headers, query=query)
    return reply, dry_run


def _report(given: Invocation, sentence: str, reply: Facts | None, dry_run: bool) -> None:
    """Print the changed resource, or the preview of the change."""
    if dry_run:
        show_preview(given, reply)
    elif reply is not None:
        given.output.done(sentence, readable(given, reply))
        _warn(given, reply)


def _warn(given: Invocation, reply: Mapping[str, Any]) -> None:
    """Print the warnings of the broker."""
    for warning in reply.get("warnings", ()):
        given.output.warn(f"warning: {warning}")


def show_preview(given: Invocation, reply: Facts | None) -> None:
    """Print the preview of a change."""
    if reply is None:
        return
    given.output.say("this would change (dry run, nothing was saved):")
    rows = [
        {"what": f"{change['kind']}/{change['name']}{part['pointer']}", **part}
        for change in reply["changes"]
        for part in change["diff"]
    ]
    given.output.rows(("what", "before", "after"), [readable(given, row) for row in rows])
    _warn(given, reply)
    if impact := reply.get("impact"):
        for sentence in impact_report.sentences(impact):
            given.output.say(sentence)


def readable(given: Invocation, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with lists of names comma-separated, unless the output is for programs."""
    if given.output.form in ("json", "ndjson"):
        return dict(row)
    return {
        name: ",".join(value)
        if isinstance(value, list) and all(isinstance(part, str) for part in value)
        else value
        for name, value in row.items()
    }


def _fields_help(kind: ResourceType) -> str:
    """The end of the help of a command: its fields and an example."""
    width = max(map(len, kind.fields), default=0)
    fields = "\n".join(f"{name:<{width}}  {field.about}" for name, field in kind.fields.items())
    example = f"mom {kind.noun} create {kind.example}"
    return "\n\n".join(["\b\nFields:\n" + fields] * bool(fields) + ["\b\nExample:\n" + example])


users, groups, brokers = commands(USERS), commands(GROUPS), commands(BROKERS)
