"""What an edit of rules would change: for what was decided in the last 24 hours, and for who is connected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from broker_app.net.decisions import Decided
from broker_app.net.using import Using
from broker_app.rules.event import SEND, Event
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules
from broker_app.web.actions import Changed
from broker_app.web.events import shown
from broker_app.web.kinds import KINDS, Said
from broker_app.web.obeying import Node, ask

#: of what would turn into its opposite, and of clients that would lose something
MOST_SHOWN = 100

_WHO = ("user", "address", "protocol", "tls", "client")
_WHAT = ("right", "destination")


def impact(now: Rules, then: Rules, decided: Iterable[Decided], connected: Iterable[Using]) -> dict[str, Any]:
    """Both sets of rules decide the same events. Counts are of decisions, lists of different events.

    May take a second for thousands of events; is to be called in a thread.
    """
    rows = list(decided)
    stay = {True: 0, False: 0}
    turned: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    times = {True: 0, False: 0}
    for row in rows:
        before, after = now.decide(row.event), then.decide(row.event)
        if before.allowed == after.allowed:
            stay[after.allowed] += row.times
            continue
        times[after.allowed] += row.times
        turned[after.allowed].append(
            {**shown(row.event), "times": row.times, "decided_by": after.reason, "until_now": before.reason}
        )
    clients = list(_losers(now, then, rows, connected))
    for told in turned.values():
        told.sort(key=lambda one: -one["times"])
    return {
        "decisions": {
            "allowed_stay": stay[True],
            "denied_stay": stay[False],
            "become_denied": times[False],
            "become_allowed": times[True],
            "would_be_denied": turned[False][:MOST_SHOWN],
            "would_be_allowed": turned[True][:MOST_SHOWN],
        },
        "clients_affected": len(clients),
        "clients": clients[:MOST_SHOWN],
    }


def of_changes(node: Node | None, changed: Iterable[Changed]) -> dict[str, Any] | None:
    """The impact of edits that were only tried; None where they are not about rules.

    Without a node in this process nothing is known of decisions and clients. Raises Refusal.
    """
    edits = {change.key: change.after for change in changed if change.kind == "rules"}
    if not edits:
        return None
    said = KINDS["rules"].read()
    decided = node.decisions.decided() if node is not None else []
    connected = ask(node, node.in_use()) if node is not None else []
    return impact(rules_of(said), edited(said, edits), decided, connected)


def edited(said: Mapping[str, Said], edits: Mapping[str, Said | None]) -> Rules:
    """The rules of `said`, documents by name, after these edits; None ends one. Raises RuleError."""
    return rules_of({name: one for name, one in {**said, **edits}.items() if one is not None})


def rules_of(said: Mapping[str, Said]) -> Rules:
    """Rules out of their documents, in the order of their positions. Raises RuleError."""
    ordered = sorted(said.items(), key=lambda item: (item[1]["position"], item[0]))
    return Rules([rule_of(name, one) for name, one in ordered])


def rule_of(name: str, said: Said, source: str = "") -> Rule:
    return Rule(name, said["effect"], said["conditions"], tuple(said["users"]), tuple(said["groups"]), source)


def _losers(
    now: Rules, then: Rules, rows: Sequence[Decided], connected: Iterable[Using]
) -> Iterable[dict[str, Any]]:
    """The connections that would lose what they use: what they subscribed to, or sent to since they came."""
    sent: defaultdict[Hashable, list[Decided]] = defaultdict(list)
    for row in rows:
        if row.event.right == SEND:
            sent[_facts(row.event)].append(row)
    for using in connected:
        events = list(using.receives)
        events += [row.event for row in sent[_facts(using.who)] if row.last_s >= using.since_s]
        lost = []
        for event in dict.fromkeys(events):
            after = then.decide(event)
            if not after.allowed and now.decide(event).allowed:
                what = shown(event)
                lost.append({**{key: what[key] for key in _WHAT}, "decided_by": after.reason})
        if lost:
            who = shown(using.who)
            about = {key: who[key] for key in _WHO}
            yield {"connection": using.connection, **about, "loses": lost[:MOST_SHOWN]}


def _facts(event: Event) -> Hashable:
    return event.user, event.address, event.protocol, event.tls, event.client
