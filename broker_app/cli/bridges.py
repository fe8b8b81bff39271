"""`mom bridge`: the status and the events of bridges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.base import durations
from broker_app.base.reply_types import Facts
from broker_app.cli import bridge_control
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import NOT_FOUND, Failure
from broker_app.cli.base.options import DryRun, Idempotent, Reason, Span, Yes, reason_header, span
from broker_app.cli.base.prompts import confirm
from broker_app.cli.configuration import resources
from broker_app.cli.configuration.resource_types import BRIDGES
from broker_app.cli.configuration.versions import is_machine_format
from broker_app.cli.top import ticks

if TYPE_CHECKING:
    from broker_app.cli.base.invocation import Invocation
    from broker_app.cli.base.rest import Rest

app = typer.Typer(no_args_is_help=True, help=BRIDGES.about)

_FACTS = (
    "name",
    "address",
    "desired",
    "health",
    "state",
    "error",
    "server",
    "delivery",
    "connected_at",
    "attempts",
)
_FLOWS = (
    "queue", "state", "error", "depth", "oldest_s", "in_flight", "sent", "accepted", "refused", "unanswered",
    "duplicate", "dead_lettered", "gap", "progress_at",
)  # fmt: skip
_EVENTS = ("at", "queue", "event", "code", "detail", "times")
_ORPHANS = ("bridge", "queue", "depth", "source")
_INCOMING = ("sender", "source", "owner", "accepted", "count", "at")
#: durations and times that a table shows in words
_SPANS, _TIMES = ("oldest_s",), ("progress_at",)


@app.command("ls")
def list_all(ctx: typer.Context) -> None:
    """List all bridges with their status.

    A bridge is running, suspended (idle until a message arrives, or paused), connecting, retrying, or
    failed (its configuration cannot work); one of its flows may be stalled. `mom bridge show` has details.
    """
    given = invocation.of(ctx)
    rest = given.rest()
    defined = {row["name"]: row for row in rest.pages(BRIDGES.path)}
    found = rest.get("/forwarding")
    rows = [_list_row(defined.get(row["name"], {}), row) for row in found["bridges"]]
    given.output.rows(BRIDGES.columns, [_shown(given, row) for row in rows], whole=True)
    if found["orphans"]:
        given.output.say(f"queues without a bridge: {len(found['orphans'])} (mom bridge orphans)")


@app.command()
def show(ctx: typer.Context, name: resources.Name) -> None:
    """Show a bridge: its connection, and the counters of each flow.

    sent = accepted + refused + unanswered + in flight. A gap is an error: the remote broker has counted
    a different number of messages than this one.
    """
    given = invocation.of(ctx)
    rest = given.rest()
    defined = rest.get(resources.path_of(BRIDGES, name))
    status = rest.get(f"{resources.path_of(BRIDGES, name)}/status")
    if is_machine_format(given):
        given.output.facts({**defined, **status})
        return
    others = {field: value for field, value in defined.items() if value not in ("", [], None)}
    shown_row = _with_error_text({**others, **{fact: status[fact] for fact in _FACTS}})
    given.output.facts(resources.readable(given, shown_row))
    print()
    given.output.rows(_FLOWS, [_shown(given, flow) for flow in status["flows"]])
    for flow in status["flows"]:
        if flow["gap"]:
            given.output.warn(
                f"{flow['queue']}: {flow['gap']} messages differ between the two brokers (a gap)"
            )


@app.command()
def logs(
    ctx: typer.Context,
    name: resources.Name,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=200, help="existing events to show first")
    ] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="show new events until interrupted")] = False,
    every: Annotated[float, typer.Option(parser=span(0.1), help="time between updates, such as 2s")] = Span(
        1
    ),
) -> None:
    """Show the events of a bridge, newest last: connections, refusals, retries, flows.

    An event that repeats is one line with a count.
    """
    given = invocation.of(ctx)
    rest = given.rest()
    if not follow:
        given.output.rows(_EVENTS, _events(rest, name)[-lines:] if lines else [], whole=True)
        return
    known: set[tuple[Any, ...]] | None = None
    for _ in ticks(every):
        events = _events(rest, name)
        fresh = [event for event in events if known is None or _event_key(event) not in known]
        for event in fresh if known is not None else fresh[len(fresh) - min(lines, len(fresh)) :]:
            given.output.row(_EVENTS, event)
        known = {_event_key(event) for event in events}


@app.command()
def orphans(ctx: typer.Context) -> None:
    """List store-and-forward queues whose bridge is not configured.

    `mom bridge create` adds the bridge, which then forwards them; `mom queue rm QUEUE` deletes a queue.
    """
    given = invocation.of(ctx)
    given.output.rows(_ORPHANS, given.rest().get("/forwarding")["orphans"], whole=True)


@app.command()
def incoming(ctx: typer.Context) -> None:
    """List the queues that other brokers forward to this one, with their replication offsets.

    `accepted` is the number of the last message that was stored, `count` how many were. A message that is
    sent again because its answer was lost is recognized by its number and not stored twice. Only `owner`,
    the user that started the flow, may continue it; `mom bridge hand-over` changes the owner.
    """
    given = invocation.of(ctx)
    given.output.rows(_INCOMING, given.rest().get("/forwarding")["incoming"], whole=True)


_Sender = Annotated[str, typer.Argument(help="name of the sending broker, see `mom bridge incoming`")]
_Source = Annotated[str, typer.Argument(help="name of the queue at the sender")]


@app.command(name="hand-over")
def hand_over(
    ctx: typer.Context,
    sender: _Sender,
    source: _Source,
    user: Annotated[str, typer.Argument(help="user that the other broker will log in as")],
    reason: Reason = None,
    dry_run: DryRun = False,
) -> None:
    """Let another user continue an incoming flow at its present offset. The flow must not be running.

    First change the user of the bridge at the sender, then hand over here: no message is lost or duplicated.
    """
    given = invocation.of(ctx)
    given.output.say(f"the flow of {source} from {sender} will continue as {user}, at {given.target().url}")
    if dry_run:
        return
    chosen = {"sender": sender, "source": source}
    given.rest().exchange(
        "PATCH",
        "/forwarding/incoming",
        {"owner": user},
        reason_header(reason),
        query=chosen,
    )
    given.output.say("handed over")


@app.command()
def forget(
    ctx: typer.Context,
    sender: _Sender,
    source: _Source,
    reason: Reason = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    idempotent: Idempotent = False,
) -> None:
    """Delete the offset of an incoming flow that has ended for good. The flow must not be running.

    Messages that were sent but not yet answered may then arrive twice.
    """
    given = invocation.of(ctx)
    given.output.say(f"offset of {source} from {sender}, at {given.target().url}")
    given.output.warn(f"messages that {sender} has sent without an answer may arrive twice")
    if dry_run:
        return
    if not yes:
        confirm(sender, f"delete the offset of {sender}", production=given.target().production)
    chosen = {"sender": sender, "source": source}
    try:
        given.rest().exchange("DELETE", "/forwarding/incoming", None, reason_header(reason), query=chosen)
    except Failure as failure:
        if failure.code != NOT_FOUND or not idempotent:
            raise
        given.output.say(f"there is no offset of {source} from {sender}")
        return
    given.output.say("deleted")


bridge_control.add_to(app)
resources.add_writing(app, BRIDGES)


def _events(rest: Rest, name: str) -> list[Facts]:
    """All known events, newest last."""
    found: list[Facts] = rest.get(f"{resources.path_of(BRIDGES, name)}/events", limit=200)["items"]
    found.reverse()
    found.sort(key=lambda event: str(event["at"]))
    return found


def _event_key(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """A key of an event that changes when the event repeats."""
    return tuple(event[name] for name in ("first_at", "queue", "event", "code", "times"))


def _list_row(defined: Mapping[str, Any], status: Mapping[str, Any]) -> Facts:
    """A row of the list, with the worst state and error of the bridge and its flows."""
    stalled = any(flow["state"] == "stalled" for flow in status["flows"])
    state = "stalled" if stalled else status["state"]
    error = status["error"] or _worst([flow for flow in status["flows"] if flow["error"]])
    return {**defined, **status, "state": state, "error": error, "flow_count": len(status["flows"])}


def _worst(flows: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The error of the flow with the largest backlog, and how many other flows have one."""
    if not flows:
        return None
    worst = max(flows, key=lambda flow: flow["depth"])
    others = f" (and {len(flows) - 1} other flows)" if len(flows) > 1 else ""
    error = worst["error"]
    return {**error, "detail": f"{worst['queue']}: {error['detail']}{others}"}


def _shown(given: Invocation, row: Mapping[str, Any]) -> Facts:
    """A row in the form of the output: as it is for programs, with durations in words for a table."""
    if is_machine_format(given):
        return dict(row)
    shown_row = _with_error_text(row)
    if given.output.form != "table":
        return shown_row
    spans = {name: durations.in_words(shown_row[name]) if shown_row[name] else "" for name in _SPANS}
    return {**shown_row, **spans, **{name: durations.since(shown_row[name]) for name in _TIMES}}


def _with_error_text(row: Mapping[str, Any]) -> Facts:
    """The row with its error as one sentence."""
    error = row.get("error")
    return {**row, "error": f"{error['code']}: {error['detail']}" if error else ""}
