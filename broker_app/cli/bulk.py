"""`mom move`, `copy`, `delete`, `retry`: many messages at once. Each shows what it would do, and asks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from broker_app.cli import completion, invocation, jobs
from broker_app.cli.destinations import queue_name
from broker_app.cli.failures import FAILED, Failure
from broker_app.cli.invocation import Invocation
from broker_app.cli.prompts import confirm

WHERE = (
    'which ones: `reason:REJECTED header.tenant:acme age_gt_s:3600 "any text"`; also id:, origin:, '
    "selector:, state:"
)

#: operations after which what they took does not fit any more
_TAKE_AWAY = ("move", "delete", "retry")

_Queue = Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)]
_Where = Annotated[str, typer.Option("--where", help=WHERE, show_default="all")]
_To = Annotated[
    str, typer.Option("--to", help="name of the queue they go to", autocompletion=completion.queues)
]
_Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="messages at most")]
_Rate = Annotated[float | None, typer.Option("--rate", min=1, help="messages a second at most")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="only say what would be done")]
_Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]
_Detach = Annotated[bool, typer.Option("--detach", help="begin it and do not wait for its end")]


def move(
    ctx: typer.Context,
    queue: _Queue,
    to: _To,
    where: _Where = "",
    limit: _Limit = None,
    rate: _Rate = None,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    detach: _Detach = False,
) -> None:
    """Move messages that wait in a queue to another one. `mom job undo` moves them back."""
    wish = _wish("move", queue_name(queue), to, where, limit, rate)
    _carry_out(invocation.of(ctx), wish, dry_run=dry_run, yes=yes, detach=detach)


def copy(
    ctx: typer.Context,
    queue: _Queue,
    to: _To,
    where: _Where = "",
    limit: _Limit = None,
    rate: _Rate = None,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    detach: _Detach = False,
) -> None:
    """Copy messages that wait in a queue to another one."""
    wish = _wish("copy", queue_name(queue), to, where, limit, rate)
    _carry_out(invocation.of(ctx), wish, dry_run=dry_run, yes=yes, detach=detach)


def delete(
    ctx: typer.Context,
    queue: _Queue,
    where: _Where = "",
    limit: _Limit = None,
    rate: _Rate = None,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    detach: _Detach = False,
) -> None:
    """Delete messages that wait in a queue, for good."""
    wish = _wish("delete", queue_name(queue), None, where, limit, rate)
    _carry_out(invocation.of(ctx), wish, dry_run=dry_run, yes=yes, detach=detach)


def retry(
    ctx: typer.Context,
    queue: _Queue,
    to: Annotated[
        str | None, typer.Option("--to", help="another queue than that where each of them died")
    ] = None,
    where: _Where = "",
    limit: _Limit = None,
    rate: _Rate = None,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    detach: _Detach = False,
) -> None:
    """Return dead letters to where they died, as if they had never been delivered."""
    wish = _wish("retry", queue_name(queue), to, where, limit, rate)
    _carry_out(invocation.of(ctx), wish, dry_run=dry_run, yes=yes, detach=detach)


def replay(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(help="name of a topic that retains its messages")],
    to: _To,
    where: _Where = "",
    limit: _Limit = None,
    rate: _Rate = None,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    detach: _Detach = False,
) -> None:
    """Put what a topic retains into a queue."""
    source = topic if topic.startswith("/") else f"topic:{topic}"
    wish = _wish("replay", source, to, where, limit, rate)
    _carry_out(invocation.of(ctx), wish, dry_run=dry_run, yes=yes, detach=detach)


def _wish(
    op: str, source: str, to: str | None, where: str, limit: int | None, rate: float | None
) -> dict[str, Any]:
    wish = {"op": op, "source": source, "filter": where, "limit": limit, "rate_per_s": rate}
    return wish if to is None else {**wish, "target": queue_name(to)}


def _carry_out(given: Invocation, wish: dict[str, Any], *, dry_run: bool, yes: bool, detach: bool) -> None:
    rest = given.rest()
    plan = rest.call("POST", "/jobs", {**wish, "dry_run": True}, wait_s=300)
    if dry_run:
        given.output.facts(plan if given.output.form in ("json", "ndjson") else _facts(plan))
        return
    _tell(given, plan)
    if not plan["count"]:
        given.output.say("nothing to do")
        return
    if not yes:
        name = plan["source"].removeprefix("/queue/")
        confirm(name, f"{plan['op']} them", production=given.target().production)
    wanted = min(plan["matches"], wish["limit"] or plan["matches"])
    begun = rest.call("POST", "/jobs", {"plan": plan["plan"]})
    if detach:
        given.output.facts(begun)
        check_rest(plan, wanted - plan["count"], wish["limit"])
        return
    while True:
        jobs.wait(given, rest, begun["id"])
        wanted -= plan["count"]
        if wanted <= 0 or plan["op"] not in _TAKE_AWAY:
            break
        # A job takes only so many: what matched at first goes on in another one.
        following = {**wish, "limit": min(wanted, plan["count"]), "dry_run": True}
        plan = rest.call("POST", "/jobs", following, wait_s=300)
        if not plan["count"]:
            break
        begun = rest.call("POST", "/jobs", {"plan": plan["plan"]})
    check_rest(plan, wanted, wish["limit"])


def check_rest(plan: dict[str, Any], left: int, limit: int | None) -> None:
    """Raises Failure when not all that fits was taken, or looked at, and no `limit` was meant."""
    if left > 0 and plan["op"] not in _TAKE_AWAY:
        raise Failure(
            FAILED,
            f"{jobs.counted(left)} that fit are left: a job takes {plan['count']:,}",
            fix=f"{plan['op']} parts of them, by --where",
        )
    if left > 0:
        raise Failure(FAILED, f"{jobs.counted(left)} that fit are left", fix="give the command again")
    if limit is None and not plan["complete"]:
        raise Failure(
            FAILED,
            f"only the first {plan['scanned']:,} messages were looked at; of the others, some may fit",
            fix="give the command again, or narrow it by --where",
        )


def _tell(given: Invocation, plan: dict[str, Any]) -> None:
    """What would be done, for people."""
    given.output.say(f"at {given.target().url}: {plan['op']} {plan['count']} of {plan['matches']} messages")
    for name, value in _facts(plan).items():
        if value and name not in ("op", "count", "matches"):
            given.output.say(f"  {name}: {value}")


def _facts(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan without what is for programs; of its sample the ids."""
    facts = {name: plan[name] for name in ("op", "source", "target", "matches", "count", "oldest", "newest")}
    for name in ("by_origin", "by_reason"):
        facts[name] = ", ".join(f"{key} {count}" for key, count in plan[name].items())
    facts["sample"] = ", ".join(item["id"] for item in plan["sample"])
    facts["warnings"] = "; ".join(plan["warnings"])
    return facts
