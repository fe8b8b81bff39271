"""`mom alert`: alerts, their acknowledgement, and alert rules."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.failures import FAILED, USAGE, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.options import Span, span
from broker_app.cli.configuration import resources
from broker_app.cli.configuration.resource_types import ALERT_RULES

app = typer.Typer(
    no_args_is_help=True, help="List, acknowledge and silence alerts, and configure alert rules."
)
app.add_typer(resources.commands(ALERT_RULES), name="rule")

#: seconds that a test may take: ten targets, two at a time, and a little more
_TEST_S = 110.0
_TESTED = ("target", "ok", "seconds", "detail")
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
    ] = Span(3600),
    reason: _Reason = "",
) -> None:
    """Silence an alert, and later ones of the same rule and subject: no notifications for a while."""
    given = invocation.of(ctx)
    _post(given, id, "silence", {"for_s": for_s, "reason": reason})


@app.command("test")
def check_targets(
    ctx: typer.Context,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            help="queue:NAME, https://HOST/PATH or mailto:ADDRESS",
            show_default="those of the setting alert_notify",
        ),
    ] = None,
    rule: Annotated[str | None, typer.Option(help="test the targets of this alert rule")] = None,
) -> None:
    """Send a notification to targets now, once, and show what each answers.

    Exit code 1 when one does not accept it. Its event is test, and it has no alert.
    """
    given = invocation.of(ctx)
    if rule is not None and targets:
        raise Failure(USAGE, "both targets and a rule are given", fix="leave out the targets, or --rule")
    chosen = _targets_of(given, rule) if rule is not None else targets or []
    given.output.say(f"testing {len(chosen) or 'the'} targets …")
    tested = given.rest().call("POST", "/alerts/test", {"targets": chosen}, wait_s=_TEST_S)["items"]
    given.output.rows(_TESTED, tested, whole=True)
    if failed := [one["target"] for one in tested if not one["ok"]]:
        raise Failure(
            FAILED,
            f"{len(failed)} of {len(tested)} targets did not accept it: {', '.join(failed)}",
            fix="the column detail has the reasons; `mom alert rule set NAME notify=…` changes the targets",
        )


def _targets_of(given: Invocation, rule: str) -> list[str]:
    """The targets of an alert rule; none if it uses those of all rules."""
    found: list[str] = given.rest().get(resources.path_of(ALERT_RULES, rule))["notify"]
    return found


def _post(given: Invocation, id: str, action: str, body: dict[str, object]) -> None:
    alert = given.rest().call("POST", f"/alerts/{quote(id, safe='')}/{action}", body)
    until = f" until {alert['until']}" if alert["until"] else ""
    facts = {name: alert[name] for name in (*_COLUMNS, "rule", "reason")}
    given.output.done(f"alert {id} is {alert['state']}{until}", facts)
