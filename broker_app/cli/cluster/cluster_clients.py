"""`mom cluster clients`, `lists` and `rebalance`: where clients may go, and who is asked to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.failures import USAGE, Failure
from broker_app.cli.configuration.versions import is_machine_format
from broker_app.features.cluster.clients.client_reports import Stays

_STAYS = tuple(filter(None, get_args(Stays)))
_CLIENTS = (
    "id", "user", "client_id", "address", "list_version", "list_since", "behind", "to", "stays",
)  # fmt: skip
_PLACES = ("broker", "listener", "state")
_HELD = ("list", "listener", "since", "clients", "behind")
_VERSIONS = ("version", "since", "cause", "uris")
_LOADS = ("broker", "clients", "surplus", "gets")
_HISTORY = ("began", "ended", "state", "cause", "planned", "moved", "declined")


def clients(
    ctx: typer.Context,
    moves: Annotated[
        bool | None, typer.Option("--moves/--stays", help="only those that would go, or that would stay")
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help=f"only those that stay for this reason: {', '.join(_STAYS)}")
    ] = None,
    behind: Annotated[
        bool | None,
        typer.Option("--behind/--current", help="only those that have not, or have, the present list"),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--list", min=0, help="only those that have this list, 0: none")
    ] = None,
    q: Annotated[
        str | None,
        typer.Option("--filter", help="words of id, user, client_id and address, or a pattern"),
    ] = None,
) -> None:
    """List this broker's clients: the version of the list that each has, and where each would be sent.

    One that is `behind` has an older list than the present one, or none; `list_since` is when its list was
    made. `to` is the broker to which it would go, `stays` the reason why it would not. One with a transaction
    or with deliveries to settle goes when it has done that, if that is in time.
    """
    given = invocation.of(ctx)
    if reason is not None and reason not in _STAYS:
        raise Failure(USAGE, f"{reason!r} is no reason to stay", fix=f"use one of {', '.join(_STAYS)}")
    found = given.rest().pages(
        "/cluster/clients",
        moves=_wanted(moves),
        stays=reason,
        behind=_wanted(behind),
        list_version=version,
        q=q,
    )
    given.output.rows(_CLIENTS, found)


def _wanted(condition: bool | None) -> str | None:
    """A condition in a query."""
    return None if condition is None else str(condition).lower()


def lists(ctx: typer.Context) -> None:
    """Show the list of brokers that clients are sent, former ones, and how many clients have which.

    `mom cluster clients --list VERSION` shows those that have one of them, `--behind` those that have not got
    the present one.
    """
    given = invocation.of(ctx)
    found = given.rest().get("/cluster/lists")
    if is_machine_format(given):
        given.output.facts(found)
        return
    for warning in found["warnings"]:
        given.output.say(f"warning: {warning}")
    if not found["updates"]:
        given.output.say("clients are sent no list: update_cluster_clients (updateClusterClients) is off")
    given.output.say(
        f"list {found['version']}: {found['behind']} of {found['clients']} clients do not have it"
    )
    given.output.rows(_HELD, [{**one, "list": one["version"] or "none"} for one in found["held"]])
    given.output.rows(_PLACES, _places(found))
    given.output.say(f"the last on each list are those of this broker: {' '.join(found['own'])}")
    given.output.rows(_VERSIONS, [{**one, "uris": " ".join(one["uris"])} for one in found["versions"]])
    for one in found["listeners"]:
        given.output.say(
            f"clients of {one['listener']} have settings of their own (transport_connector): "
            + (
                f"list {one['version']}: {' '.join(one['uris'])}"
                if one["updates"]
                else "they are sent no list"
            )
        )


def _places(lists: Mapping[str, Any]) -> list[dict[str, object]]:
    """The other brokers, for each list."""
    by_listener = {"": lists["brokers"], **{one["listener"]: one["brokers"] for one in lists["listeners"]}}
    return [{**one, "listener": listener} for listener, all in by_listener.items() for one in all]


def rebalance(
    ctx: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show what would be done, and do nothing")
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="show former rebalancings, and do nothing")
    ] = False,
) -> None:
    """Ask clients that this broker has above its share to go to brokers that have fewer.

    They go one after the other, ten a second, each once; with a transaction or deliveries to settle they stay
    until they have done that. Clients that prefer this broker stay. `mom cluster clients` shows each of them.
    """
    given = invocation.of(ctx)
    if history or dry_run:
        found = given.rest().get("/cluster/rebalance")
    else:
        found = given.rest().call("POST", "/cluster/rebalance", {})
    if is_machine_format(given):
        given.output.facts(found)
    elif history:
        given.output.rows(_HISTORY, map(_run, [*filter(None, [found["running"]]), *found["history"]]))
    else:
        given.output.rows(_LOADS, found["brokers"])
        given.output.say(_summary(found, dry_run=dry_run))


def _summary(found: Mapping[str, Any], *, dry_run: bool) -> str:
    stays = _counted(found["stays"])
    why = f"; the others stay: {stays}" if stays else ""
    running = found["running"]
    if running is not None:
        gone = _counted(running["moved"]) or "none"
        return f"to go: {_counted(running['planned'])}; gone: {gone} ({running['cause']}){why}"
    if not any(one["gets"] for one in found["brokers"]):
        others = [one["broker"] for one in found["brokers"][1:] if one["surplus"]]
        elsewhere = f"; {', '.join(others)} has more than its share: run it there" if others else ""
        return f"{found['broker']} has no more clients than its share, {found['share']}{elsewhere}"
    would = "would go" if dry_run else "go"
    return f"{found['moves']} clients {would}; no broker has more than {found['share']} then{why}"


def _run(one: Mapping[str, Any]) -> dict[str, object]:
    return {**one, "planned": _counted(one["planned"]), "moved": _counted(one["moved"])}


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())
