"""`mom rule test|explain`: whether somebody may do something, and which rule says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.failures import REFUSED, USAGE, Failure

_COLUMNS = ("number", "name", "effect", "matched", "why")

_User = Annotated[str | None, typer.Option("--user", help="whose right it is; without, your own")]
_Deed = Annotated[str, typer.Option("--deed", help="POST, GET, BROWSE, READ, MANAGE, or send, receive, …")]
_Queue = Annotated[str | None, typer.Option("--queue", "-Q", help="the queue it is done to")]
_Topic = Annotated[str | None, typer.Option("--topic", "-T", help="the topic it is done to")]
_Address = Annotated[str | None, typer.Option("--address", help="IP address that the client has")]
_Protocol = Annotated[str | None, typer.Option("--protocol", help="stomp, websocket, rest or local")]
_Tls = Annotated[bool | None, typer.Option("--tls/--no-tls", help="whether TLS protects the connection")]
_Client = Annotated[str | None, typer.Option("--client", help="STOMP's client-id")]
_Token = Annotated[str | None, typer.Option("--token", help="name of the user's token that is used")]
_Rules = Annotated[
    str | None,
    typer.Option("--rules", metavar="FILE", help="a JSON list of rules, to be asked before they are saved"),
]


def try_out(
    ctx: typer.Context,
    deed: _Deed,
    user: _User = None,
    queue: _Queue = None,
    topic: _Topic = None,
    address: _Address = None,
    protocol: _Protocol = None,
    tls: _Tls = None,
    client: _Client = None,
    token: _Token = None,
    rules: _Rules = None,
) -> None:
    """Say whether somebody may do something; exit code 4 when not."""
    found = _ask(ctx, deed, user, queue, topic, address, protocol, tls, client, token, rules)
    given = invocation.of(ctx)
    given.output.facts({"allowed": found["allowed"], "decided_by": found["decided_by"]})
    if not found["allowed"]:
        raise typer.Exit(REFUSED)


def explain(
    ctx: typer.Context,
    deed: _Deed,
    user: _User = None,
    queue: _Queue = None,
    topic: _Topic = None,
    address: _Address = None,
    protocol: _Protocol = None,
    tls: _Tls = None,
    client: _Client = None,
    token: _Token = None,
    rules: _Rules = None,
) -> None:
    """Say which rule decides, and of each one before it why it does not."""
    found = _ask(ctx, deed, user, queue, topic, address, protocol, tls, client, token, rules)
    output = invocation.of(ctx).output
    output.say(f"{'allowed' if found['allowed'] else 'denied'}: {found['decided_by']}")
    output.rows(_COLUMNS, found["steps"], whole=True)
    if found["steps_left_out"]:
        output.say(f"rules before it, not told: {found['steps_left_out']}")
    if found["not_reached"]:
        output.say(f"rules behind it, not tried: {found['not_reached']}")


def _ask(
    ctx: typer.Context, deed: str, user: str | None, queue: str | None, topic: str | None, *more: Any
) -> dict[str, Any]:
    """The broker's explanation. Raises Failure."""
    if (queue is None) == (topic is None):
        raise Failure(USAGE, "one destination is needed", mend="give --queue or --topic")
    address, protocol, tls, client, token, rules = more
    asked = {
        "deed": deed,
        "destination": f"queue:{queue}" if queue is not None else f"topic:{topic}",
        "user": user,
        "address": address,
        "protocol": protocol,
        "tls": tls,
        "client": client,
        "token": token,
        "rules": None if rules is None else _read(rules),
    }
    body = {name: value for name, value in asked.items() if value is not None}
    found: dict[str, Any] = invocation.of(ctx).rest().call("POST", "/explain", body)
    return found


def _read(name: str) -> Any:
    """Rules in a file, or in what comes in for `-`."""
    try:
        return json.loads(sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(USAGE, f"cannot read {name}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(USAGE, f"{name} is no JSON: {error}", mend="write a list of rules") from error
