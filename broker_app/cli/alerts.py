"""`mom alert`: alerts, their acknowledgement, and alert rules."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.options import span
from broker_app.cli.configuration import resources
from broker_app.cli.configuration.resource_types import ALERT_RULES

app = typer.Typer(
    no_args_is_help=True, help="List, acknowledge and silence alerts, and configure alert rules."
)
app.add_typer(resources.commands(ALERT_RULES), name="rule")

_COLUMNS = ("id", "state", "severity", "detail", "since", "by", "until")

_Id = Annotated[str, typer.Argument(help="id of the alert")]
_Reason = Annotated[str, typer.Option(help="reason, shown with the alert and kept in the audit log")]


@app.command("ls")
def list_all(
    ctx: typer.Context,
    ended: Annotated[bool, typer.Option("--ended", help="include alerts that ended")] = False,
) -> None:
    """List open alerts, most severe first.

    An alert is firing, acknowledged by a user, or silenced until a time.
    """
    given = invocation.of(ctx)
    state = None if ended else "firing,acknowledged,silenced"
    given.output.rows(_COLUMNS, given.rest().pages("/alerts", state=state), whole=True)


@app.command()
def ack(ctx: typer.Context, id: _Id, reason: _Reason = "") -> None:
    """Acknowledge an alert: no further notifications until it ends."""
    given = invocation.of(ctx)
    _post(given, id, "acknowledge", {"reason": reason})


@app.command()
def silence(
    ctx: typer.Context,
    id: _Id,
    for_s: Annotated[
        float, typer.Option("--for", metavar="1h", parser=span(), help="such as 5m; 0 ends the silence")
    ] = 3600,
    reason: _Reason = "",
) -> None:
    """Silence an alert, and later ones of the same rule and subject: no notifications for a while."""
    given = invocation.of(ctx)
    _post(given, id, "silence", {"for_s": for_s, "reason": reason})


def _post(given: Invocation, id: str, action: str, body: dict[str, object]) -> None:
    alert = given.rest().call("POST", f"/alerts/{quote(id, safe='')}/{action}", body)
    until = f" until {alert['until']}" if alert["until"] else ""
    facts = {name: alert[name] for name in (*_COLUMNS, "rule", "reason")}
    given.output.done(f"alert {id} is {alert['state']}{until}", facts)
