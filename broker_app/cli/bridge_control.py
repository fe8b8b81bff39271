"""`mom bridge test|pause|resume|drain|retry|clone`: what is done with a bridge, or with one of its flows."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer

from broker_app.cli import invocation, resources
from broker_app.cli.destination_settings import Reason, reason_header
from broker_app.cli.failures import FAILED, Failure
from broker_app.cli.invocation import Invocation
from broker_app.cli.resource_types import BRIDGES
from broker_app.cli.resources import Fields, Name
from broker_app.cli.versions import is_for_programs
from broker_app.remote import DRAINING, PAUSED, RUNNING

_STEPS = ("step", "answer", "detail", "fix", "seconds")
_ANSWERS = {True: "yes", False: "NO", None: "-"}

_Queue = Annotated[str | None, typer.Option("--queue", "-Q", help="the flow to this remote queue alone")]


def add_to(app: typer.Typer) -> None:
    """Gives `app` the commands of this module."""
    for command in (pause, resume, drain, retry, clone):
        app.command(command.__name__)(command)
    app.command("test")(try_out)


def try_out(ctx: typer.Context, name: Name, queue: _Queue = None) -> None:
    """Test the connection: name, TCP, TLS, login, rights. Exit code 1 when a step fails.

    Nothing is sent. With --queue also whether the bridge may send to that queue there:

        mom bridge test dc-west --queue orders
    """
    given = invocation.of(ctx)
    given.output.say(f"testing {name} …")
    found = given.rest().call("POST", _path(name, "test"), _chosen(queue), wait_s=30.0)
    if is_for_programs(given):
        given.output.facts(found)
    else:
        rows = [{**step, "step": step["name"], "answer": _ANSWERS[step["ok"]]} for step in found["steps"]]
        given.output.rows(_STEPS, rows)
    if not found["ok"]:
        failed = next((step for step in found["steps"] if step["ok"] is False), None)
        what = f"{failed['name']}: {failed['detail']}" if failed else "not all steps could be taken"
        raise Failure(FAILED, what, fix=failed["fix"] if failed else "")


def pause(ctx: typer.Context, name: Name, queue: _Queue = None, reason: Reason = None) -> None:
    """Stop forwarding. Messages go on gathering here, in order, until `mom bridge resume`."""
    given = invocation.of(ctx)
    if queue is None:
        _patch(given, name, {"desired": PAUSED}, reason)
    else:
        _patch_flows(given, name, reason, add=queue)
        _warn_of_none(given, name, queue)


def resume(ctx: typer.Context, name: Name, queue: _Queue = None, reason: Reason = None) -> None:
    """Go on forwarding after `mom bridge pause` or `mom bridge drain`."""
    given = invocation.of(ctx)
    if queue is None:
        _patch(given, name, {"desired": RUNNING}, reason)
    else:
        _patch_flows(given, name, reason, take=queue)


def drain(ctx: typer.Context, name: Name, reason: Reason = None) -> None:
    """Forward what is there, take nothing new, and then rest. Before a remote broker moves, for example."""
    _patch(invocation.of(ctx), name, {"desired": DRAINING}, reason)


def retry(ctx: typer.Context, name: Name, queue: _Queue = None) -> None:
    """Try again now what waits for its next attempt."""
    given = invocation.of(ctx)
    given.rest().call("POST", _path(name, "retry"), _chosen(queue))
    given.output.say(f"trying again; see `mom bridge logs {name}`")


def clone(
    ctx: typer.Context,
    name: Name,
    new: Annotated[str, typer.Argument(help="name of the bridge that is to be")],
    fields: Fields = None,
    reason: Reason = None,
) -> None:
    """Make a bridge like another one, credentials too, with the FIELDs that are to differ.

    mom bridge clone dc-west dc-west2 hostname=west2.example.org
    """
    given = invocation.of(ctx)
    # At once: it is not to begin like the other one, with messages that wait for it.
    said = {"name": new, **resources.said(BRIDGES, fields)}
    made, _ = given.rest().exchange("POST", _path(name, "clone"), said, reason_header(reason))
    given.output.done(f"made bridge {new} like {name}", resources.readable(given, made))


def _path(name: str, deed: str) -> str:
    return f"{resources.path_of(BRIDGES, name)}/{deed}"


def _chosen(queue: str | None) -> dict[str, Any]:
    return {} if queue is None else {"queue": queue}


def _patch_flows(
    given: Invocation, name: str, reason: str | None, *, add: str | None = None, take: str | None = None
) -> None:
    """Pauses one flow, or takes that back."""
    row, version = given.rest().exchange("GET", resources.path_of(BRIDGES, name))
    before = row["paused_queues"]
    after = [queue for queue in before if queue not in (add, take)] + ([add] if add is not None else [])
    if take is not None and take not in before:
        given.output.say(f"the flow of {name} to {take} is not paused")
        return
    _patch(given, name, {"paused_queues": after}, reason, version)


def _warn_of_none(given: Invocation, name: str, queue: str) -> None:
    """Says so where a flow was paused that there is not: it may be meant so, or mistyped."""
    known = [flow["queue"] for flow in given.rest().get(_path(name, "status"))["flows"]]
    if queue not in known:
        near = difflib.get_close_matches(queue, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else "."
        given.output.warn(f"{name} has no flow to {queue} yet{meant} One that begins will be paused")


def _patch(
    given: Invocation, name: str, said: dict[str, Any], reason: str | None, version: str | None = None
) -> None:
    """Changes what is said of a bridge, and tells what is desired now."""
    path = resources.path_of(BRIDGES, name)
    if version is None:
        version = given.rest().exchange("GET", path)[1]
    reply, _ = given.rest().exchange("PATCH", path, said, {"if-match": version, **reason_header(reason)})
    told = {field: reply[field] for field in ("name", "desired", "paused_queues")}
    paused = ", ".join(reply["paused_queues"])
    sentence = f"bridge {name} is to be {reply['desired']}" + (
        f"; paused are flows to {paused}" if paused else ""
    )
    given.output.done(sentence, resources.readable(given, told))
