"""Things of a kind, listed, shown, made, changed and removed alike: `mom rule|user|group|broker|bridge`."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import click
import typer

from broker_app import config
from broker_app.cli import completion, invocation
from broker_app.cli import impact as impact_report
from broker_app.cli.destination_settings import (
    DryRun,
    Idempotent,
    Reason,
    Yes,
    create_unless_there,
    reason_header,
)
from broker_app.cli.failures import CONFLICT, NOT_FOUND, USAGE, Failure
from broker_app.cli.invocation import Invocation
from broker_app.cli.prompts import confirm
from broker_app.cli.resource_types import BROKERS, GROUPS, RULES, USERS, Kind

#: where that is from which holds although nobody said anything
BUILT_IN = "built-in"

Name = Annotated[str, typer.Argument(help="its name", autocompletion=completion.things)]
Fields = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FIELD=VALUE]...",
        help="fields, lists by comma; no value takes one back",
        autocompletion=completion.fields,
    ),
]


def _a(noun: str) -> str:
    """The noun with its article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def commands(kind: Kind) -> typer.Typer:
    """The commands of a kind."""
    app = typer.Typer(no_args_is_help=True, help=kind.about)
    _add_reading(app, kind)
    add_writing(app, kind)
    return app


def _add_reading(app: typer.Typer, kind: Kind) -> None:
    @app.command("ls", help=f"List all {kind.one}s.")
    def list_all(ctx: typer.Context) -> None:
        given = invocation.of(ctx)
        rows = given.rest().pages(kind.path)
        given.output.rows(kind.columns, (readable(given, row) for row in rows), whole=True)

    @app.command(help=f"Show {_a(kind.one)}.")
    def show(ctx: typer.Context, name: Name) -> None:
        given = invocation.of(ctx)
        given.output.facts(readable(given, given.rest().get(path_of(kind, name))))


def add_writing(app: typer.Typer, kind: Kind) -> None:
    """Gives `app` the commands that change things of a kind."""

    @app.command(help=f"Make {_a(kind.one)}.\n\n{_words(kind)}")
    def create(
        ctx: typer.Context,
        name: Name,
        fields: Fields = None,
        reason: Reason = None,
        yes: Yes = False,
        dry_run: DryRun = False,
        idempotent: Idempotent = False,
    ) -> None:
        given, values = invocation.of(ctx), said(kind, fields)
        _create(given, kind, name, values, reason, yes=yes, dry_run=dry_run, idempotent=idempotent)

    @app.command("set", help=f"Change {_a(kind.one)}.\n\n{_words(kind)}", hidden=not kind.fields)
    def change(
        ctx: typer.Context,
        name: Name,
        fields: Fields = None,
        reason: Reason = None,
        yes: Yes = False,
        dry_run: DryRun = False,
    ) -> None:
        change_thing(invocation.of(ctx), kind, name, said(kind, fields), reason, yes=yes, dry_run=dry_run)

    @app.command(help=f"Change {_a(kind.one)} in your editor ($EDITOR).", hidden=not kind.fields)
    def edit(
        ctx: typer.Context,
        name: Name,
        reason: Reason = None,
        yes: Yes = False,
        dry_run: DryRun = False,
    ) -> None:
        _edit(invocation.of(ctx), kind, name, reason, yes=yes, dry_run=dry_run)

    @app.command("rm", help=f"Remove {_a(kind.one)}.")
    def remove(
        ctx: typer.Context,
        name: Name,
        reason: Reason = None,
        yes: Yes = False,
        dry_run: DryRun = False,
        idempotent: Idempotent = False,
    ) -> None:
        _remove(invocation.of(ctx), kind, name, reason, yes=yes, dry_run=dry_run, idempotent=idempotent)


def path_of(kind: Kind, name: str) -> str:
    return f"{kind.path}/{quote(name, safe='')}"


def said(kind: Kind, fields: Sequence[str] | None) -> dict[str, Any]:
    """What the words FIELD=VALUE say; None for a field that is taken back. Raises Failure."""
    found: dict[str, Any] = {}
    for word in fields or ():
        name, equals, text = word.partition("=")
        if not equals:
            raise Failure(USAGE, f"{word!r} says nothing", fix="write FIELD=VALUE, or FIELD= to take it back")
        if name not in kind.fields:
            raise _unknown_field(kind, name)
        try:
            found[name] = kind.fields[name].read(text) if text else None
        except (KeyError, ValueError):
            raise Failure(
                USAGE, f"{name}: {text!r} cannot be read", fix=f"{name}: {kind.fields[name].about}"
            ) from None
    return found


def _unknown_field(kind: Kind, name: str) -> Failure:
    near = difflib.get_close_matches(name, kind.fields, n=1)
    fix = f"see `mom {kind.one} create --help`"
    if kind is BROKERS and name in {setting.name for setting in config.settings()}:
        fix = f"it is a setting of the broker itself: `mom config set {name}=…` changes it"
    return Failure(
        USAGE, f"{_a(kind.one)} has no field {name}{f'; did you mean {near[0]}?' if near else ''}", fix=fix
    )


def _create(
    given: Invocation,
    kind: Kind,
    name: str,
    said: dict[str, Any],
    reason: str | None,
    *,
    yes: bool,
    dry_run: bool,
    idempotent: bool,
) -> None:
    values = {field: value for field, value in said.items() if value is not None}

    def write(*, dry_run: bool) -> tuple[dict[str, Any] | None, bool]:
        return _write(given, "PUT", kind, name, values, {"if-none-match": "*"}, reason, dry_run=dry_run)

    def make() -> tuple[dict[str, Any] | None, bool]:
        if not (yes or dry_run):
            _ask(given, kind, name, write)
        return write(dry_run=dry_run)

    made = create_unless_there(
        given,
        make,
        f"{kind.one} {name} is there already",
        fix=f"`mom {kind.one} set` changes it; --idempotent leaves it as it is",
        idempotent=idempotent,
    )
    if made is not None:
        _tell(given, f"made {kind.one} {name}", *made)


def _edit(given: Invocation, kind: Kind, name: str, reason: str | None, *, yes: bool, dry_run: bool) -> None:
    """What is said of a thing goes through an editor; what it changes is shown before it is saved."""
    row, version = given.rest().exchange("GET", path_of(kind, name))
    if row["origin"] not in ("", BUILT_IN):
        raise Failure(CONFLICT, f"a file says {kind.one} {name}: {row['origin']}", fix="change it there")
    # Secrets cannot be read, and so not be edited.
    before = {field: row[field] for field in kind.fields if field in row}
    text = json.dumps(before, indent=2, ensure_ascii=False) + "\n"
    if not sys.stdin.isatty() and not {"EDITOR", "VISUAL"} & set(os.environ):
        raise Failure(USAGE, "an editor needs a terminal", fix=f"`mom {kind.one} set` changes single fields")
    try:
        edited = click.edit(text, extension=".json")
        after = before if edited is None else json.loads(edited)
    except click.ClickException as error:
        raise Failure(USAGE, error.format_message(), fix="name your editor in EDITOR") from error
    except ValueError as error:
        raise Failure(USAGE, f"what you wrote is no JSON: {error}", fix="nothing was changed") from error
    if after == before:
        given.output.say("nothing was changed")
        return
    condition = {"if-match": version}
    tried, _ = _write(given, "PUT", kind, name, after, condition, reason, dry_run=True)
    foretell(given, tried)
    if dry_run:
        return
    if not yes:
        confirm(name, f"save {kind.one} {name}", production=given.target().production)
    _write(given, "PUT", kind, name, after, condition, reason, dry_run=False)
    given.output.say("saved")


def _ask(given: Invocation, kind: Kind, name: str, write: Callable[..., Any]) -> None:
    """Asks before a rule takes rights away: the first one does, for until then everybody has all."""
    if kind is not RULES:
        return
    first = not given.rest().get(kind.path, limit=1)["items"]
    impact = write(dry_run=True)[0].get("impact")
    if first:
        given.output.say(
            "this is the first rule: until now everybody who is logged in may do everything; from now on all "
            "but administrators may do only what a rule allows"
        )
    if first or (impact and impact_report.takes_away(impact)):
        for sentence in impact_report.sentences(impact):
            given.output.say(sentence)
        confirm(name, f"save rule {name}", production=given.target().production)


def change_thing(
    given: Invocation,
    kind: Kind,
    name: str,
    said: dict[str, Any],
    reason: str | None,
    *,
    yes: bool = False,
    dry_run: bool,
) -> None:
    """Says something else of a thing that is there. Raises Failure."""
    if not said:
        raise Failure(USAGE, "nothing to change was given", fix="write FIELD=VALUE")
    _, version = given.rest().exchange("GET", path_of(kind, name))

    def write(*, dry_run: bool) -> tuple[dict[str, Any] | None, bool]:
        return _write(given, "PATCH", kind, name, said, {"if-match": version}, reason, dry_run=dry_run)

    if not (yes or dry_run):
        _ask(given, kind, name, write)
    _tell(given, f"changed {kind.one} {name}: {', '.join(said)}", *write(dry_run=dry_run))


def _remove(
    given: Invocation,
    kind: Kind,
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
        given.output.say(f"there is no {kind.one} {name}")
        return
    condition = {"if-match": version}
    if dry_run:
        foretell(given, _write(given, "DELETE", kind, name, None, condition, reason, dry_run=True)[0])
        return
    given.output.say(f"{kind.one} {name} at {given.target().url}")
    if not yes:
        if kind is RULES:
            tried, _ = _write(given, "DELETE", kind, name, None, condition, reason, dry_run=True)
            for sentence in impact_report.sentences((tried or {}).get("impact")):
                given.output.say(sentence)
        confirm(name, f"remove {kind.one} {name}", production=given.target().production)
    _write(given, "DELETE", kind, name, None, condition, reason, dry_run=False)
    given.output.say("removed")


def _write(
    given: Invocation,
    method: str,
    kind: Kind,
    name: str,
    said: dict[str, Any] | None,
    condition: dict[str, str],
    reason: str | None,
    *,
    dry_run: bool,
) -> tuple[dict[str, Any] | None, bool]:
    """The reply, and whether it only says what would be."""
    headers = condition | reason_header(reason)
    query = {"dry_run": "true"} if dry_run else None
    reply, _ = given.rest().exchange(method, path_of(kind, name), said, headers, query=query)
    return reply, dry_run


def _tell(given: Invocation, sentence: str, reply: dict[str, Any] | None, dry_run: bool) -> None:
    """What is said now, or what would change."""
    if dry_run:
        foretell(given, reply)
    elif reply is not None:
        given.output.done(sentence, readable(given, reply))
        _warn(given, reply)


def _warn(given: Invocation, reply: Mapping[str, Any]) -> None:
    """What the broker took, and holds for a mistake."""
    for warning in reply.get("warnings", ()):
        given.output.warn(f"warning: {warning}")


def foretell(given: Invocation, reply: dict[str, Any] | None) -> None:
    """What a dry run found."""
    if reply is None:
        return
    given.output.say("this would change; nothing has:")
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
    """Lists of names as people write them, where it is people who read."""
    if given.output.form in ("json", "ndjson"):
        return dict(row)
    return {
        name: ",".join(value)
        if isinstance(value, list) and all(isinstance(part, str) for part in value)
        else value
        for name, value in row.items()
    }


def _words(kind: Kind) -> str:
    """Behind the help of a command: what its fields are, and how it is written."""
    width = max(map(len, kind.fields), default=0)
    fields = "\n".join(f"{name:<{width}}  {field.about}" for name, field in kind.fields.items())
    example = f"mom {kind.one} create {kind.example}"
    return "\n\n".join(["\b\nFields:\n" + fields] * bool(fields) + ["\b\nSuch as:\n" + example])


users, groups, brokers = commands(USERS), commands(GROUPS), commands(BROKERS)
