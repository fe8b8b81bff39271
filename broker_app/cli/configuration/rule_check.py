"""`mom rule test|explain|denials`: which rule allows or denies an action."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import REFUSED, USAGE, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.options import with_options
from broker_app.cli.destinations import address

_COLUMNS = ("number", "name", "effect", "matched", "reason")

_QUESTION = {
    "action": Annotated[
        str | None,
        typer.Option("--action", help="the action: POST, GET, BROWSE, READ, MANAGE, or send, receive, …"),
    ],
    "user": Annotated[str | None, typer.Option("--user", help="name of the user; default: yourself")],
    "queue": Annotated[str | None, typer.Option("--queue", "-Q", help="name of the queue")],
    "topic": Annotated[str | None, typer.Option("--topic", "-T", help="name of the topic")],
    "address": Annotated[str | None, typer.Option("--address", help="IP address of the client")],
    "protocol": Annotated[str | None, typer.Option("--protocol", help="stomp, websocket, rest or local")],
    "tls": Annotated[bool | None, typer.Option("--tls/--no-tls", help="whether the connection uses TLS")],
    "client": Annotated[str | None, typer.Option("--client", help="the STOMP client-id")],
    "token": Annotated[
        str | None, typer.Option("--token", help="name of the token that the user logs in with")
    ],
    "rules": Annotated[
        str | None,
        typer.Option(
            "--rules", metavar="FILE", help="check these rules, a JSON list, instead of the saved ones"
        ),
    ],
}


@with_options(**_QUESTION)
def check(ctx: typer.Context, *, question: dict[str, object]) -> None:
    """Check whether a user is allowed to do something; exit code 4 when denied."""
    given = invocation.of(ctx)
    found = _explained(given, question)
    given.output.facts({"allowed": found["allowed"], "decided_by": found["decided_by"]})
    if not found["allowed"]:
        raise typer.Exit(REFUSED)


@with_options(**_QUESTION)
def explain(ctx: typer.Context, *, question: Facts) -> None:
    """Show which rule decides, and why each rule before it does not."""
    given = invocation.of(ctx)
    found, output = _explained(given, question), given.output
    output.say(f"{'allowed' if found['allowed'] else 'denied'}: {found['decided_by']}")
    output.rows(_COLUMNS, found["steps"], whole=True)
    if found["steps_left_out"]:
        output.say(f"rules before it, not shown: {found['steps_left_out']}")
    if found["not_reached"]:
        output.say(f"rules after it, not evaluated: {found['not_reached']}")


_DENIALS = ("at", "user", "method", "destination", "address", "protocol", "decided_by")


def denials(
    ctx: typer.Context,
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, max=1000, help="maximum number of denials")
    ] = 20,
    user: Annotated[str | None, typer.Option("--user", help="only denials of this user")] = None,
    rule: Annotated[str | None, typer.Option("--rule", help="only denials by this rule")] = None,
    destination: Annotated[
        str | None, typer.Option("--destination", help="only denials for this queue or /topic/<name>")
    ] = None,
) -> None:
    """List denied actions, newest first: the user, the action, and the rule that decided."""
    given = invocation.of(ctx)
    named = None if destination is None else address(destination)[1:].replace("/", ":", 1)
    found = given.rest().get("/decisions/denials", limit=count, user=user, rule=rule, destination=named)
    given.output.rows(_DENIALS, found["items"], whole=True)


def _explained(given: Invocation, question: Facts) -> Facts:
    """Return the broker's explanation. Raises Failure."""
    if "action" not in question:
        raise Failure(USAGE, "no action is given", fix="add --action, such as --action POST")
    if ("queue" in question) == ("topic" in question):
        raise Failure(USAGE, "exactly one destination is needed", fix="add either --queue or --topic")
    kind = "queue" if "queue" in question else "topic"
    body = {**question, "destination": f"{kind}:{question[kind]}"}
    del body[kind]
    if "rules" in question:
        body["rules"] = _read(question["rules"])
    found: Facts = given.rest().call("POST", "/explain", body)
    return found


def _read(name: str) -> Any:
    """Return the rules in a file, or on standard input for `-`."""
    try:
        return json.loads(sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(
            USAGE, f"cannot read {name}: {error.strerror}", fix="name a file that you may read"
        ) from error
    except ValueError as error:
        raise Failure(USAGE, f"{name} is not JSON: {error}", fix="write a JSON list of rules") from error
