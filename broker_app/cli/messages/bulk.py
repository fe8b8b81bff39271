"""`mom move`, `copy`, `delete`, `retry`, `replay`: operations on many messages, with a preview."""

from __future__ import annotations

from typing import Annotated

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import completion, invocation
from broker_app.cli.base.failures import FAILED, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.options import DryRun, Yes, with_options
from broker_app.cli.base.prompts import confirm
from broker_app.cli.destinations import queue_name
from broker_app.cli.messages import jobs

WHERE = (
    'filter: `reason:REJECTED header.tenant:acme age_gt_s:3600 "any text"`; also id:, origin:, '
    "selector:, state:"
)

#: operations after which the messages they took do not match any more
_REMOVING = ("move", "delete", "retry")

_Queue = Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)]
_To = Annotated[str, typer.Option("--to", help="name of the target queue", autocompletion=completion.queues)]
_OPTIONS = {
    "where": Annotated[str | None, typer.Option("--where", help=WHERE, show_default="all")],
    "limit": Annotated[int | None, typer.Option("--limit", "-n", min=1, help="maximum number of messages")],
    "rate": Annotated[float | None, typer.Option("--rate", min=1, help="maximum messages per second")],
    "dry_run": DryRun,
    "yes": Yes,
    "detach": Annotated[bool, typer.Option("--detach", help="start the job and do not wait for its end")],
}


@with_options(**_OPTIONS)
def move(ctx: typer.Context, queue: _Queue, to: _To, *, options: dict[str, object]) -> None:
    """Move waiting messages of a queue to another one. `mom job undo` moves them back."""
    _run(invocation.of(ctx), "move", queue_name(queue), to, options)


@with_options(**_OPTIONS)
def copy(ctx: typer.Context, queue: _Queue, to: _To, *, options: dict[str, object]) -> None:
    """Copy waiting messages of a queue to another one."""
    _run(invocation.of(ctx), "copy", queue_name(queue), to, options)


@with_options(**_OPTIONS)
def delete(ctx: typer.Context, queue: _Queue, *, options: dict[str, object]) -> None:
    """Delete waiting messages of a queue, permanently."""
    _run(invocation.of(ctx), "delete", queue_name(queue), None, options)


@with_options(**_OPTIONS)
def retry(
    ctx: typer.Context,
    queue: _Queue,
    to: Annotated[
        str | None, typer.Option("--to", help="target queue", show_default="the queue of origin of each")
    ] = None,
    *,
    options: dict[str, object],
) -> None:
    """Return dead letters to their queue of origin, with their delivery attempts reset."""
    _run(invocation.of(ctx), "retry", queue_name(queue), to, options)


@with_options(**_OPTIONS)
def replay(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(help="name of a topic that retains its messages")],
    to: _To,
    *,
    options: dict[str, object],
) -> None:
    """Copy the retained messages of a topic into a queue."""
    source = topic if topic.startswith("/") else f"topic:{topic}"
    _run(invocation.of(ctx), "replay", source, to, options)


def _run(given: Invocation, op: str, source: str, to: str | None, options: Facts) -> None:
    limit: int | None = options.get("limit")
    request = {
        "op": op,
        "source": source,
        "filter": options.get("where", ""),
        "limit": limit,
        "rate_per_s": options.get("rate"),
    }
    if to is not None:
        request["target"] = queue_name(to)
    rest = given.rest()
    plan = rest.call("POST", "/jobs", {**request, "dry_run": True}, wait_s=300)
    if options.get("dry_run"):
        given.output.facts(plan if given.output.form in ("json", "ndjson") else _shown_plan(plan))
        return
    _report_plan(given, plan)
    if not plan["count"]:
        given.output.say("no message matches; nothing was done")
        return
    if not options.get("yes"):
        name = plan["source"].removeprefix("/queue/")
        confirm(name, f"{plan['op']} them", production=given.target().production)
    remaining = min(plan["matches"], limit or plan["matches"])
    job = rest.call("POST", "/jobs", {"plan": plan["plan"]})
    if options.get("detach"):
        given.output.facts(job)
        check_complete(plan, remaining - plan["count"], limit)
        return
    while True:
        jobs.wait(given, rest, job["id"])
        remaining -= plan["count"]
        if remaining <= 0 or plan["op"] not in _REMOVING:
            break
        # One job takes a limited number: the remaining matches go into another one.
        following = {**request, "limit": min(remaining, plan["count"]), "dry_run": True}
        plan = rest.call("POST", "/jobs", following, wait_s=300)
        if not plan["count"]:
            break
        job = rest.call("POST", "/jobs", {"plan": plan["plan"]})
    check_complete(plan, remaining, limit)


def check_complete(plan: dict[str, object], left: int, limit: int | None) -> None:
    """Raise Failure when matching messages are left, or not all were examined, without a `limit`."""
    if left > 0 and plan["op"] not in _REMOVING:
        raise Failure(
            FAILED,
            f"{jobs.counted(left)} that match are left: a job takes at most {plan['count']:,}",
            fix=f"{plan['op']} them in parts with --where",
        )
    if left > 0:
        raise Failure(FAILED, f"{jobs.counted(left)} that match are left", fix="run the command again")
    if limit is None and not plan["complete"]:
        raise Failure(
            FAILED,
            f"only the first {plan['scanned']:,} messages were examined; more may match",
            fix="run the command again, or narrow it with --where",
        )


def _report_plan(given: Invocation, plan: dict[str, object]) -> None:
    """Print what would be done."""
    given.output.say(f"at {given.target().url}: {plan['op']} {plan['count']} of {plan['matches']} messages")
    for name, value in _shown_plan(plan).items():
        if value and name not in ("op", "count", "matches"):
            given.output.say(f"  {name}: {value}")


def _shown_plan(plan: Facts) -> Facts:
    """The members of a plan that users read; of its sample only the ids."""
    facts = {name: plan[name] for name in ("op", "source", "target", "matches", "count", "oldest", "newest")}
    for name in ("by_origin", "by_reason"):
        facts[name] = ", ".join(f"{key} {count}" for key, count in plan[name].items())
    facts["sample"] = ", ".join(item["id"] for item in plan["sample"])
    facts["warnings"] = "; ".join(plan["warnings"])
    return facts
