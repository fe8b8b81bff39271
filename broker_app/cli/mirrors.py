"""`mom mirror`: the brokers that share a journal, planned switch-overs and forced takeovers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from broker_app.base import durations
from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import FAILED, NOT_FOUND, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.options import Span, span
from broker_app.cli.base.prompts import confirm
from broker_app.cli.configuration.versions import is_machine_format

app = typer.Typer(
    no_args_is_help=True,
    help="""Show the mirrors of a broker, and have one of them take over.

    Brokers of one name that share a journal mirror each other: one is active, the others follow it. Start
    the first with `mom up --name B1 --journal URL`, its mirror with `mom up --name B1 --role -1 --journal
    URL`. `takeover` is for the standby that is to take over, `drill` for any standby; the others work at the
    active broker and at standbys.
    """,
)

_BROKERS = ("id", "role", "state", "position", "lag_records", "lag_s", "in_step", "seen_s")
_TAKEOVERS = ("at", "epoch", "cause", "detail")
#: seconds that a drill may take
_DRILL_S = 150.0
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="only show what would be lost")]


@app.command()
def status(ctx: typer.Context) -> None:
    """Show the brokers that share the journal, what would be lost now, and past takeovers."""
    given = invocation.of(ctx)
    found = _status(given)
    if is_machine_format(given):
        given.output.facts(found)
        return
    lease, lost = found["lease"], found["would_be_lost"]
    held = f"held by {lease['holder']}, epoch {lease['epoch']}" if lease else "never held"
    given.output.say(f"broker {found['name']}, journal in {found['journal']}; lease {held}")
    given.output.say(f"configuration: {found['configuration']}")
    if private := found["private_journal"]:
        why = f": {private['error']}" if private["error"] else ""
        given.output.say(f"private journal in {private['place']}: {private['state']}{why}")
    given.output.rows(_BROKERS, found["brokers"])
    if found["pause"]:
        given.output.say(f"{_paused(found['pause'])}; end it with `mom mirror resume`")
    given.output.say(f"lost if the active broker failed now: {_loss(lost)}")
    given.output.rows(_TAKEOVERS, found["takeovers"][:10], whole=True)


@app.command()
def switchover(
    ctx: typer.Context,
    to: Annotated[str, typer.Option(help="id of the standby; else the one nearest to the end")] = "",
    reason: Annotated[str, typer.Option(help="kept in the audit log")] = "",
    dry_run: _DryRun = False,
    yes: _Yes = False,
) -> None:
    """Have a standby take over without loss. The active broker hands over, and becomes a standby."""
    given = invocation.of(ctx)
    path = f"/mirrors/{quote(_status(given)['name'], safe='')}/switchover"
    preview = given.rest().call("POST", path, {"to": to, "dry_run": True})
    given.output.say(f"{preview['to']} takes over; lost: {_loss(preview['would_be_lost'])}")
    if dry_run:
        given.output.facts(preview)
        return
    if not yes:
        confirm(preview["to"], f"switch over to {preview['to']}", production=given.target().production)
    done = given.rest().call("POST", path, {"to": preview["to"], "reason": reason})
    given.output.done(f"{done['to']} takes over", done)


@app.command()
def takeover(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option(help="kept in the timeline and in the audit log")],
    dry_run: _DryRun = False,
    yes: _Yes = False,
) -> None:
    """Take the journal over by force, at this standby: the active broker hangs, or cannot be reached.

    What it has only in memory is lost: non-persistent messages. The store refuses whatever it still writes,
    and it stops itself as soon as it notices.
    """
    given = invocation.of(ctx)
    found = _status(given)
    path = f"/mirrors/{quote(found['name'], safe='')}/takeover"
    order = {"expect_epoch": (found["lease"] or {"epoch": 0})["epoch"], "reason": reason}
    preview = given.rest().call("POST", path, {**order, "dry_run": True})
    given.output.say(f"lost by a forced takeover: {_loss(preview['would_be_lost'])}")
    if dry_run:
        given.output.facts(preview)
        return
    if not yes:
        confirm(
            found["name"], f"take over broker {found['name']} by force", production=given.target().production
        )
    done = given.rest().call("POST", path, {**order, "accept_loss": True})
    given.output.done(f"{found['id']} takes over", done)


@app.command()
def pause(
    ctx: typer.Context,
    for_s: Annotated[
        float, typer.Option("--for", metavar="1h", parser=span(1), help="it ends by itself after that")
    ] = Span(3600),
    reason: Annotated[str, typer.Option(help="kept in the audit log, and shown by status")] = "",
) -> None:
    """Have no standby take over by itself, as for maintenance of the store or of the active broker.

    If the active broker ends meanwhile, it serves again when it is started again. `mom mirror switchover`
    and `mom mirror takeover` work during a pause.
    """
    given = invocation.of(ctx)
    path = f"/mirrors/{quote(_status(given)['name'], safe='')}/pause"
    done = given.rest().call("POST", path, {"for_s": for_s, "reason": reason})
    given.output.done(_paused(done["pause"]), done)


@app.command()
def resume(ctx: typer.Context) -> None:
    """End a pause: standbys take over again."""
    given = invocation.of(ctx)
    path = f"/mirrors/{quote(_status(given)['name'], safe='')}/resume"
    given.output.done("standbys take over again", given.rest().call("POST", path))


@app.command()
def drill(ctx: typer.Context) -> None:
    """Try at this standby whether it could serve now, without a takeover; exit code 1 if it could not.

    It applies the whole journal once more, apart from what it follows, reads messages that wait, writes into
    the store, and compares settings and configuration with those of the active broker.
    """
    given = invocation.of(ctx)
    path = f"/mirrors/{quote(_status(given)['name'], safe='')}/drill"
    found = given.rest().call("POST", path, wait_s=_DRILL_S)
    if is_machine_format(given):
        given.output.facts(found)
    else:
        given.output.rows(("name", "ok", "detail"), found["checks"], whole=True)
    if not found["could_serve"]:
        failed = ", ".join(check["name"] for check in found["checks"] if not check["ok"])
        raise Failure(FAILED, f"this standby could not serve now: {failed}", fix="see the details above")
    given.output.say(f"this standby could serve now; the drill took {found['took_s']:.1f} s")


def _paused(pause: Mapping[str, Any]) -> str:
    why = f": {pause['reason']}" if pause["reason"] else ""
    return f"takeovers are paused for {durations.in_words(pause['left_s'])} by {pause['user']}{why}"


def _status(given: Invocation) -> Facts:
    found = given.rest().call("GET", "/mirrors")["items"]
    if not found:
        raise Failure(
            NOT_FOUND,
            "this broker has no mirrors: its journal is not shared",
            fix="start it with --journal postgresql://…, redis://… or file:/…, see docs/mirrors.md",
        )
    return dict(found[0])


def _loss(lost: Facts) -> str:
    count = lost["non_persistent"]
    transient = "an unknown number of" if count is None else f"about {count}"
    return f"{lost['persistent']} persistent and {transient} non-persistent messages"
