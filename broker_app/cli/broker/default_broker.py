"""`mom status` and `mom stop`: the broker that commands use, without its name."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from broker_app.base import durations
from broker_app.cli.base import invocation
from broker_app.cli.base.options import Yes
from broker_app.cli.broker import broker_control
from broker_app.cli.configuration.versions import is_machine_format

_MIB = 1 << 20
#: alerts that are counted
_MOST = 500


def status(ctx: typer.Context) -> None:
    """Show in a few lines how the broker is: its state, clients, rates, what waits, and what fires.

    Exit code 0 means that it answers. Details: `mom broker query`, `mom stats`, `mom alert ls`, `mom doctor`.
    """
    given = invocation.of(ctx)
    rest = given.rest()
    broker, node = rest.get("/broker"), rest.get("/stats")["node"]
    alerts = rest.get("/alerts", state="firing", limit=_MOST)["items"]
    if is_machine_format(given):
        fires = dict(Counter(alert["severity"] for alert in alerts))
        given.output.facts({**broker, "node": node, "firing": fires})
        return
    given.output.facts(
        {
            "broker": f"{broker['name']} ({broker['version']}) at {given.target().url}",
            "state": f"{broker['state']}, for {durations.since(broker['started_at'])}",
            "clients": broker_control.connected(broker),
            "messages": f"{node['in_rate']:g}/s in, {node['out_rate']:g}/s out",
            "waiting": _waiting(node),
            "alerts": _firing(alerts),
            "memory": f"{node['memory_bytes'] // _MIB} MiB, journal {node['journal_bytes'] // _MIB} MiB",
        }
    )


def stop(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option(help="kept in the audit log, and sent to clients")] = "",
    yes: Yes = False,
) -> None:
    """Shut down the broker that commands use: it finishes what it has accepted, and ends.

    `mom broker stop NAME` does the same for a broker by its name, and knows --no-failover.
    """
    given = invocation.of(ctx)
    name = given.rest().get("/broker")["name"]
    broker_control.give(broker_control.STOP, given, name, {"name": name, "reason": reason}, yes=yes)


def _waiting(node: dict[str, Any]) -> str:
    oldest = f", the oldest for {durations.in_words(node['oldest_s'])}" if node["oldest_s"] else ""
    rest = f"{node['unsettled']:,} unsettled, {node['dead']:,} dead letters"
    return f"{node['backlog']:,} messages{oldest}; {rest}"


def _firing(alerts: list[dict[str, Any]]) -> str:
    counts = Counter(alert["severity"] for alert in alerts)
    return ", ".join(f"{count} {severity}" for severity, count in sorted(counts.items())) or "none fires"
