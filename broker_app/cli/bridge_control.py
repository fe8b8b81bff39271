"""`mom bridge test|pause|resume|drain|retry|clone`: control of bridges and their flows."""

from __future__ import annotations

from typing import Annotated

import typer

from broker_app.base.suggestions import suggestion
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import FAILED, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.options import Reason, reason_header
from broker_app.cli.configuration import resources
from broker_app.cli.configuration.resource_types import BRIDGES
from broker_app.cli.configuration.resources import Fields, Name
from broker_app.cli.configuration.versions import is_machine_format
from broker_app.features.bridge.remote import DRAINING, PAUSED, RUNNING

_STEPS = ("step", "answer", "detail", "fix", "seconds")
_ANSWERS = {True: "yes", False: "NO", None: "-"}

_Queue = Annotated[str | None, typer.Option("--queue", "-Q", help="only the flow to this remote queue")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (pause, resume, drain, retry, clone):
        app.command(command.__name__)(command)
    app.command("test")(check_connection)


def check_connection(ctx: typer.Context, name: Name, queue: _Queue = None) -> None:
    """Test the connection: name, TCP, TLS, login, rights. Exit code 1 when a step fails.

    No message is sent. With --queue also checks that the bridge may send to that remote queue:

        mom bridge test dc-west --queue orders
    """
    given = invocation.of(ctx)
    given.output.say(f"testing {name} …")
    found = given.rest().call("POST", _path(name, "test"), _for_queue(queue), wait_s=30.0)
    if is_machine_format(given):
        given.output.facts(found)
    else:
        rows = [{**step, "step": step["name"], "answer": _ANSWERS[step["ok"]]} for step in found["steps"]]
        given.output.rows(_STEPS, rows)
    if not found["ok"]:
        failed = next((step for step in found["steps"] if step["ok"] is False), None)
        what = f"{failed['name']}: {failed['detail']}" if failed else "not all steps could be tested"
        raise Failure(FAILED, what, fix=failed["fix"] if failed else "")


def pause(ctx: typer.Context, name: Name, queue: _Queue = None, reason: Reason = None) -> None:
    """Stop forwarding. Messages are kept here, in order, until `mom bridge resume`."""
    given = invocation.of(ctx)
    if queue is None:
        _patch(given, name, {"desired": PAUSED}, reason)
    else:
        _patch_flows(given, name, reason, add=queue)
        _warn_if_no_flow(given, name, queue)


def resume(ctx: typer.Context, name: Name, queue: _Queue = None, reason: Reason = None) -> None:
    """Continue forwarding after `mom bridge pause` or `mom bridge drain`."""
    given = invocation.of(ctx)
    if queue is None:
        _patch(given, name, {"desired": RUNNING}, reason)
    else:
        _patch_flows(given, name, reason, take=queue)


def drain(ctx: typer.Context, name: Name, reason: Reason = None) -> None:
    """Forward waiting messages, refuse new ones, then pause: before a remote broker moves, for example."""
    _patch(invocation.of(ctx), name, {"desired": DRAINING}, reason)


def retry(ctx: typer.Context, name: Name, queue: _Queue = None) -> None:
    """Retry now instead of at the next scheduled attempt."""
    given = invocation.of(ctx)
    given.rest().call("POST", _path(name, "retry"), _for_queue(queue))
    given.output.say(f"trying again; see `mom bridge logs {name}`")


def clone(
    ctx: typer.Context,
    name: Name,
    new: Annotated[str, typer.Argument(help="name of the new bridge")],
    fields: Fields = None,
    reason: Reason = None,
) -> None:
    """Create a copy of a bridge with its credentials; FIELD=VALUE changes fields of the copy.

    mom bridge clone dc-west dc-west2 hostname=west2.example.org
    """
    given = invocation.of(ctx)
    # One request: a copy that is changed later would start with the fields of the original.
    fields_set = {"name": new, **resources.parse_fields(BRIDGES, fields)}
    made, _ = given.rest().exchange("POST", _path(name, "clone"), fields_set, reason_header(reason))
    given.output.done(f"created bridge {new} as a copy of {name}", resources.readable(given, made))


def _path(name: str, action: str) -> str:
    return f"{resources.path_of(BRIDGES, name)}/{action}"


def _for_queue(queue: str | None) -> dict[str, object]:
    return {} if queue is None else {"queue": queue}


def _patch_flows(
    given: Invocation, name: str, reason: str | None, *, add: str | None = None, take: str | None = None
) -> None:
    """Pause the flow to queue `add`, or resume the one to `take`."""
    row, version = given.rest().exchange("GET", resources.path_of(BRIDGES, name))
    before = row["paused_queues"]
    after = [queue for queue in before if queue not in (add, take)] + ([add] if add is not None else [])
    if take is not None and take not in before:
        given.output.say(f"the flow of {name} to {take} is not paused")
        return
    _patch(given, name, {"paused_queues": after}, reason, version)


def _warn_if_no_flow(given: Invocation, name: str, queue: str) -> None:
    """Warn when the paused flow does not exist: the name may be mistyped."""
    known = [flow["queue"] for flow in given.rest().get(_path(name, "status"))["flows"]]
    if queue not in known:
        hint = suggestion(queue, known) or "."
        given.output.warn(f"{name} has no flow to {queue} yet{hint} It will be paused when it starts")


def _patch(
    given: Invocation,
    name: str,
    fields_set: dict[str, object],
    reason: str | None,
    version: str | None = None,
) -> None:
    """Change fields of a bridge and print its desired state."""
    path = resources.path_of(BRIDGES, name)
    if version is None:
        version = given.rest().exchange("GET", path)[1]
    reply, _ = given.rest().exchange(
        "PATCH", path, fields_set, {"if-match": version, **reason_header(reason)}
    )
    shown = {field: reply[field] for field in ("name", "desired", "paused_queues")}
    paused = ", ".join(reply["paused_queues"])
    sentence = f"desired state of bridge {name}: {reply['desired']}" + (
        f"; paused flows: {paused}" if paused else ""
    )
    given.output.done(sentence, resources.readable(given, shown))
