"""`mom alert`: what fires, what is said to it, and the rules by which it does."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from broker_app.cli import invocation, resources
from broker_app.cli.invocation import Invocation
from broker_app.cli.resource_types import ALERT_RULES

app = typer.Typer(no_args_is_help=True, help="See and answer alerts, and say what they are looked for by.")
app.add_typer(resources.commands(ALERT_RULES), name="rule")

_COLUMNS = ("id", "state", "severity", "detail", "since", "by", "until")

_Id = Annotated[str, typer.Argument(help="id of the alert")]
_Reason = Annotated[str, typer.Option(help="why: shown with the alert, and kept in the audit log")]


@app.command("ls")
def list_all(
    ctx: typer.Context,
    ended: Annotated[bool, typer.Option("--ended", help="those that ended, too")] = False,
) -> None:
    """List alerts that are open, the worst first.

    An alert is firing, acknowledged by somebody, or silenced until a time.
    """
    given = invocation.of(ctx)
    state = None if ended else "firing,acknowledged,silenced"
    given.output.rows(_COLUMNS, given.rest().pages("/alerts", state=state), whole=True)


@app.command()
def ack(ctx: typer.Context, id: _Id, reason: _Reason = "") -> None:
    """Say that somebody sees to an alert: it is told no more until it ends."""
    given = invocation.of(ctx)
    _say(given, id, "acknowledge", {"reason": reason})


@app.command()
def silence(
    ctx: typer.Context,
    id: _Id,
    minutes: Annotated[float, typer.Option("--for", min=0, help="minutes; 0 takes it back")] = 60,
    reason: _Reason = "",
) -> None:
    """Have an alert, and what comes after it of its rule and subject, not told for a while."""
    given = invocation.of(ctx)
    _say(given, id, "silence", {"for_s": minutes * 60, "reason": reason})


def _say(given: Invocation, id: str, deed: str, body: dict[str, Any]) -> None:
    alert = given.rest().call("POST", f"/alerts/{quote(id, safe='')}/{deed}", body)
    until = f" until {alert['until']}" if alert["until"] else ""
    facts = {name: alert[name] for name in (*_COLUMNS, "rule", "reason")}
    given.output.done(f"alert {id} is {alert['state']}{until}", facts)
