"""`mom reflex`: functions of plug-ins that decide about messages and services."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import NOT_FOUND, REFUSED, USAGE, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.configuration import resources
from broker_app.cli.configuration.resource_types import REFLEXES

app = typer.Typer(no_args_is_help=True, help=REFLEXES.about)
resources.add_writing(app, REFLEXES)

_STATISTICS = (
    "name",
    "health",
    "state",
    "calls",
    "refusals",
    "failures",
    "unpublished",
    "p50_ms",
    "p99_ms",
    "last_failure",
)
_LIBRARIES = ("name", "state", "pid", "starts", "failures_in_row", "error")
_STEPS = ("name", "library", "function", "result", "reason", "failure", "headers", "messages", "micros")

_TRIED = ("result", "id", "time", "reflex", "reason", "failure", "headers")
_LIMITS = {
    "time": "it took too long",
    "bytes": "their bodies are too large",
    "failures": "a library failed three times in a row",
}

_Destination = Annotated[
    str | None,
    typer.Option("--for", metavar="QUEUE", help="only those that may fire for this queue, or /topic/NAME"),
]


@app.command("ls")
def list_all(ctx: typer.Context, destination: _Destination = None) -> None:
    """List all reflexes in the order in which they are asked: those of the file of the broker come first."""
    given = invocation.of(ctx)
    given.output.rows(REFLEXES.columns, _status(given, destination)["items"], whole=True)


@app.command()
def stats(ctx: typer.Context, destination: _Destination = None) -> None:
    """Show what reflexes decided since the broker started, and the libraries that run in processes."""
    given = invocation.of(ctx)
    found = _status(given, destination)
    given.output.rows(_STATISTICS, found["items"], whole=True)
    if given.output.form not in ("json", "ndjson", "yaml") and found["libraries"]:
        given.output.say("")
        given.output.rows(_LIBRARIES, found["libraries"], whole=True)


@app.command()
def show(ctx: typer.Context, name: resources.Name) -> None:
    """Show a reflex: its declaration, state and statistics."""
    given = invocation.of(ctx)
    status = next((row for row in _status(given, None)["items"] if row["name"] == name), None)
    try:
        declared = given.rest().get(resources.path_of(REFLEXES, name))
    except Failure as failure:
        if failure.code != NOT_FOUND or status is None:
            raise
        declared = {}  # it is from a file of OpenMOM's form
    given.output.facts({**(status or {}), **declared})


@app.command("test")
def try_chain(
    ctx: typer.Context,
    service: Annotated[str, typer.Argument(help="a queue, an address like /topic/prices, or a service")],
    body: Annotated[str, typer.Argument(help="the body; - reads standard input, @FILE a file")] = "",
    header: Annotated[
        list[str] | None, typer.Option("-H", "--header", help="a header, as name=value; type=… is the event")
    ] = None,
    delivery: Annotated[
        bool, typer.Option("--delivery", help="ask about a delivery, not about an arrival")
    ] = False,
    registration: Annotated[
        bool, typer.Option("--registration", help="ask about the registration of a service")
    ] = False,
    user: Annotated[str | None, typer.Option("--user", help="the user; default: yourself")] = None,
    machine: Annotated[str, typer.Option("--machine", help="IP address of a service that registers")] = "",
    last: Annotated[
        int, typer.Option("--last", metavar="N", help="ask about the N newest stored messages instead", min=0)
    ] = 0,
    reflex: Annotated[
        str | None, typer.Option("--reflex", metavar="NAME", help="with --last: ask only this one")
    ] = None,
) -> None:
    """Ask the reflexes about a message, and show each step; exit code 4 when it is refused.

    Nothing is published. The functions of libraries are called, with all that they do. With --last, it shows
    how many of the stored messages of a queue, or of a topic with a history, they would refuse and change.
    """
    if delivery and registration:
        raise Failure(USAGE, "--delivery and --registration are both given", fix="give one of them")
    given = invocation.of(ctx)
    if last:
        if body or header or registration:
            raise Failure(USAGE, "--last asks about stored messages", fix="leave out the message")
        stored = {"destination": service, "reflex": reflex, "limit": last}
        _try_stored(given, {**stored, "kind": "delivery" if delivery else "arrival"})
        return
    if reflex is not None:
        raise Failure(USAGE, "--reflex is given without --last", fix="add --last 100")
    asked: dict[str, Any] = {"service": service, "user": user, "machine": machine}
    asked["kind"] = "registration" if registration else "delivery" if delivery else "arrival"
    asked["headers"] = dict(map(_pair, header or ()))
    asked["body_base64"] = base64.b64encode(_content(body)).decode()
    found = given.rest().call("POST", "/reflex-test", asked)
    given.output.rows(_STEPS, map(_shown_step, found["steps"]), whole=True)
    if not found["steps"]:
        given.output.say("no reflex is asked about it")
    if found["accepted"]:
        given.output.say("accepted")
        return
    given.output.say(f"refused by {found['reflex']}: {found['reason']}")
    raise typer.Exit(REFUSED)


@app.command()
def restart(
    ctx: typer.Context,
    library: Annotated[str, typer.Argument(help="name of the library")],
) -> None:
    """Start another process of a library, which loads its code again. Messages wait meanwhile."""
    given = invocation.of(ctx)
    given.rest().call("POST", f"/reflex-libraries/{quote(library, safe='')}/restart")
    given.output.say(f"library {library} was restarted")


def _try_stored(given: Invocation, asked: dict[str, Any]) -> None:
    """Show how many stored messages would be refused, changed and kept, with the first of each."""
    found = given.rest().call("POST", "/reflex-test/messages", asked)
    if given.output.form in ("json", "yaml"):
        given.output.facts(found)
        return
    rows = [
        {"result": result, **row, "headers": _shown_headers(row["headers"])}
        for result, first in found["first"].items()
        for row in first
    ]
    given.output.rows(_TRIED, rows, whole=True)
    counts = ("refused", "changed", "kept", "not_asked")
    shown = ", ".join(f"{found[name]:,} {name.replace('_', ' ')}" for name in counts if found[name])
    given.output.say(f"{found['messages']:,} messages: {shown or 'there is none'}")
    if found["failures"]:
        given.output.say(f"functions failed for {found['failures']:,} of them")
    if found["stopped"]:
        given.output.say(f"it ended before the others were tried: {_LIMITS[found['stopped']]}")


def _status(given: Invocation, destination: str | None) -> Facts:
    query = {} if destination is None else {"destination": _address(destination)}
    found: Facts = given.rest().get("/reflex-status", **query)
    return found


def _address(destination: str) -> str:
    return destination if destination.startswith("/") else f"/queue/{destination}"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Failure(USAGE, f"{text!r} is no header", fix="write NAME=VALUE")
    return name, value


def _content(body: str) -> bytes:
    if body == "-":
        return sys.stdin.buffer.read()
    if not body.startswith("@"):
        return body.encode()
    try:
        return Path(body[1:]).read_bytes()
    except OSError as error:
        raise Failure(
            USAGE, f"cannot read {body[1:]}: {error.strerror}", fix="name a file that you may read"
        ) from error


def _shown_step(step: Facts) -> Facts:
    messages = ", ".join(one["destination"] for one in step["messages"])
    return {**step, "headers": _shown_headers(step["headers"]), "messages": messages}


def _shown_headers(headers: Facts) -> str:
    return ", ".join(
        f"{name}={value}" if value is not None else f"without {name}" for name, value in headers.items()
    )
