"""`mom rule|user|group|broker|bridge`: what is configured, listed, shown, made, changed and removed alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import typer

from broker_app.cli import foretelling, invocation
from broker_app.cli.confirming import confirm
from broker_app.cli.failures import CONFLICT, NOT_FOUND, USAGE, Failure
from broker_app.cli.invocation import Invocation
from broker_app.cli.saying import DryRun, Idempotent, Yes

_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Kind(NamedTuple):
    """A kind as the command line shows it: `path` of the API, the columns of its list, and how the text of
    each field that is no plain text is read."""

    one: str
    path: str
    columns: tuple[str, ...]
    readers: dict[str, Callable[[str], Any]]
    about: str


def _truth(text: str) -> bool:
    return _TRUTHS[text.lower()]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _secret(text: str) -> str:
    """What a file holds; a secret among the words of a command is seen by everybody on its machine."""
    if not text.startswith("@"):
        raise Failure(
            USAGE, "a password is not written on the command line", mend="password=@FILE, or @- for input"
        )
    try:
        found = sys.stdin.read() if text == "@-" else Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(USAGE, f"cannot read {text[1:]}: {error.strerror}") from error
    return found.rstrip("\r\n")


def _object(text: str) -> Any:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


RULES = Kind(
    "rule",
    "/rules",
    ("name", "position", "effect", "conditions", "users", "groups", "origin"),
    {"users": _names, "groups": _names, "position": int},
    "List, show, make, change and remove authorization rules. The first that matches decides.",
)
_USERS = Kind(
    "user",
    "/users",
    ("name", "administrator", "active", "groups", "email"),
    {"administrator": _truth, "active": _truth, "groups": _names, "password": _secret},
    "List, show, make, change and remove users. Passwords come from files: password=@FILE.",
)
_GROUPS = Kind("group", "/groups", ("name",), {}, "List, make and remove groups of users.")
_BROKERS = Kind(
    "broker",
    "/brokers",
    ("name", "environment", "endpoints", "settings", "comment"),
    {"endpoints": _names, "settings": _object},
    "List, show, make, change and remove brokers, and settings that hold while they run.",
)
_BRIDGES = Kind(
    "bridge",
    "/bridges",
    ("name", "hostname", "port", "protocol", "user", "desired", "origin"),
    {
        "port": int, "retry_s": float, "idle_s": float, "scan_s": float, "stalled_s": float, "window": int,
        "park_after": int, "paused_queues": _names, "password": _secret,
    },
    "List, show, make, change and remove definitions of bridges to other brokers.",
)  # fmt: skip

_Name = Annotated[str, typer.Argument(help="its name")]
_Fields = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FIELD=VALUE]...", help="fields, lists by comma; no value takes one back"),
]
_Reason = Annotated[str | None, typer.Option("--reason", help="why; kept in history and audit log")]


def commands(kind: Kind) -> typer.Typer:
    """The commands of a kind."""
    app = typer.Typer(no_args_is_help=True, help=kind.about)

    @app.command("ls", help=f"List all {kind.one}s.")
    def list_all(ctx: typer.Context) -> None:
        given = invocation.of(ctx)
        rows = given.rest().pages(kind.path)
        given.output.rows(kind.columns, (_plain(given, row) for row in rows), whole=True)

    @app.command(help=f"Show a {kind.one}.")
    def show(ctx: typer.Context, name: _Name) -> None:
        given = invocation.of(ctx)
        given.output.facts(_plain(given, given.rest().get(_path(kind, name))))

    @app.command(help=f"Make a {kind.one}.")
    def create(
        ctx: typer.Context,
        name: _Name,
        fields: _Fields = None,
        reason: _Reason = None,
        dry_run: DryRun = False,
        idempotent: Idempotent = False,
    ) -> None:
        said = _said(kind, fields)
        _create(invocation.of(ctx), kind, name, said, reason, dry_run=dry_run, idempotent=idempotent)

    @app.command("set", help=f"Change a {kind.one}.", hidden=not kind.readers)
    def change(
        ctx: typer.Context,
        name: _Name,
        fields: _Fields = None,
        reason: _Reason = None,
        dry_run: DryRun = False,
    ) -> None:
        _change(invocation.of(ctx), kind, name, _said(kind, fields), reason, dry_run=dry_run)

    @app.command("rm", help=f"Remove a {kind.one}.")
    def remove(
        ctx: typer.Context,
        name: _Name,
        reason: _Reason = None,
        yes: Yes = False,
        dry_run: DryRun = False,
        idempotent: Idempotent = False,
    ) -> None:
        _remove(invocation.of(ctx), kind, name, reason, yes=yes, dry_run=dry_run, idempotent=idempotent)

    return app


def _path(kind: Kind, name: str) -> str:
    return f"{kind.path}/{quote(name, safe='')}"


def _said(kind: Kind, fields: Sequence[str] | None) -> dict[str, Any]:
    """What the words FIELD=VALUE say; None for a field that is taken back. Raises Failure."""
    said: dict[str, Any] = {}
    for word in fields or ():
        name, equals, text = word.partition("=")
        if not equals:
            raise Failure(
                USAGE, f"{word!r} says nothing", mend="write FIELD=VALUE, or FIELD= to take it back"
            )
        try:
            said[name] = kind.readers.get(name, str)(text) if text else None
        except (KeyError, ValueError):
            raise Failure(
                USAGE, f"{name}: {text!r} cannot be read", mend=f"see `mom {kind.one} show`"
            ) from None
    return said


def _create(
    given: Invocation,
    kind: Kind,
    name: str,
    said: dict[str, Any],
    reason: str | None,
    *,
    dry_run: bool,
    idempotent: bool,
) -> None:
    values = {field: value for field, value in said.items() if value is not None}
    try:
        _tell(
            given, *_write(given, "PUT", kind, name, values, {"if-none-match": "*"}, reason, dry_run=dry_run)
        )
    except Failure as failure:
        if failure.code != CONFLICT:
            raise
        if not idempotent:
            raise Failure(
                CONFLICT,
                f"{kind.one} {name} is there already",
                mend=f"`mom {kind.one} set` changes it; --idempotent leaves it as it is",
            ) from failure
        given.output.say(f"{kind.one} {name} is there already")


def _change(
    given: Invocation, kind: Kind, name: str, said: dict[str, Any], reason: str | None, *, dry_run: bool
) -> None:
    if not said:
        raise Failure(USAGE, "nothing to change was given", mend="write FIELD=VALUE")
    _, version = given.rest().exchange("GET", _path(kind, name))
    _tell(given, *_write(given, "PATCH", kind, name, said, {"if-match": version}, reason, dry_run=dry_run))


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
        _, version = given.rest().exchange("GET", _path(kind, name))
    except Failure as failure:
        if failure.code != NOT_FOUND or not idempotent:
            raise
        given.output.say(f"there is no {kind.one} {name}")
        return
    condition = {"if-match": version}
    if dry_run:
        _tell(given, *_write(given, "DELETE", kind, name, None, condition, reason, dry_run=True))
        return
    given.output.say(f"{kind.one} {name} at {given.target().url}")
    if not yes:
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
    headers = condition | ({"mom-reason": quote(reason)} if reason else {})
    query = {"dry_run": "true"} if dry_run else None
    reply, _ = given.rest().exchange(method, _path(kind, name), said, headers, query=query)
    return reply, dry_run


def _tell(given: Invocation, reply: dict[str, Any] | None, dry_run: bool) -> None:
    """What is said now, or what would change."""
    if reply is None:
        return
    if not dry_run:
        given.output.facts(_plain(given, reply))
        return
    given.output.say("this would change; nothing has:")
    rows = [
        {"what": f"{change['kind']}/{change['name']}{part['pointer']}", **part}
        for change in reply["changes"]
        for part in change["diff"]
    ]
    given.output.rows(("what", "before", "after"), [_plain(given, row) for row in rows])
    if impact := reply.get("impact"):
        for sentence in foretelling.sentences(impact):
            given.output.say(sentence)


def _plain(given: Invocation, row: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of names as people write them, where it is people who read."""
    if given.output.form in ("json", "ndjson"):
        return dict(row)
    return {
        name: ",".join(value)
        if isinstance(value, list) and all(isinstance(part, str) for part in value)
        else value
        for name, value in row.items()
    }


users, groups = commands(_USERS), commands(_GROUPS)
brokers, bridges = commands(_BROKERS), commands(_BRIDGES)
