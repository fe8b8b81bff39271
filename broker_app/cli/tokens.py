"""`mom token`: tokens, managed over REST, or in the database where no broker is named and none runs."""

from __future__ import annotations

import getpass
import os
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from typer._click.core import ParameterSource

from broker_app import config
from broker_app.base.reply_types import Facts
from broker_app.cli.base import contexts, invocation
from broker_app.cli.base.failures import CONFLICT, NOT_FOUND, REFUSED, USAGE, Failure
from broker_app.cli.base.options import span
from broker_app.node import configuration_copy

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from broker_app.cli.base.invocation import Invocation
    from broker_app.cli.base.rest import Rest
    from broker_app.web import actions

app = typer.Typer(
    no_args_is_help=True,
    help="Create, list and revoke tokens of the broker that --url, MOM_URL or a context names, or of --data.",
)

#: a running broker reads changes by other processes once a second
_APPLIED_S = 1.5

#: default owner of new tokens
_ADMIN = "admin"
_COLUMNS = ("name", "user", "prefix", "created", "expires", "last_used", "grants")

_Data = Annotated[Path, typer.Option(envvar="MOM_DATA", help="data directory of the broker")]
_Name = Annotated[str, typer.Argument(help="name of the token")]
_User = Annotated[
    str | None,
    typer.Option(
        help="owner of the token, which grants this user's rights",
        show_default="admin; your own where a broker is named",
    ),
]
_Grants = Annotated[
    list[str] | None,
    typer.Option(
        "--grant",
        metavar="RIGHTS@DESTINATIONS",
        help="restrict the rights, such as send,browse@/queue/orders.>; may be repeated",
    ),
]


@app.command()
def create(
    ctx: typer.Context,
    name: _Name,
    user: _User = None,
    expires: Annotated[
        float | None,
        typer.Option(
            metavar="30d", parser=span(60), help="time until it expires, such as 30d", show_default="never"
        ),
    ] = None,
    grant: _Grants = None,
    data: _Data = Path("data"),
) -> None:
    """Create a token and print it, only this once. A running broker accepts it when the command returns."""
    given = invocation.of(ctx)
    ends = datetime.now(UTC) + timedelta(seconds=expires) if expires is not None else None
    grants = [_grant(text) for text in grant] if grant else None
    if (rest := _rest(ctx, data)) is not None:
        request = {"name": name, "user": user, "grants": grants, "expires": ends and ends.isoformat()}
        body = {member: value for member, value in request.items() if value is not None}
        _show(given, rest.call("POST", "/tokens", body)["token"])
        return
    _set_up_django(data)
    _refuse_lost_change(data)
    from django.core.exceptions import ValidationError

    from broker_app.web import actions

    try:
        new = actions.create_token(_actor(), _user(user or _ADMIN), name, ends, grants)
    except actions.Conflict as conflict:
        raise Failure(
            CONFLICT, str(conflict), fix="choose another name, or revoke that one first"
        ) from conflict
    except ValidationError as error:
        raise Failure(USAGE, " ".join(error.messages), fix="see `mom token create --help`") from error
    _wait_applied(data)
    _show(given, new.secret)


@app.command("ls")
def list_tokens(ctx: typer.Context, data: _Data = Path("data")) -> None:
    """List tokens without their secrets; of a remote broker those that you may see."""
    given = invocation.of(ctx)
    if (rest := _rest(ctx, data)) is not None:
        given.output.rows(_COLUMNS, _visible_tokens(rest), whole=True)
        return
    _set_up_django(data)
    from broker_app.models import Token

    rows = [
        {
            "name": token.name,
            "user": token.owner.username,
            "prefix": token.prefix,
            "created": token.created.isoformat(timespec="seconds"),
            "expires": token.expires.isoformat(timespec="seconds") if token.expires else None,
            "last_used": token.last_used.isoformat(timespec="minutes") if token.last_used else None,
            "grants": token.grants,
        }
        for token in Token.objects.select_related("owner")
    ]
    given.output.rows(_COLUMNS, rows)


@app.command()
def revoke(ctx: typer.Context, name: _Name, user: _User = None, data: _Data = Path("data")) -> None:
    """Revoke a token. A running broker refuses it when the command returns."""
    given = invocation.of(ctx)
    if (rest := _rest(ctx, data)) is not None:
        found = [row for row in _visible_tokens(rest) if row["name"] == name and user in (None, row["user"])]
        if len(found) != 1:
            what = f"there is no token {name!r}" if not found else f"several users have a token {name!r}"
            raise Failure(NOT_FOUND, what, fix="`mom token ls` lists them; --user names the owner")
        rest.exchange("DELETE", f"/tokens/{found[0]['id']}", headers={"if-match": "*"})
        given.output.say(f"token {name} of {found[0]['user']} is revoked")
        return
    user = user or _ADMIN
    _set_up_django(data)
    _refuse_lost_change(data)
    from broker_app.models import Token
    from broker_app.web import actions

    token = Token.objects.filter(owner=_user(user), name=name).first()
    if token is None:
        raise Failure(NOT_FOUND, f"{user} has no token {name!r}", fix="`mom token ls` lists them")
    actions.revoke_token(_actor(), token)
    _wait_applied(data)
    given.output.say(f"token {name} of {user} is revoked")


def _wait_applied(data: Path) -> None:
    """Wait until a running broker has read the change; not at all where none is running."""
    if _is_shared() or _is_running(data):
        time.sleep(_APPLIED_S)


def _is_running(data: Path) -> bool:
    """True if a program listens at the address that the last broker has written to its data directory."""
    try:
        parts = urlsplit((data / config.ADDRESS).read_text(encoding="utf-8").strip())
        address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection(address, timeout=1).close()
    except (OSError, ValueError):
        return False
    return True


def _is_shared() -> bool:
    return "MOM_DATABASE" in os.environ or "MOM_DATABASE_FILE" in os.environ


def _rest(ctx: typer.Context, data: Path) -> Rest | None:
    """The REST interface of the broker that is named, or else of the one that runs with this data directory;
    None where the database has to be changed."""
    given = invocation.of(ctx)
    is_directory_given = ctx.get_parameter_source("data") is ParameterSource.COMMANDLINE
    if given.url or given.context or (not is_directory_given and contexts.is_named()):
        return given.rest()
    target = contexts.local(data)
    if target is None:
        return None
    from broker_app.cli.base.rest import Rest

    rest = Rest(target)
    try:
        rest.get("/tokens", limit=1)
    except Failure:  # it has ended, is on standby, or its certificate is not known here
        return None
    return rest


def _visible_tokens(rest: Rest) -> list[Facts]:
    """All tokens for administrators; for others, their own."""
    try:
        return list(rest.pages("/tokens", user="*"))
    except Failure as failure:
        if failure.code != REFUSED:
            raise
        return list(rest.pages("/tokens"))


def _show(given: Invocation, secret: str) -> None:
    print(secret)
    given.output.say(
        "Keep it: it is shown only this once. Use it as MOM_TOKEN, or in a file for --token-file."
    )


def _grant(text: str) -> dict[str, list[str]]:
    """Parse RIGHTS@DESTINATIONS. Raises Failure."""
    rights, at, destinations = text.partition("@")
    if not at:
        raise Failure(USAGE, f"{text!r} is not a grant", fix="write RIGHTS@DESTINATIONS: send@/queue/orders")
    return {"rights": rights.split(","), "destinations": destinations.split(",")}


def _actor() -> actions.Actor:
    """The author of changes: the operating system's user."""
    from broker_app.web import actions

    return actions.Actor(getpass.getuser(), actions.CLI)


def _set_up_django(data: Path) -> None:
    """Set up Django with the configuration database, which is in `data` unless it is shared. Raises Failure
    when there is none."""
    if not _is_shared() and not (data / "config.sqlite3").exists():
        raise Failure(
            NOT_FOUND,
            "this directory has no data of a broker",
            where=str(data.resolve()),
            fix="start the broker once, or name its directory with --data or MOM_DATA",
        )
    os.environ["MOM_DATA"] = str(data)
    os.environ["MOM_LOG_LEVEL"] = "error"  # standard output is the token alone
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mom_site.settings")
    import django

    django.setup()


def _refuse_lost_change(data: Path) -> None:
    """Raise Failure where a change would be replaced by the configuration of another broker."""
    try:
        configuration_copy.refuse_change(data)
    except configuration_copy.ConfigurationCopy as error:
        raise Failure(
            CONFLICT,
            str(error),
            where=str(data.resolve()),
            fix="name the active broker with --url, or its directory with --data",
        ) from error


def _user(name: str) -> User:
    from django.contrib.auth.models import User

    user = User.objects.filter(username=name).first()
    if user is None:
        raise Failure(
            NOT_FOUND,
            f"there is no user {name!r}",
            fix="name a user with --user; the administrator is called admin",
        )
    return user
