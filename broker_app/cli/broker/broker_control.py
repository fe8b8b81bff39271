"""`mom broker query`, `quiesce`, `pause`, `restart`, `stop` and others: the broker that runs, as a whole."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli import metrics
from broker_app.cli.base import invocation
from broker_app.cli.base.prompts import confirm
from broker_app.cli.broker.broker_run import app
from broker_app.cli.configuration.versions import is_machine_format

_Name = Annotated[str, typer.Argument(help="name of the broker, so that no other one gets the order")]
_WhyOption = Annotated[str, typer.Option("--reason", help="kept in the audit log, and shown by query")]
_NoFailover = Annotated[
    bool,
    typer.Option(
        "--no-failover", "--nofailover", help="no other member of an enhanced cluster takes over its messages"
    ),
]
_Time = Annotated[
    float,
    typer.Option(
        "--time",
        min=0,
        help="seconds until it stops; meanwhile it takes no new clients, and `mom broker query` shows how "
        "many are left",
    ),
]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask")]


class _Order(NamedTuple):
    """A command that gives an order: where it is sent, its answer and its help; whether it `asks` first."""

    command: str
    path: str
    answer: str
    help: str
    asks: bool = False
    hidden: bool = False
    #: whether it can keep others from taking over
    ends: bool = False


_STOP = """Shut a broker down: it accepts nothing more, finishes what it has accepted, and ends.

    Its clients are notified. In an enhanced cluster another member takes its messages over after three
    seconds, unless --no-failover keeps them for this broker.

    With --time it stops later, and is quiesced until then: `mom broker unquiesce NAME` calls it off, the same
    order without --time stops it at once, and with another --time it takes the place of the former one.

    Example: the callback broker of this machine, also one that was started automatically:

        mom --context REcallback broker stop REcallback
    """
#: of which `mom stop` is another form
STOP = _Order("stop", "/shutdown", "{name} stops", _STOP, asks=True, ends=True)
#: its answer when it is carried out later
_LATER = (
    "{name} stops at {due}, and takes no new clients until then; `mom broker unquiesce {name}` calls it off"
)
_ORDERS = (
    _Order(
        "quiesce",
        "/broker/quiesce",
        "{name} takes no new clients ({connected})",
        """Refuse new clients, and go on with those that are connected.

    A client that connects, or publishes or receives over REST, is refused as `quiesced`, with the addresses
    of other brokers; load balancers learn it from /health/ready. Mirrors do not take over. It ends with
    `mom broker unquiesce`, or when the broker stops.

    Example: empty a broker before it is shut down. It is when its state is QUIESCE_COMPLETE:

        mom broker quiesce b1 --reason "new disks" --yes

        mom broker query
    """,
        asks=True,
    ),
    _Order("unquiesce", "/broker/unquiesce", "{name} takes new clients", "Take new clients again."),
    _Order(
        "pause",
        "/broker/pause",
        "{name} serves no clients until `mom broker resume {name}`",
        """Serve no clients: read nothing from them, and deliver nothing to them.

    Connections stay open, and heart-beats are sent. New clients, and requests that publish, receive or settle
    messages, are refused as `paused`. Console, administration, metrics and links of clusters go on, as do
    bridges and callbacks. It ends with `mom broker resume`, or when the broker stops. One queue is paused by
    `mom queue pause`.
    """,
        asks=True,
    ),
    _Order("resume", "/broker/resume", "{name} serves clients", "Serve clients again."),
    _Order(
        "restart",
        "/broker/restart",
        "{name} stops, and starts again",
        """Stop a broker as for a shutdown, and start it again with the same options and ports.

    For a broker that was started by `mom up` or `mom broker run`. Persistent messages stay; others are lost.
    One whose mirror would take over meanwhile refuses: pause that with `mom mirror pause --for 5m` first.
    """,
        asks=True,
    ),
    STOP,
    _Order("shutdown", "/shutdown", "{name} stops", _STOP, asks=True, hidden=True, ends=True),
)


def _add(order: _Order) -> None:
    if order.ends:

        @app.command(order.command, help=order.help, hidden=order.hidden)
        def end(
            ctx: typer.Context,
            name: _Name,
            reason: _WhyOption = "",
            no_failover: _NoFailover = False,
            time: _Time = 0.0,
            yes: _Yes = False,
        ) -> None:
            more: dict[str, object] = {"no_failover": True} if no_failover else {}
            body = {"name": name, "reason": reason, **more, **({"delay_s": time} if time else {})}
            later = order._replace(answer=_LATER) if time else order
            give(later, invocation.of(ctx), name, body, yes=yes)

        return

    @app.command(order.command, help=order.help, hidden=order.hidden)
    def give_plainly(ctx: typer.Context, name: _Name, reason: _WhyOption = "", yes: _Yes = False) -> None:
        give(order, invocation.of(ctx), name, {"name": name, "reason": reason}, yes=yes)


def give(
    order: _Order, given: invocation.Invocation, name: str, body: dict[str, object], *, yes: bool
) -> None:
    """Give an order to the broker of a name, and print its answer. Asks first unless `yes`."""
    if order.asks and not yes:
        verb = "shut down" if order.path == "/shutdown" else order.command
        confirm(name, f"{verb} {name}", production=given.target().production)
    done = given.rest().call("POST", order.path, body)
    due = done.get("due", "")
    given.output.done(order.answer.format(name=done["name"], connected=connected(done), due=due), done)


for _one in _ORDERS:
    _add(_one)


@app.command()
def query(ctx: typer.Context) -> None:
    """Show the state of the broker that runs: whether it takes and serves clients, and how many there are."""
    given = invocation.of(ctx)
    found = given.rest().get("/broker")
    if is_machine_format(given):
        given.output.facts(found)
        return
    given.output.facts(
        {
            "name": found["name"],
            "version": found["version"],
            "state": found["state"],
            "quiesced": _ordered(found["quiesced"]),
            "paused": _ordered(found["paused"]),
            "shutdown": _planned(found["shutdown"]),
            "clients": connected(found),
            "other addresses": ", ".join(found["other_addresses"]),
            "started at": found["started_at"],
            "restart": found["restart_refusal"] or "can be restarted",
        }
    )


app.command("metrics")(metrics.of_broker)


def connected(found: Facts) -> str:
    """The numbers of clients by protocol."""
    clients = found.get("clients", {})
    counts = [f"{count} over {protocol.upper()}" for protocol, count in clients.items() if count]
    return ", ".join(counts) or "no client is connected"


def _planned(shutdown: Facts | None) -> str:
    """The time that is left until a shutdown, and who has ordered it; `no` without one."""
    if shutdown is None:
        return "no"
    return f"in {shutdown['left_s']:.0f} s, ordered {_ordered(shutdown).removeprefix('since ')}"


def _ordered(order: Facts | None) -> str:
    """The time, user and reason of an order; `no` without one."""
    if order is None:
        return "no"
    why = f": {order['reason']}" if order["reason"] else ""
    return f"since {order['at']} by {order['by']}{why}"
