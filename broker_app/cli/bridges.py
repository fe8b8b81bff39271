"""`mom bridge`: how bridges stand and what happened to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app import spans
from broker_app.cli import bridge_control, destination_settings, invocation, resources
from broker_app.cli.failures import NOT_FOUND, Failure
from broker_app.cli.prompts import confirm
from broker_app.cli.resource_types import BRIDGES
from broker_app.cli.top import beats
from broker_app.cli.versions import is_for_programs

if TYPE_CHECKING:
    from broker_app.cli.invocation import Invocation
    from broker_app.cli.rest import Rest

app = typer.Typer(no_args_is_help=True, help=BRIDGES.about)

_FACTS = ("name", "address", "desired", "state", "error", "server", "delivery", "connected_at", "attempts")
_FLOWS = (
    "queue", "state", "error", "depth", "oldest_s", "in_flight", "sent", "accepted", "refused", "unanswered",
    "duplicate", "parked", "gap", "progress_at",
)  # fmt: skip
_EVENTS = ("at", "queue", "event", "code", "detail", "times")
_ORPHANS = ("bridge", "queue", "depth", "source")
_INCOMING = ("sender", "source", "owner", "accepted", "count", "at")
#: spans and times, which people read otherwise than programs
_SPANS, _TIMES = ("oldest_s",), ("progress_at",)


@app.command("ls")
def list_all(ctx: typer.Context) -> None:
    """List all bridges and how they stand.

    A bridge is running, suspended (it sleeps until a message comes, or is paused), connecting, retrying, or
    failed (its configuration cannot work); one of its flows may be stalled. `mom bridge show` tells more.
    """
    given = invocation.of(ctx)
    rest = given.rest()
    defined = {row["name"]: row for row in rest.pages(BRIDGES.path)}
    found = rest.get("/forwarding")
    rows = [_summed(defined.get(row["name"], {}), row) for row in found["bridges"]]
    given.output.rows(BRIDGES.columns, [_plain(given, row) for row in rows], whole=True)
    if found["orphans"]:
        given.output.say(f"queues without a bridge: {len(found['orphans'])} (mom bridge orphans)")


@app.command()
def show(ctx: typer.Context, name: resources.Name) -> None:
    """Show a bridge: its connection, and each of its flows with what it counted.

    The counts add up: sent = accepted + refused + unanswered + in flight. A gap is a fault: the remote broker
    counted other messages than this one.
    """
    given = invocation.of(ctx)
    rest = given.rest()
    defined = rest.get(resources.path_of(BRIDGES, name))
    status = rest.get(f"{resources.path_of(BRIDGES, name)}/status")
    if is_for_programs(given):
        given.output.facts({**defined, **status})
        return
    others = {field: value for field, value in defined.items() if value not in ("", [], None)}
    told = _told({**others, **{fact: status[fact] for fact in _FACTS}})
    given.output.facts(resources.readable(given, told))
    print()
    given.output.rows(_FLOWS, [_plain(given, flow) for flow in status["flows"]])
    for flow in status["flows"]:
        if flow["gap"]:
            given.output.warn(f"{flow['queue']}: {flow['gap']} messages are not where they should be (a gap)")


@app.command()
def logs(
    ctx: typer.Context,
    name: resources.Name,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=200, help="that are there already")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="and new ones, until interrupted")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="seconds between looks")] = 1.0,
) -> None:
    """Show what happened to a bridge, the newest last: connecting, refusals, retries, flows.

    What happened again and again in a row is one line, with the times it did.
    """
    given = invocation.of(ctx)
    rest = given.rest()
    if not follow:
        given.output.rows(_EVENTS, _events(rest, name)[-lines:] if lines else [], whole=True)
        return
    known: set[tuple[Any, ...]] | None = None
    for _ in beats(every):
        events = _events(rest, name)
        fresh = [event for event in events if known is None or _mark(event) not in known]
        for event in fresh if known is not None else fresh[len(fresh) - min(lines, len(fresh)) :]:
            given.output.row(_EVENTS, event)
        known = {_mark(event) for event in events}


@app.command()
def orphans(ctx: typer.Context) -> None:
    """List queues of messages for bridges that there are not.

    `mom bridge create` makes the bridge, and they go; `mom queue rm QUEUE` removes queue and messages.
    """
    given = invocation.of(ctx)
    given.output.rows(_ORPHANS, given.rest().get("/forwarding")["orphans"], whole=True)


@app.command()
def incoming(ctx: typer.Context) -> None:
    """List what other brokers forward to this one, and how far each has come.

    `accepted` is the number of the last message that was taken over, `count` how many were: a message that
    is sent again, since its answer was lost, is known by it and not stored twice. Only `owner`, the user who
    began it, goes on with it; `mom bridge hand-over` makes it another.
    """
    given = invocation.of(ctx)
    given.output.rows(_INCOMING, given.rest().get("/forwarding")["incoming"], whole=True)


_Sender = Annotated[str, typer.Argument(help="another broker, as `mom bridge incoming` lists it")]
_Source = Annotated[str, typer.Argument(help="name of the queue there")]


@app.command(name="hand-over")
def hand_over(
    ctx: typer.Context,
    sender: _Sender,
    source: _Source,
    user: Annotated[str, typer.Argument(help="as whom the other broker logs in from now on")],
    reason: destination_settings.Reason = None,
    dry_run: destination_settings.DryRun = False,
) -> None:
    """Let another user go on with a queue of another broker, from where it has come. Its flow must not run.

    First change the user of the bridge there, then hand over here: nothing is lost or arrives twice.
    """
    given = invocation.of(ctx)
    given.output.say(f"what {sender} forwards of {source} goes on as {user}, at {given.target().url}")
    if dry_run:
        return
    chosen = {"sender": sender, "source": source}
    given.rest().exchange(
        "PATCH",
        "/forwarding/incoming",
        {"owner": user},
        destination_settings.reason_header(reason),
        query=chosen,
    )
    given.output.say("handed over")


@app.command()
def forget(
    ctx: typer.Context,
    sender: _Sender,
    source: _Source,
    reason: destination_settings.Reason = None,
    yes: destination_settings.Yes = False,
    dry_run: destination_settings.DryRun = False,
    idempotent: destination_settings.Idempotent = False,
) -> None:
    """Forget how far another broker has come with a queue, when it is gone for good. Its flow must not run.

    What it has sent and did not yet hear answered may then arrive twice.
    """
    given = invocation.of(ctx)
    given.output.say(f"how far {sender} has come with {source}, at {given.target().url}")
    given.output.warn(f"what {sender} has sent and did not yet hear answered may arrive twice")
    if dry_run:
        return
    if not yes:
        confirm(sender, f"forget how far {sender} has come", production=given.target().production)
    chosen = {"sender": sender, "source": source}
    try:
        given.rest().exchange(
            "DELETE", "/forwarding/incoming", None, destination_settings.reason_header(reason), query=chosen
        )
    except Failure as failure:
        if failure.code != NOT_FOUND or not idempotent:
            raise
        given.output.say(f"nothing is known of {sender} and {source}")
        return
    given.output.say("forgotten")


bridge_control.add_to(app)
resources.add_writing(app, BRIDGES)


def _events(rest: Rest, name: str) -> list[dict[str, Any]]:
    """All that is known, the newest last."""
    found: list[dict[str, Any]] = rest.get(f"{resources.path_of(BRIDGES, name)}/events", limit=200)["items"]
    found.reverse()
    found.sort(key=lambda event: str(event["at"]))
    return found


def _mark(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells an event from all others, and from how it was before it happened again."""
    return tuple(event[name] for name in ("first_at", "queue", "event", "code", "times"))


def _summed(defined: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the list: state and error are the worst there is, of the bridge or one of its flows."""
    stalled = any(flow["state"] == "stalled" for flow in status["flows"])
    state = "stalled" if stalled else status["state"]
    error = status["error"] or _worst([flow for flow in status["flows"] if flow["error"]])
    return {**defined, **status, "state": state, "error": error, "flow_count": len(status["flows"])}


def _worst(flows: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The error of the flow that most waits for, and of how many others there is one."""
    if not flows:
        return None
    worst = max(flows, key=lambda flow: flow["depth"])
    others = f" (and {len(flows) - 1} other flows)" if len(flows) > 1 else ""
    error = worst["error"]
    return {**error, "detail": f"{worst['queue']}: {error['detail']}{others}"}


def _plain(given: Invocation, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as people read it, where it is people who read."""
    if is_for_programs(given):
        return dict(row)
    told = _told(row)
    if given.output.form != "table":
        return told
    told |= {name: spans.in_words(told[name]) if told[name] else "" for name in _SPANS}
    return told | {name: spans.since(told[name]) for name in _TIMES}


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """Its trouble as one sentence."""
    error = row.get("error")
    return {**row, "error": f"{error['code']}: {error['detail']}" if error else ""}
