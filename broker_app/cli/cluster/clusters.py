"""`mom cluster`: the brokers of a cluster, their links, and where consumers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from broker_app.base.reply_types import Facts
from broker_app.base.states import LINK
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import FAILED, USAGE, Failure
from broker_app.cli.base.prompts import confirm
from broker_app.cli.cluster import cluster_clients
from broker_app.cli.cluster.cluster_demo import demo
from broker_app.cli.cluster.cluster_record import app as record_app
from broker_app.cli.configuration.versions import is_machine_format
from broker_app.features.cluster.report import ADOPTED_MARK

app = typer.Typer(
    no_args_is_help=True,
    help="""Show the cluster of a broker: the other brokers, and where consumers are.

    Brokers of a cluster have a journal each. A client uses one of them, its home broker; messages cross to
    where their consumers are. Start each with the addresses of all, `mom up --name b1 --cluster-port 7676
    --cluster b1host:7676,b2host:7676,b3host:7676`, and the same MOM_CLUSTER_SECRET. `mom cluster demo` starts
    three of them on this machine.
    """,
)
app.command()(demo)
for command in (cluster_clients.clients, cluster_clients.lists, cluster_clients.rebalance):
    app.command()(command)
app.add_typer(record_app, name="record")

_BROKERS = (
    "broker", "state", "address", "found_by", "sent_rate", "received_rate", "unsettled", "round_trip_ms",
    "since", "reason",
)  # fmt: skip
_LINKS = (
    "broker", "state", "taken_by", "sent", "sent_rate", "received", "received_rate", "returned",
    "unsettled_there", "unsettled_here", "round_trip_ms", "tls", "version", "address", "found_by", "since",
    "reason",
)  # fmt: skip
_MEMBERS = ("broker", "state", "messages", "taken_by", "seen_s", "address", "why")
_TAKEOVERS = (
    "began", "member", "taker", "result", "took_s", "messages", "epoch", "suspected", "why", "lost", "error",
    "journal",
)  # fmt: skip
#: seconds for a takeover or a removal that was ordered
_TAKEOVER_S = 70.0
#: seconds in which all brokers have read the central file
_RELOAD_S = 40.0
_RELOADED = ("broker", "property", "result", "running", "file", "error")
_CONSUMERS = ("address", "broker", "consumers", "credit", "selector")
_DESTINATIONS = (
    "address", "broker", "depth", "unsettled", "consumers", "max_messages", "max_bytes", "max_producers",
    "scope",
)  # fmt: skip


@app.command()
def status(ctx: typer.Context) -> None:
    """Show this broker and the others. Exit code 1 while one is not connected, or the keeper is away.

    A member of an enhanced cluster that is away and was taken over is named, and is no failure: the exit code
    is 0 if there is nothing else.
    """
    given = invocation.of(ctx)
    found = given.rest().get("/cluster")
    if is_machine_format(given):
        given.output.facts(found)
    else:
        given.output.say(_summary(found))
        given.output.say(_keeper(found))
        for one in found["adopted"]:
            left = f"messages left in it: {one['messages']}"
            given.output.say(f"{one['member']} has failed, and this broker serves its journal; {left}")
        if found["enhanced"] is not None:
            _say_enhanced(given, found["enhanced"])
        for one in found["discovery"]:
            works = f"does not work: {one['error']}" if one["error"] else "works"
            given.output.say(f"brokers are found by {one['way']} {one['place']}: it {works}")
        here = {"broker": found["broker"], "state": "here", "address": found["address"]}
        given.output.rows(_BROKERS, [here, *map(_row, found["links"])])
    trouble = [_trouble(link) for link in _expected(found) if link["state"] != "up"]
    if trouble or found["keeper_state"]:
        raise Failure(
            FAILED,
            f"not connected with {', '.join(trouble)}" if trouble else found["keeper_state"],
            fix="`mom cluster links` shows each link, docs/clusters.md what to do",
        )


@app.command()
def links(
    ctx: typer.Context,
    state: Annotated[str | None, typer.Option(help=f"only links in this state: {', '.join(LINK)}")] = None,
    q: Annotated[
        str | None, typer.Option("--filter", help="words of the broker's name, or a pattern")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="columns to sort by, - for descending: -sent_rate,broker")
    ] = None,
) -> None:
    """List the links to the other brokers, with what has crossed since this broker started.

    `unsettled_there` are messages of this broker that consumers there have and have not acknowledged,
    `unsettled_here` those of the other broker here; `returned` found no consumer and went back.
    """
    given = invocation.of(ctx)
    if state is not None and state not in LINK:
        raise Failure(USAGE, f"{state!r} is no state of a link", fix=f"use one of {', '.join(LINK)}")
    found = given.rest().pages("/cluster/links", state=state, q=q, sort=sort)
    given.output.rows(_LINKS, found, whole=True)


@app.command()
def consumers(
    ctx: typer.Context,
    destination: Annotated[
        str | None, typer.Argument(help="a queue, or /topic/NAME: only consumers that receive from it")
    ] = None,
    q: Annotated[
        str | None, typer.Option("--filter", help="words of address, broker and selector, or a pattern")
    ] = None,
) -> None:
    """List which broker has consumers of what: where the messages of a queue go, and why they wait."""
    given = invocation.of(ctx)
    found = list(given.rest().pages("/cluster/consumers", destination=destination, q=q))
    given.output.rows(_CONSUMERS, found)
    if not found:
        of = f" of {destination}" if destination else ""
        given.output.say(f"no broker of the cluster has consumers{of}, as far as they can be reached")


@app.command()
def destinations(
    ctx: typer.Context,
    destination: Annotated[
        str | None, typer.Argument(help="a queue, or /topic/NAME: only this one, at each broker")
    ] = None,
    q: Annotated[str | None, typer.Option("--filter", help="words of the address, or a pattern")] = None,
) -> None:
    """List the queues and topics of all brokers: what each has of them, its consumers, and its limits.

    A message is counted at the broker that stores it, a consumer where it is connected. A limit of 0 is none;
    with the scope cluster all brokers share it.
    """
    given = invocation.of(ctx)
    missing: dict[str, None] = {}

    def note(page: Facts) -> None:
        missing.update(dict.fromkeys(page["not_shown"]))

    found = given.rest().pages("/cluster/destinations", destination=destination, q=q, on_page=note)
    given.output.rows(_DESTINATIONS, list(found))
    if missing:
        given.output.say(
            f"not shown: the destinations of {', '.join(missing)}, which cannot be asked now or have not "
            "answered in time; `mom cluster status` says why"
        )


@app.command()
def takeovers(ctx: typer.Context) -> None:
    """List the takeovers of an enhanced cluster: who took over whom and why, and what was lost."""
    given = invocation.of(ctx)
    enhanced = _enhanced(given)
    given.output.rows(_TAKEOVERS, enhanced["takeovers"], whole=True)
    if not enhanced["takeovers"]:
        given.output.say("no member was taken over")


@app.command()
def takeover(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="name of the member that is taken over")] = "",
    named: Annotated[str, typer.Option("-n", help="the same, as imqcmd has it", hidden=True)] = "",
    force: Annotated[
        bool, typer.Option("--force", "-f", help="do not ask, and take over although the member may be alive")
    ] = False,
    reason: Annotated[str, typer.Option(help="kept in the audit log")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> None:
    """Have this broker take over from a member of its enhanced cluster (imqcmd takeover bkr).

    Members that fail are taken over without an order. This is for one that was shut down with --no-failover,
    or hangs. With --force a member that is alive stops to serve: what it has only in memory is lost.
    """
    given = invocation.of(ctx)
    name = name or named
    if not name:
        raise Failure(USAGE, "no member is named", fix="`mom cluster status` lists them all")
    member = _member(given, name)
    given.output.say(f"{name} is {member['state']}; its last heart-beat was {member['seen_s']:g} s ago")
    if not (force or yes):
        confirm(name, f"take over {name}", production=given.target().production)
    order = {"member": name, "force": force, "reason": reason}
    done = given.rest().call("POST", "/cluster/takeover", order, wait_s=_TAKEOVER_S)
    given.output.done(
        f"{done['taker']} has taken over {done['messages']} messages of {name} in {done['took_s']:g} s, "
        f"epoch {done['epoch']}; lost: {done['lost']}",
        done,
    )


@app.command()
def remove(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="name of the member that is removed")],
    force: Annotated[
        bool, typer.Option("--force", "-f", help="do not ask, and remove it although its messages are lost")
    ] = False,
    reason: Annotated[str, typer.Option(help="kept in the audit log")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> None:
    """Remove a member of the enhanced cluster that is gone for good (imqdbmgr remove bkr).

    Its journals are deleted from the store, and it is listed no longer. A member that is alive is refused,
    and so is one whose messages are not delivered yet, unless with --force: then they are lost. A broker that
    is started with its name is a new member.
    """
    given = invocation.of(ctx)
    member = _member(given, name)
    given.output.say(f"{name} is {member['state']}; messages in its journal: {member['messages']}")
    if not (force or yes):
        confirm(name, f"remove {name}", production=given.target().production)
    order = {"member": name, "force": force, "reason": reason}
    done = given.rest().call("POST", "/cluster/remove", order, wait_s=_TAKEOVER_S)
    lost = f" with {done['messages']} messages" if done["messages"] else ""
    given.output.done(f"{name} is removed, and {', '.join(done['journals'])} deleted{lost}", done)


@app.command()
def reload(ctx: typer.Context) -> None:
    """Read the central file again, here and at all brokers that are linked (imqcmd reload cls).

    The list of brokers, and settings that can be changed while a broker runs, are used at once; others are
    refused with both values, and used after `mom broker restart`. Exit code 1 if any was refused, or a broker
    did not get the order.
    """
    given = invocation.of(ctx)
    found = given.rest().call("POST", "/cluster/reload", wait_s=_RELOAD_S)
    if is_machine_format(given):
        given.output.facts(found)
    else:
        given.output.rows(_RELOADED, [row for one in found["brokers"] for row in _rows_of_reload(one)])
    wrong = [one["broker"] for one in found["brokers"] if one["refused"] or one["error"]]
    if wrong or found["not_linked"]:
        missed = f"; not linked: {', '.join(found['not_linked'])}" if found["not_linked"] else ""
        raise Failure(
            FAILED,
            f"the central file is not in use everywhere; refused by {', '.join(wrong) or 'none'}{missed}",
            fix="restart those one after the other, `mom broker restart NAME`, or change the file back",
        )


@app.command()
def changemaster(
    ctx: typer.Context,
    broker: Annotated[str, typer.Argument(help="name of the broker that is to be the keeper")],
) -> None:
    """Have another broker keep the change record (the master broker). Run it at the present keeper.

    It needs cluster_dynamic_keeper (imq.cluster.dynamicChangeMasterBrokerEnabled) at all brokers.
    """
    given = invocation.of(ctx)
    found = given.rest().call("PUT", "/cluster/keeper", {"broker": broker})
    given.output.say(f"{found['result']}: {found['keeper']} is the keeper")


def _rows_of_reload(one: Mapping[str, Any]) -> Sequence[Facts]:
    """The settings that the central file has changed at one broker, or one row without any."""
    results = (("applied", one["applied"]), ("needs a restart", one["refused"]))
    rows = [{"broker": one["broker"], "result": what, **changed} for what, all in results for changed in all]
    nothing = "failed" if one["error"] else "as before"
    return rows or [{"broker": one["broker"], "result": nothing, "error": one["error"]}]


def _enhanced(given: invocation.Invocation) -> Mapping[str, Any]:
    """The enhanced cluster of the broker. Raises Failure."""
    found: Mapping[str, Any] | None = given.rest().get("/cluster")["enhanced"]
    if found is None:
        raise Failure(
            FAILED,
            "this broker is no member of an enhanced cluster: its messages wait for it when it fails",
            fix="start the brokers with --cluster-id and a shared --journal (docs/clusters.md)",
        )
    return found


def _member(given: invocation.Invocation, name: str) -> Mapping[str, Any]:
    """A member of the enhanced cluster. Raises Failure."""
    known: dict[str, Mapping[str, Any]] = {one["broker"]: one for one in _enhanced(given)["members"]}
    if name in known:
        return known[name]
    names = ", ".join(known)
    raise Failure(USAGE, f"there is no member {name}", fix=f"the members are {names}")


def _say_enhanced(given: invocation.Invocation, found: Mapping[str, Any]) -> None:
    given.output.say(
        f"enhanced cluster {found['cluster_id']}: a member that fails is taken over after "
        f"{found['worst_case_s']:g} s at most (heart-beat {found['heartbeat_s']:g} s x "
        f"{found['heartbeat_threshold']}, then looks "
        f"{found['monitor_s']:g} s x {found['monitor_threshold']}; lease {found['lease_s']:g} s)"
    )
    if found["taking_over"]:
        given.output.say(f"this broker takes over from {found['taking_over']} now")
    given.output.rows(_MEMBERS, found["members"])
    for one in found["members"]:
        if one["state"] == "TAKEOVER_COMPLETE":
            given.output.say(f"{one['broker']} is away, and {one['taken_by']} has taken over from it")
    for one in found["members"]:
        if one["suspicion"] is not None:
            given.output.say(_suspect(one, found["monitor_threshold"]))
    for one in found["takeovers"][:1]:
        lost = f"; lost: {one['lost']}" if one["lost"] else ""
        given.output.say(
            f"last takeover: {one['taker']} of {one['member']} at {one['began']}, {one['result']} in "
            f"{one['took_s']:g} s ({one['why']}){lost}; `mom cluster takeovers` lists all"
        )


def _suspect(member: Mapping[str, Any], threshold: int) -> str:
    """A sentence about a member that is suspect: since when, by whom and why, and when it is taken over."""
    suspicion = member["suspicion"]
    return (
        f"{member['broker']} is suspect since {suspicion['since']}, by {', '.join(suspicion['by'])}: "
        f"{member['why']}; it is taken over after {threshold} looks, when its lease has ended"
    )


def _expected(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The links that are up or should be."""
    return [link for link in found["links"] if not link["taken_by"]]


def _summary(found: Mapping[str, Any]) -> str:
    links = [link for link in _expected(found) if ADOPTED_MARK not in link["broker"]]
    up = sum(link["state"] == "up" for link in links)
    count = f"{up} of {len(links)} other brokers" if links else "no other broker"
    if links and up == len(links):
        count = "the other broker" if up == 1 else f"all {up} other brokers"
    quiesced = "; it refuses new clients (quiesced)" if found["quiesced"] else ""
    return f"{found['broker']} at {found['address']}: connected with {count}{quiesced}"


def _keeper(found: Mapping[str, Any]) -> str:
    if not found["keeper"]:
        return "no keeper"
    here = ", which is this broker" if found["keeper_is_here"] else ""
    refused = f"; changes of the configuration are refused: {found['keeper_state']}"
    return f"keeper {found['keeper']}{here}{refused if found['keeper_state'] else ''}"


def _row(link: Mapping[str, Any]) -> dict[str, object]:
    unsettled = link["unsettled_there"] + link["unsettled_here"]
    return {**link, "unsettled": unsettled, "state": "quiesced" if _is_quiesced(link) else link["state"]}


def _is_quiesced(link: Mapping[str, Any]) -> bool:
    """Return whether a broker that is connected refuses new clients."""
    return bool(link["quiesced"] and link["state"] == "up")


def _trouble(link: Mapping[str, Any]) -> str:
    why = f": {link['reason']}" if link["reason"] else ""
    return f"{link['broker']} ({link['state']}{why})"
