"""`mom rule test|explain`: whether somebody may do something, and which rule says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.destinations import address
from broker_app.cli.failures import REFUSED, USAGE, Failure
from broker_app.cli.invocation import Invocation
from broker_app.cli.options import with_options

_COLUMNS = ("number", "name", "effect", "matched", "why")

_ASKED = {
    "deed": Annotated[
        str | None, typer.Option("--deed", help="POST, GET, BROWSE, READ, MANAGE, or send, receive, …")
    ],
    "user": Annotated[str | None, typer.Option("--user", help="whose right it is; without, your own")],
    "queue": Annotated[str | None, typer.Option("--queue", "-Q", help="the queue it is done to")],
    "topic": Annotated[str | None, typer.Option("--topic", "-T", help="the topic it is done to")],
    "address": Annotated[str | None, typer.Option("--address", help="IP address that the client has")],
    "protocol": Annotated[str | None, typer.Option("--protocol", help="stomp, websocket, rest or local")],
    "tls": Annotated[bool | None, typer.Option("--tls/--no-tls", help="whether TLS protects the connection")],
    "client": Annotated[str | None, typer.Option("--client", help="STOMP's client-id")],
    "token": Annotated[str | None, typer.Option("--token", help="name of the user's token that is used")],
    "rules": Annotated[
        str | None,
        typer.Option(
            "--rules", metavar="FILE", help="a JSON list of rules, to be asked before they are saved"
        ),
    ],
}


@with_options(**_ASKED)
def try_out(ctx: typer.Context, *, asked: dict[str, Any]) -> None:
    """Say whether somebody may do something; exit code 4 when not."""
    given = invocation.of(ctx)
    found = _explained(given, asked)
    given.output.facts({"allowed": found["allowed"], "decided_by": found["decided_by"]})
    if not found["allowed"]:
        raise typer.Exit(REFUSED)


@with_options(**_ASKED)
def explain(ctx: typer.Context, *, asked: dict[str, Any]) -> None:
    """Say which rule decides, and of each one before it why it does not."""
    given = invocation.of(ctx)
    found, output = _explained(given, asked), given.output
    output.say(f"{'allowed' if found['allowed'] else 'denied'}: {found['decided_by']}")
    output.rows(_COLUMNS, found["steps"], whole=True)
    if found["steps_left_out"]:
        output.say(f"rules before it, not told: {found['steps_left_out']}")
    if found["not_reached"]:
        output.say(f"rules behind it, not tried: {found['not_reached']}")


_DENIALS = ("at", "user", "method", "destination", "address", "protocol", "decided_by")


def denials(
    ctx: typer.Context,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=1000, help="denials at most")] = 20,
    user: Annotated[str | None, typer.Option("--user", help="those of this user alone")] = None,
    rule: Annotated[str | None, typer.Option("--rule", help="those that this rule decided")] = None,
    destination: Annotated[
        str | None, typer.Option("--destination", help="those about this queue or /topic/<name>")
    ] = None,
) -> None:
    """List what was denied, the newest first: to whom, what, and which rule decided."""
    given = invocation.of(ctx)
    named = None if destination is None else address(destination)[1:].replace("/", ":", 1)
    found = given.rest().get("/decisions/denials", limit=count, user=user, rule=rule, destination=named)
    given.output.rows(_DENIALS, found["items"], whole=True)


def _explained(given: Invocation, asked: dict[str, Any]) -> dict[str, Any]:
    """The broker's explanation. Raises Failure."""
    if "deed" not in asked:
        raise Failure(USAGE, "it is not said what is done", fix="give --deed, such as --deed POST")
    if ("queue" in asked) == ("topic" in asked):
        raise Failure(USAGE, "one destination is needed", fix="give --queue or --topic")
    kind = "queue" if "queue" in asked else "topic"
    body = {**asked, "destination": f"{kind}:{asked[kind]}"}
    del body[kind]
    if "rules" in asked:
        body["rules"] = _read(asked["rules"])
    found: dict[str, Any] = given.rest().call("POST", "/explain", body)
    return found


def _read(name: str) -> Any:
    """Rules in a file, or in what comes in for `-`."""
    try:
        return json.loads(sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(USAGE, f"cannot read {name}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(USAGE, f"{name} is no JSON: {error}", fix="write a list of rules") from error
