"""`mom token`: tokens, made where the broker's data is, or over REST where a broker is named."""

from __future__ import annotations

import getpass
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.failures import CONFLICT, NOT_FOUND, REFUSED, USAGE, Failure

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from broker_app.cli.invocation import Invocation
    from broker_app.web import actions

app = typer.Typer(
    no_args_is_help=True,
    help="Make, list and revoke tokens: on the machine of the broker, or with --url or --context of another.",
)

#: a running broker looks for changes by other processes once a second
_NOTICED_S = 1.5

#: whose tokens are made where nobody is said
_ADMIN = "admin"
_COLUMNS = ("name", "user", "prefix", "created", "expires", "last_used", "grants")

_Data = Annotated[Path, typer.Option(envvar="MOM_DATA", help="data directory of the broker")]
_Name = Annotated[str, typer.Argument(help="name of the token, to recognize it by")]
_User = Annotated[
    str | None,
    typer.Option(
        help="whose token it is; it lends this user's rights",
        show_default="admin; your own with --url or --context",
    ),
]
_Grants = Annotated[
    list[str] | None,
    typer.Option(
        "--grant",
        metavar="RIGHTS@DESTINATIONS",
        help="some of the rights alone, such as send,browse@/queue/orders.>; as often as needed",
    ),
]


@app.command()
def create(
    ctx: typer.Context,
    name: _Name,
    user: _User = None,
    days: Annotated[
        float | None, typer.Option(min=0.001, help="days until it expires", show_default="never")
    ] = None,
    grant: _Grants = None,
    data: _Data = Path("data"),
) -> None:
    """Make a token and print it, this once. A running broker knows it when the command ends."""
    given = invocation.of(ctx)
    expires = datetime.now(UTC) + timedelta(days=days) if days is not None else None
    grants = [_grant(text) for text in grant] if grant else None
    if _is_elsewhere(given):
        wish = {"name": name, "user": user, "grants": grants, "expires": expires and expires.isoformat()}
        said = {member: value for member, value in wish.items() if value is not None}
        _show(given, given.rest().call("POST", "/tokens", said)["token"])
        return
    _open(data)
    from django.core.exceptions import ValidationError

    from broker_app.web import actions

    try:
        new = actions.create_token(_by(), _user(user or _ADMIN), name, expires, grants)
    except actions.Conflict as conflict:
        raise Failure(
            CONFLICT, str(conflict), fix="take another name, or revoke that one first"
        ) from conflict
    except ValidationError as error:
        raise Failure(USAGE, " ".join(error.messages)) from error
    time.sleep(_NOTICED_S)
    _show(given, new.secret)


@app.command("ls")
def list_tokens(ctx: typer.Context, data: _Data = Path("data")) -> None:
    """List all tokens, without their secrets; elsewhere all that you may see."""
    given = invocation.of(ctx)
    if _is_elsewhere(given):
        given.output.rows(_COLUMNS, _seen(given), whole=True)
        return
    _open(data)
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
    """End a token. A running broker refuses it when the command ends."""
    given = invocation.of(ctx)
    if _is_elsewhere(given):
        found = [row for row in _seen(given) if row["name"] == name and user in (None, row["user"])]
        if len(found) != 1:
            what = f"there is no token {name!r}" if not found else f"several users have a token {name!r}"
            raise Failure(NOT_FOUND, what, fix="`mom token ls` lists them; --user says whose it is")
        given.rest().exchange("DELETE", f"/tokens/{found[0]['id']}", headers={"if-match": "*"})
        given.output.say(f"token {name} of {found[0]['user']} is revoked")
        return
    user = user or _ADMIN
    _open(data)
    from broker_app.models import Token
    from broker_app.web import actions

    token = Token.objects.filter(owner=_user(user), name=name).first()
    if token is None:
        raise Failure(NOT_FOUND, f"{user} has no token {name!r}", fix="`mom token ls` lists them")
    actions.revoke_token(_by(), token)
    time.sleep(_NOTICED_S)
    given.output.say(f"token {name} of {user} is revoked")


def _is_elsewhere(given: Invocation) -> bool:
    """Whether a broker is named, and so is asked, wherever its data is."""
    return bool(given.url or given.context)


def _seen(given: Invocation) -> list[dict[str, Any]]:
    """All tokens, for administrators; for others, their own."""
    rest = given.rest()
    try:
        return list(rest.pages("/tokens", user="*"))
    except Failure as failure:
        if failure.code != REFUSED:
            raise
        return list(rest.pages("/tokens"))


def _show(given: Invocation, secret: str) -> None:
    print(secret)
    given.output.say("Keep it: it is shown this once. Use it as MOM_TOKEN, or in a file for --token-file.")


def _grant(text: str) -> dict[str, list[str]]:
    """What RIGHTS@DESTINATIONS says."""
    rights, at, destinations = text.partition("@")
    if not at:
        raise Failure(USAGE, f"{text!r} is no grant", fix="write RIGHTS@DESTINATIONS: send@/queue/orders")
    return {"rights": rights.split(","), "destinations": destinations.split(",")}


def _by() -> actions.By:
    """Whoever may write the configuration database."""
    from broker_app.web import actions

    return actions.By(getpass.getuser(), actions.CLI)


def _open(data: Path) -> None:
    """Makes Django ready for the configuration database, which is in `data` unless it is shared. Raises
    Failure when there is none."""
    shared = "MOM_DATABASE" in os.environ or "MOM_DATABASE_FILE" in os.environ
    if not shared and not (data / "config.sqlite3").exists():
        raise Failure(
            NOT_FOUND,
            "there is no broker's data here",
            where=str(data.resolve()),
            fix="start the broker once, or name its directory with --data or MOM_DATA",
        )
    os.environ["MOM_DATA"] = str(data)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mom_site.settings")
    import django

    django.setup()


def _user(name: str) -> User:
    from django.contrib.auth.models import User

    user = User.objects.filter(username=name).first()
    if user is None:
        raise Failure(NOT_FOUND, f"there is no user {name!r}", fix="the administrator is called admin")
    return user
