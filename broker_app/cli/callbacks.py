"""`mom callback`: webhooks, their status, their pushes, and tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.failures import FAILED, USAGE, Failure
from broker_app.cli.base.options import Reason, reason_header
from broker_app.cli.configuration import resources
from broker_app.cli.configuration.resource_types import CALLBACKS
from broker_app.cli.configuration.versions import is_machine_format
from broker_app.features.callbacks.webhooks.callback import PAUSED, RUNNING

if TYPE_CHECKING:
    from broker_app.cli.base.invocation import Invocation

app = typer.Typer(no_args_is_help=True, help=CALLBACKS.about)

_FACTS = (
    "health", "state", "reason", "breaker", "pending", "in_flight", "accepted", "failed", "failures_in_row",
    "coalesced", "p50_s", "p95_s", "accepted_at",
)  # fmt: skip
_SUBSCRIBERS = (
    "id", "source", "mode", "transport", "user", "address", "since", "events", "last_at", "pending",
)  # fmt: skip
_ORIGINS = (
    "url", "login", "state", "error", "services", "queues", "pending", "held", "fetched", "gone", "polls",
)  # fmt: skip
_PUSHES = ("at", "id", "attempt", "outcome", "status", "seconds", "detail")
#: causes of a pause, in words
_PAUSES = {"retry-after": "the receiver asked for it", "no-worker": "no worker takes requests"}
#: seconds that a test may take: as long as a receiver may have, and a little more
_TEST_S = 130.0


@app.command("ls")
def list_all(ctx: typer.Context) -> None:
    """List callbacks with their status: all for administrators, your own for others.

    A callback is running, paused, verifying its URL, unverified (the URL does not agree to be called),
    suspended (its owner lost the right to receive), ended (its receiver answered 410) or failed.
    """
    given = invocation.of(ctx)
    rows = given.rest().get("/webhooks")["items"]
    given.output.rows(CALLBACKS.columns, [_shown(given, row) for row in rows], whole=True)


@app.command("subscribers")
def list_subscribers(
    ctx: typer.Context,
    sort: Annotated[
        str | None, typer.Option(help="columns to sort by, - for descending: -pending,user")
    ] = None,
) -> None:
    """List those who are called over an open connection now: JSON over WebSocket, and event streams."""
    given = invocation.of(ctx)
    given.output.rows(_SUBSCRIBERS, given.rest().pages("/subscribers", sort=sort), whole=True)


@app.command("origins")
def list_origins(ctx: typer.Context) -> None:
    """List the origins of a callback broker: the remote brokers whose messages it fetches for its services.

    `polls` are the receive requests that were answered here and spared the origin one. Administrators only.

    Example: those of the callback broker of this machine:

        mom --context REcallback callback origins
    """
    given = invocation.of(ctx)
    found = given.rest().get("/origins")
    if not found["callback_broker"]:
        raise Failure(
            FAILED,
            "this broker is no callback broker, and has no origins",
            fix="ask the callback broker of this machine: mom --context REcallback callback origins",
        )
    rows = found["items"]
    if not is_machine_format(given):
        rows = [{**row, "queues": " ".join(queue["name"] for queue in row["queues"])} for row in rows]
    given.output.rows(_ORIGINS, rows, whole=True)


@app.command()
def show(ctx: typer.Context, name: resources.Name) -> None:
    """Show a callback: its settings, its state, and the breaker of the host that it calls."""
    given = invocation.of(ctx)
    rest = given.rest()
    defined = rest.get(resources.path_of(CALLBACKS, name))
    status = rest.get(_path(name, "status"))
    if is_machine_format(given):
        given.output.facts({**defined, **status})
        return
    others = {field: value for field, value in defined.items() if value not in ("", {}, None)}
    shown_status = _shown(given, status)
    given.output.facts(resources.readable(given, {**others, **{fact: shown_status[fact] for fact in _FACTS}}))


@app.command()
def pushes(
    ctx: typer.Context,
    name: resources.Name,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=100, help="pushes to show")] = 20,
) -> None:
    """Show the last pushes of a callback, newest last: outcome, status and duration."""
    given = invocation.of(ctx)
    found = given.rest().get(_path(name, "pushes"), limit=lines)["items"]
    given.output.rows(_PUSHES, found[::-1], whole=True)


@app.command("test")
def check_receiver(ctx: typer.Context, name: resources.Name) -> None:
    """Send a signed sample, and show the answer. Exit code 1 when it is not accepted.

    The sample has the type mom.test and is no message of the queue.
    """
    given = invocation.of(ctx)
    given.output.say(f"testing {name} …")
    found = given.rest().call("POST", _path(name, "test"), None, wait_s=_TEST_S)
    if is_machine_format(given):
        given.output.facts(found)
    else:
        answer = found["response"] or {}
        facts = {"outcome": found["outcome"], "status": answer.get("status", ""), "seconds": found["seconds"]}
        given.output.facts({**facts, "body": answer.get("body", "")})
    if not found["ok"]:
        raise Failure(
            FAILED, found["detail"], fix=f"the receiver has to answer 2xx; see `mom callback show {name}`"
        )


@app.command()
def push(ctx: typer.Context, name: resources.Name) -> None:
    """Push now what waits for its next attempt.

    Also closes the breaker of the host, asks an unverified URL again, and starts a callback that its receiver
    has ended.
    """
    given = invocation.of(ctx)
    given.rest().call("POST", _path(name, "push"), None)
    given.output.say(f"pushing; see `mom callback pushes {name}`")


@app.command()
def pause(ctx: typer.Context, name: resources.Name, reason: Reason = None) -> None:
    """Push nothing more. Messages are kept until `mom callback resume`."""
    _desire(invocation.of(ctx), name, PAUSED, reason)


@app.command()
def resume(ctx: typer.Context, name: resources.Name, reason: Reason = None) -> None:
    """Continue after `mom callback pause`."""
    _desire(invocation.of(ctx), name, RUNNING, reason)


@app.command()
def rotate(ctx: typer.Context, name: resources.Name, reason: Reason = None) -> None:
    """Replace the secret by a new one, and print it. The former one signs too for a day."""
    given = invocation.of(ctx)
    made, _ = given.rest().exchange("POST", _path(name, "rotate"), None, reason_header(reason))
    shown = {"name": name, "secret": made["secret"], "former_secret_until": made["former_secret_until"]}
    given.output.done(f"callback {name} has a new secret, which is shown only once", shown)


@app.command()
def worker() -> None:
    """Send the requests of webhooks for a broker, until Ctrl-C.

    A broker with MOM_CHANNEL_LAYER leaves them to workers, on any machine that reaches the receivers. They
    need the same MOM_CHANNEL_LAYER, and the package mom-broker[workers]. MOM_WEBHOOK_ALLOW is that of the
    worker.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mom_site.settings")
    import django
    from django.core.management import CommandError, call_command

    django.setup()
    try:
        call_command("runworker")
    except CommandError as error:
        raise Failure(USAGE, str(error), fix="see `mom callback worker --help`") from error


resources.add_writing(app, CALLBACKS)


def _path(name: str, action: str) -> str:
    return f"{resources.path_of(CALLBACKS, name)}/{action}"


def _desire(given: Invocation, name: str, desired: str, reason: str | None) -> None:
    resources.change_resource(given, CALLBACKS, name, {"desired": desired}, reason, dry_run=False)


def _shown(given: Invocation, row: Mapping[str, Any]) -> dict[str, object]:
    """A row in the form of the output: as it is for programs, with sums and words for a table."""
    if is_machine_format(given):
        return dict(row)
    counts = row["pushes"]
    return {
        **row,
        "breaker": _breaker(row["breaker"]),
        "accepted": counts["accepted"],
        "failed": sum(counts.values()) - counts["accepted"],
    }


def _breaker(breaker: Mapping[str, Any]) -> str:
    """The state of a breaker; and until when nothing is pushed, which may have another cause."""
    if not breaker["until"]:
        return str(breaker["state"])
    if not breaker["pause"]:
        return f"{breaker['state']} until {breaker['until']}"
    return f"{breaker['state']}; paused until {breaker['until']} ({_PAUSES[breaker['pause']]})"
